package modeltest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"patchbay/am"
)

// This file models the AM API, versions 2 and 3, with simple maps: the slivers of each
// slice, their leases, and the expected answer to each call. It shares no code and no table
// with the aggregate.

// plain is the model: all that the site has reserved.
type plain struct {
	slices map[string]*plainSlice
	leases plainLeases
}

// plainLeases are the lease limits that this site documents.
type plainLeases struct {
	allocated, allocatedMax, provisioned, provisionedMax, margin time.Duration
}

// plainSlice is a slice as its owner knows it.
type plainSlice struct {
	name  string
	shut  bool
	nodes []*plainNode
}

// plainNode is a sliver as its owner knows it.
type plainNode struct {
	urn, client, component, kind string
	// state is a key of wire.
	state string
	// on means that the node must be switched on after its creation.
	on bool
	// linked means that the node has an interface.
	linked        bool
	expires, wish time.Time
	// granted is the end of the lease that an operator has set for a reservation.
	granted time.Time
	// latest is the latest possible end of the lease: the end of the credential with which
	// the lease was requested, or the end that an operator has set.
	latest time.Time
}

// wire maps the states of the model to the operational states of the API.
var wire = map[string]string{
	"reserved": "geni_pending_allocation", "making": "geni_pending_allocation", "off": "geni_notready", "starting": "geni_configuring",
	"on": "geni_ready", "stopping": "geni_stopping", "updating": "geni_updating_users", "broken": "geni_failed",
}

// allowed maps state and action to the next state; missing combinations are refused.
var allowed = map[string]map[string]string{
	"geni_start":                 {"making": "making", "off": "starting", "starting": "starting", "on": "on", "updating": "updating"},
	"geni_stop":                  {"making": "making", "off": "off", "starting": "stopping", "on": "stopping", "stopping": "stopping"},
	"geni_restart":               {"on": "starting"},
	"geni_update_users":          {"starting": "starting", "on": "updating"},
	"geni_updating_users_cancel": {"updating": "on"},
	"patchbay_setup":             {"off": "off", "starting": "starting", "on": "on"}, // no step has failed
}

// becomes maps a state to the states to which a provider may take it in one step.
var becomes = map[string][]string{
	"making": {"off", "broken"}, "starting": {"on", "broken"}, "stopping": {"off", "broken"}, "updating": {"on", "broken"},
	"on": {"broken"}, "off": {"broken"},
}

// mayBecome reports whether a provider may have taken a node from its state to another.
func (n *plainNode) mayBecome(to string) bool {
	seen := []string{n.state}
	if n.state == "making" && n.on { // it is started without a further call
		if to == "making" {
			return true
		}
		seen[0] = "starting"
	}
	for i := 0; i < len(seen); i++ {
		if seen[i] == to {
			return true
		}
		for _, next := range becomes[seen[i]] {
			if !slices.Contains(seen, next) {
				seen = append(seen, next)
			}
		}
	}
	return false
}

// clone returns a deep copy of the model.
func (p *plain) clone() *plain {
	q := &plain{slices: map[string]*plainSlice{}, leases: p.leases}
	for n, s := range p.slices {
		c := *s
		c.nodes = nil
		for _, x := range s.nodes {
			y := *x
			c.nodes = append(c.nodes, &y)
		}
		q.slices[n] = &c
	}
	return q
}

// expire removes the nodes whose leases have ended.
func (p *plain) expire(now time.Time) {
	for _, s := range p.slices {
		if !s.shut {
			s.nodes = slices.DeleteFunc(s.nodes, func(n *plainNode) bool { return !now.Before(n.expires) })
		}
	}
}

// ask is a call.
type ask struct {
	version int
	method  string
	slice   string
	// until is the end of the credential; zero if it gives no right at all.
	until time.Time
	// elsewhere means that the credential is for another slice.
	elsewhere bool
	// named are the slivers of the call; nil means the whole slice.
	named []string
	// effort is geni_best_effort, alap is geni_extend_alap.
	effort, alap bool
	// time is the requested time of Renew; wish is the option geni_end_time, and start geni_start_time.
	time, wish, start time.Time
	action            string
	nodes             []askedNode
	// change is patchbay_change: the nodes that the slice has already are changed.
	change bool
}

// String returns the call in one line.
func (a ask) String() string {
	text := fmt.Sprintf("v%d %s %s", a.version, a.method, a.slice)
	add := func(format string, args ...any) { text += " " + fmt.Sprintf(format, args...) }
	if a.action != "" {
		add("%s", a.action)
	}
	for _, u := range a.named {
		add("%.8s", uuid(u))
	}
	for _, n := range a.nodes {
		add("%s=%s@%s", n.client, n.kind, n.where)
		if n.linked {
			add("linked")
		}
	}
	if a.change {
		add("as a change")
	}
	if a.effort {
		add("best effort")
	}
	if a.alap {
		add("alap")
	}
	if !a.time.IsZero() {
		add("to %v", a.time.Sub(began))
	}
	if !a.wish.IsZero() {
		add("wish %v", a.wish.Sub(began))
	}
	if !a.start.IsZero() {
		add("from %v", a.start.Sub(began))
	}
	if a.until.IsZero() || a.elsewhere {
		add("without a right")
	} else {
		add("credential %v", a.until.Sub(began))
	}
	return text
}

// askedNode is a node of a request. where is the requested component; "" for any. linked means that it
// has an interface on a link of its own.
type askedNode struct {
	client, kind, where string
	linked              bool
}

// room has the free slots of components.
type room struct {
	free     map[string]int    // free slots, by component
	kind     map[string]string // the sliver type, by component
	cleaning map[string]int    // slots that will be free when their slivers are removed
	// unsure means that the leases of some slivers have ended but the slivers are not
	// released yet: the store could not write that, or the clock has just jumped.
	unsure bool
	// over counts the slivers among these that were only reserved, by component. The site
	// releases them before a call needs their slots, if the store can write that.
	over map[string]int
}

// ended returns the room after all expired slivers were removed.
func (r room) ended() room {
	r.free = maps.Clone(r.free)
	for c, n := range r.over {
		r.free[c] += n
	}
	return r
}

// fits reports whether nodes can be allocated. If not, codes are the possible codes of the
// refusal.
func (r room) fits(nodes []askedNode) (ok bool, codes []am.Code) {
	left, any := map[string]int{}, map[string]int{}
	for i, n := range nodes {
		if n.where != "" && n.kind == "raw-pc" && slices.ContainsFunc(nodes[:i], func(x askedNode) bool { return x.where == n.where }) {
			if r.free[n.where] > 0 {
				return false, []am.Code{am.BadArgs} // two nodes request one exclusive component
			}
			return false, []am.Code{am.BadArgs, am.TooBig, am.Busy}
		}
	}
	for c, n := range r.free {
		left[c] = n
	}
	held, cleaned := false, false
	for _, n := range nodes {
		if n.where == "" {
			any[n.kind]++
			continue
		}
		if left[n.where]--; left[n.where] < 0 {
			if left[n.where]+r.cleaning[n.where] >= 0 {
				cleaned = true
			} else {
				held = true
			}
		}
	}
	for c, n := range left {
		any[r.kind[c]] -= max(0, n)
	}
	short := any["raw-pc"] > 0 || any["vm"] > 0
	switch {
	case !held && !cleaned && !short:
		return true, nil
	case cleaned && !held && !short && !r.unsure:
		return false, []am.Code{am.Busy}
	}
	return false, []am.Code{am.TooBig, am.Busy}
}

// judge returns the possible codes of a refusal of the call. It returns none if the call must
// succeed; it has then made the change in p.
func (p *plain) judge(a ask, now time.Time, r room) []am.Code {
	no := func(c ...am.Code) []am.Code { return c }
	s := p.slices[a.slice]
	if a.until.IsZero() || !now.Before(a.until) {
		return no(am.Forbidden)
	}
	var of []*plainNode
	missing := map[string]bool{}
	for _, u := range a.named {
		owner, n := p.find(u)
		switch {
		case n == nil:
			missing[u] = true
			continue
		case owner != s || a.elsewhere || s.shut:
			return no(am.Forbidden)
		}
		if !slices.Contains(of, n) {
			of = append(of, n)
		}
	}
	if a.named == nil && a.elsewhere {
		return no(am.Forbidden)
	}
	if a.named == nil {
		if s.shut && a.method != "Shutdown" && a.method != "SliverStatus" {
			return no(am.Forbidden)
		}
		of = s.nodes
	} else if len(missing) > 0 && (!a.effort || len(of) == 0) {
		return no(am.SearchFailed)
	}
	switch a.method {
	case "Allocate", "CreateSliver":
		return p.reserve(s, a, now, r)
	case "Shutdown":
		if s.shut {
			return nil
		}
		if len(of) == 0 {
			return no(am.SearchFailed)
		}
		s.shutDown()
		return nil
	}
	if len(of) == 0 {
		return no(am.SearchFailed)
	}
	switch a.method {
	case "Status", "SliverStatus":
		return nil
	case "Delete", "DeleteSliver":
		gone := slices.Clone(of)
		s.nodes = slices.DeleteFunc(s.nodes, func(n *plainNode) bool { return slices.Contains(gone, n) })
		return nil
	case "Provision":
		if a.named == nil {
			if of = only(of, func(n *plainNode) bool { return n.state == "reserved" }); len(of) == 0 {
				return no(am.SearchFailed)
			}
		}
		if !a.wish.IsZero() && !a.wish.After(now) {
			return no(am.BadArgs)
		}
	case "Renew", "RenewSliver":
		if !a.time.After(now) {
			return no(am.BadArgs)
		}
	case "PerformOperationalAction":
		if a.named == nil {
			if of = only(of, func(n *plainNode) bool { return n.state != "reserved" }); len(of) == 0 {
				return no(am.Unsupported)
			}
		}
	}
	// Apply the call to each node.
	var able []func()
	first := am.Success
	for _, n := range of {
		code, do := p.one(n, a, now)
		if code == am.Success {
			able = append(able, do)
			continue
		}
		if !a.effort {
			return no(code)
		}
		if first == am.Success {
			first = code
		}
	}
	if len(able) == 0 {
		return no(first)
	}
	for _, do := range able {
		do()
	}
	return nil
}

// one returns the code of a call for one node and, for Success, a function that makes the
// change.
func (p *plain) one(n *plainNode, a ask, now time.Time) (am.Code, func()) {
	switch a.method {
	case "Provision":
		if n.state != "reserved" {
			return am.Unsupported, nil
		}
		return am.Success, func() {
			wish := a.wish
			if wish.IsZero() && n.wish.After(now) {
				wish = n.wish
			}
			n.state, n.on = "making", false
			n.expires, n.latest = p.long(now, a.until, wish), a.until
			if !n.granted.IsZero() && !a.wish.IsZero() {
				n.granted = first(n.granted, a.wish)
			}
			if n.granted.After(n.expires) { // no call shortens a lease that an operator has extended
				n.expires, n.latest = n.granted, n.granted
			}
			n.granted = time.Time{}
		}
	case "Renew", "RenewSliver":
		limit := p.leases.provisionedMax
		if n.state == "reserved" {
			limit = p.leases.allocatedMax
		}
		latest := first(now.Add(limit), a.until)
		end := a.time
		if end.After(latest) {
			if !a.alap {
				return am.Refused, nil
			}
			end = latest
		}
		return am.Success, func() {
			n.wish, n.granted = time.Time{}, time.Time{}
			if a.alap && end.Before(n.expires) {
				return
			}
			n.expires, n.latest = end, a.until
		}
	}
	to, ok := allowed[a.action][n.state]
	if !ok {
		if a.action == "geni_update_users" && n.state != "reserved" {
			return am.Refused, nil
		}
		return am.Unsupported, nil
	}
	return am.Success, func() {
		if n.state == "making" {
			n.on = a.action == "geni_start"
		}
		n.state = to
	}
}

// reserve models Allocate and CreateSliver. The aggregate chooses the components, so
// the nodes get them when its answer is read.
func (p *plain) reserve(s *plainSlice, a ask, now time.Time, r room) []am.Code {
	if a.method == "CreateSliver" && len(s.nodes) > 0 {
		return []am.Code{am.Exists}
	}
	if !a.wish.IsZero() && !a.wish.After(now) {
		return []am.Code{am.BadArgs}
	}
	added := a.nodes
	var refusals []am.Code
	if a.change {
		added, refusals = s.judgeChange(a.nodes, r)
	}
	for _, n := range added {
		if s.node(n.client) != nil {
			return []am.Code{am.Exists}
		}
	}
	if ok, codes := r.fits(added); !ok || len(refusals) > 0 {
		return append(refusals, codes...)
	}
	for _, n := range a.nodes {
		if x := s.node(n.client); x != nil {
			if x.state == "on" && x.linked != n.linked {
				x.state = "starting"
			}
			x.linked = n.linked
		}
	}
	for _, n := range added {
		x := &plainNode{client: n.client, kind: n.kind, state: "reserved", linked: n.linked, wish: a.wish, latest: a.until}
		x.expires = first(now.Add(p.leases.allocated), a.until)
		if !a.wish.IsZero() {
			x.expires = first(x.expires, a.wish)
		}
		if a.method == "CreateSliver" {
			x.state, x.on = "making", true
			x.expires = p.long(now, a.until, a.wish)
		}
		s.nodes = append(s.nodes, x)
	}
	return nil
}

// node returns the node with a client_id; nil if there is none.
func (s *plainSlice) node(client string) *plainNode {
	for _, n := range s.nodes {
		if n.client == client {
			return n
		}
	}
	return nil
}

// judgeChange returns the nodes that the slice does not have yet, and the codes by which the change of
// the others is refused: they stay where and what they are, and only some states can change.
func (s *plainSlice) judgeChange(nodes []askedNode, r room) (added []askedNode, refusals []am.Code) {
	taken := map[string]bool{} // the exclusive components of nodes that stay
	for _, n := range nodes {
		x := s.node(n.client)
		if x == nil {
			added = append(added, n)
			continue
		}
		taken[x.component] = x.kind == "raw-pc"
		fixed := map[string]bool{"stopping": true, "updating": true, "broken": true}[x.state] && x.linked != n.linked
		if fixed || n.kind != x.kind || n.where != "" && n.where != x.component || r.kind[x.component] == "" {
			refusals = append(refusals, am.Unsupported)
		}
	}
	for _, n := range added {
		if taken[n.where] {
			refusals = append(refusals, am.BadArgs, am.TooBig, am.Busy)
		}
	}
	return added, refusals
}

// long returns the lease of a new node.
func (p *plain) long(now, credential, wish time.Time) time.Time {
	if !wish.IsZero() {
		return first(wish, now.Add(p.leases.provisionedMax), credential)
	}
	if short := credential.Add(-p.leases.margin); short.After(now.Add(p.leases.margin)) {
		credential = short
	}
	return first(now.Add(p.leases.provisioned), credential)
}

// shutDown freezes a slice: running nodes are switched off, and nodes that are being created
// will stay off.
func (s *plainSlice) shutDown() {
	s.shut = true
	for _, n := range s.nodes {
		n.on = false
		switch n.state {
		case "starting", "on", "updating":
			n.state = "stopping"
		}
	}
}

// find returns the node with a sliver's URN and its slice; nil if there is none.
func (p *plain) find(sliver string) (*plainSlice, *plainNode) {
	for _, s := range p.slices {
		for _, n := range s.nodes {
			if n.urn == sliver {
				return s, n
			}
		}
	}
	return nil, nil
}

// only returns the nodes for which keep returns true.
func only(all []*plainNode, keep func(*plainNode) bool) (some []*plainNode) {
	for _, n := range all {
		if keep(n) {
			some = append(some, n)
		}
	}
	return some
}

// first returns the earliest of some times, in whole seconds.
func first(t time.Time, more ...time.Time) time.Time {
	for _, x := range more {
		if x.Before(t) {
			t = x
		}
	}
	return t.UTC().Truncate(time.Second)
}

// uuid returns the name part of a sliver's URN.
func uuid(sliver string) string { return sliver[strings.LastIndexByte(sliver, '+')+1:] }
