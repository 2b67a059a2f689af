package binder

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/service/policy"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/match"
)

const calendarSite = `
provider: rack
exclusive_on_shared: grant
links: [{name: core, capacity: 1G}, {name: edge, capacity: 100M}]
vlans: [100..102]
shared_vlans: [{name: exchange, tag: 1750}]
public_addresses: [192.0.2.10..192.0.2.11]
sliver_types:
  - {name: pc}
  - {name: vm, needs: {cores: 1, memory: 1G}, capabilities: {cpu.count: 1..4, memory.size: 1G..4G, gpu.count: 0..1}}
components:
  - {names: pc1..pc2, exclusive: true, sliver_types: [pc], capabilities: {cpu.count: 4, gpu.count: 0}, interfaces: [{name: eth1, link: core}]}
  - {name: pc3, exclusive: true, sliver_types: [pc], capabilities: {cpu.count: 8, gpu.count: 1}, interfaces: [{name: eth1, link: core}, {name: eth2, link: edge}]}
  - {names: h1..h2, exclusive: false, sliver_types: [vm], capacity: {slots: 4, cores: 6, memory: 6G, gpus: 1}, interfaces: [{name: nic, link: core}]}
`

// quota is the most nodes that a user of the calendar model holds at one time.
const quota = 6

// reservation is a sliver of the plain list, and from when up to when it holds. A zero from means
// that it has always held, a zero until that it has no end.
type reservation struct {
	am.Sliver
	from, until time.Time
}

func (r *reservation) holds(at time.Time) bool {
	return !at.Before(r.from) && (r.until.IsZero() || at.Before(r.until))
}

func every(*reservation) bool { return true }

// calendarModel looks at a plain list of slivers at each instant at which one begins.
type calendarModel struct {
	*lives
	serial  int
	of      map[string]int       // the request of each sliver, by key
	largest *inventory.Inventory // has the most of everything
	pool    []*rspec.Node        // nodes with constraints, to draw from
}

// list returns the slivers for the intervals that were asked for, without released ones. If kept is true, released and
// overdue slivers are in it until an hour from now, when they are expected to be clean.
func (m *calendarModel) list(kept bool) (all []reservation) {
	for key, s := range m.x.slivers {
		r := reservation{s, m.x.from[key], s.Expires}
		released, overdue := s.Status.Allocation == am.Unallocated, !s.Expires.IsZero() && !s.Expires.After(m.now)
		switch {
		case released && !kept:
			continue
		case released:
			r.from = time.Time{}
			fallthrough
		case overdue && kept:
			r.until = m.now.Add(time.Hour)
		}
		all = append(all, r)
	}
	return all
}

// eachInstant calls f with those in list that hold at the time from, and at each later start before
// until.
func eachInstant(list []reservation, from, until time.Time, f func(held []*reservation)) {
	instants := []time.Time{from}
	for _, r := range list {
		if r.from.After(from) && (until.IsZero() || r.from.Before(until)) && !slices.Contains(instants, r.from) {
			instants = append(instants, r.from)
		}
	}
	for _, at := range instants {
		var held []*reservation
		for i := range list {
			if list[i].holds(at) {
				held = append(held, &list[i])
			}
		}
		f(held)
	}
}

// resource is a part of the site with those who hold it at one instant.
type resource struct {
	name      string
	component *inventory.Component
	port      *inventory.Interface
	holders   []*reservation
	taken     []amount // by the holders, of a port
	links     []string // the links that use a tag; "shared" for a shared VLAN
}

// wrong returns the rule that r violates, or "". It ignores violations by holders for which
// counts returns false.
func (r *resource) wrong(counts func(*reservation) bool) string {
	switch {
	case r.component != nil:
		used, counted := am.Amount{}, am.Amount{}
		for _, h := range r.holders {
			used = used.Add(h.Amount)
			if counts(h) {
				counted = counted.Add(h.Amount)
			}
			for _, o := range r.holders {
				if h.Exclusive && o.Slice != h.Slice && (counts(h) || counts(o)) {
					return "is shared with another slice, though one is alone"
				}
			}
		}
		if r.component.Exclusive && len(r.holders) > 1 {
			return "has two owners"
		}
		if !r.component.Exclusive && !fitsBeside(r.component.Capacity, used.Sub(counted), counted) {
			return fmt.Sprintf("has %+v, but %+v is taken", r.component.Capacity, used)
		}
	case r.port != nil:
		sum, counted := r.sum(every), r.sum(counts)
		if counted.out > 0 && sum.out > r.port.Capacity || counted.in > 0 && sum.in > r.port.Capacity {
			return fmt.Sprintf("carries %d, but %+v is taken", r.port.Capacity, sum)
		}
	case len(r.links) > 0:
		if len(slices.Compact(slices.Sorted(slices.Values(r.links)))) > 1 {
			return fmt.Sprint("is of the links ", r.links)
		}
	case len(r.holders) > 1:
		return "is given twice"
	}
	return ""
}

// sum adds up what holders for which counts returns true take.
func (r *resource) sum(counts func(*reservation) bool) (a amount) {
	for i, h := range r.holders {
		if counts(h) {
			a = a.add(r.taken[i])
		}
	}
	return a
}

// fitsBeside reports whether need fits into capacity beside used. What is over-booked and not needed
// does not matter.
func fitsBeside(capacity, used, need am.Amount) bool {
	for _, f := range [][3]int64{
		{capacity.Slots, used.Slots, need.Slots}, {capacity.Cores, used.Cores, need.Cores}, {capacity.GPUs, used.GPUs, need.GPUs},
		{capacity.Memory, used.Memory, need.Memory}, {capacity.Disk, used.Disk, need.Disk},
	} {
		if f[0] > 0 && f[2] > 0 && f[1]+f[2] > f[0] {
			return false
		}
	}
	return true
}

// resources groups what is held at one instant.
func (m *calendarModel) resources(v *inventory.Inventory, held []*reservation) map[string]*resource {
	all := map[string]*resource{}
	get := func(name string, h *reservation) *resource {
		r := all[name]
		if r == nil {
			r = &resource{name: name}
			all[name] = r
		}
		r.holders = append(r.holders, h)
		return r
	}
	for _, h := range held {
		c, ok := v.Component(h.Component)
		if !ok { // removed from the inventory
			c, ok = m.largest.Component(h.Component)
		}
		if ok {
			get("component "+c.Name, h).component = c
		}
		for _, i := range h.Interfaces {
			if p, ok := v.Interface(i.Component); ok {
				r := get("interface "+p.URN.Name, h)
				r.port, r.taken = p, append(r.taken, amount{i.Out, i.In})
			}
			if i.VLAN != 0 {
				link := "shared"
				if i.SharedVLAN == "" {
					link = i.Link
				}
				r := get(fmt.Sprint("tag ", i.VLAN), h)
				r.links = append(r.links, link)
			}
		}
		if h.PublicAddress.IsValid() {
			get("address "+h.PublicAddress.String(), h)
		}
	}
	return all
}

// check checks the whole list, and that no user exceeds their quota.
func (m *calendarModel) check(t *rapid.T) {
	eachInstant(m.list(false), time.Time{}, time.Time{}, func(held []*reservation) {
		for _, r := range m.resources(m.largest, held) {
			if wrong := r.wrong(every); wrong != "" {
				t.Fatalf("%s %s: %+v", r.name, wrong, r.holders)
			}
		}
		nodes := map[urn.URN]int{}
		for _, h := range held {
			if h.Status.Allocation != am.Unallocated {
				nodes[h.Creator]++
			}
			if nodes[h.Creator] > quota {
				t.Fatalf("%s holds more than %d nodes", h.Creator, quota)
			}
		}
	})
}

// checkNew checks the resources of the last request, also against overdue and released slivers.
func (m *calendarModel) checkNew(t *rapid.T, from, until time.Time) {
	ofLast := func(h *reservation) bool { return m.of[h.URN.Key()] == m.serial }
	eachInstant(m.list(true), from, until, func(held []*reservation) {
		for _, r := range m.resources(m.v, held) {
			isNew := slices.ContainsFunc(r.holders, ofLast)
			if wrong := r.wrong(ofLast); isNew && wrong != "" {
				t.Fatalf("from %s until %s, %s %s: %+v", from, until, r.name, wrong, r.holders)
			}
			if isNew && r.component != nil && !m.servesAt(r.component, from) {
				t.Fatalf("%s does not serve at %s", r.name, from)
			}
		}
	})
}

func (m *calendarModel) servesAt(c *inventory.Component, at time.Time) bool {
	return !c.Drained && m.plan.WindowAt(c.Name, at) == nil
}

// room reports whether a sliver fits on c at each instant from the time from up to until.
func (m *calendarModel) room(c *inventory.Component, of string, alone bool, need am.Amount, from, until time.Time) bool {
	alone = alone && m.v.ExclusiveOnShared == inventory.Grant
	ok := m.servesAt(c, from)
	eachInstant(m.list(true), from, until, func(held []*reservation) {
		used := am.Amount{}
		for _, h := range held {
			if h.Component != c.URN {
				continue
			}
			used = used.Add(h.Amount)
			if c.Exclusive || h.Slice != slice(of) && (alone || h.Exclusive) {
				ok = false
			}
		}
		ok = ok && (c.Exclusive || fitsBeside(c.Capacity, used, need))
	})
	return ok
}

// freeName reports whether one of names is held at no instant from the time from up to until.
func (m *calendarModel) freeName(kind string, names []string, from, until time.Time) bool {
	held := map[string]bool{}
	eachInstant(m.list(true), from, until, func(at []*reservation) {
		for name := range m.resources(m.v, at) {
			held[name] = true
		}
	})
	return slices.ContainsFunc(names, func(n string) bool { return !held[kind+" "+n] })
}

func (m *calendarModel) drawInterval(t *rapid.T) (from, until time.Time) {
	from = m.now.Add(time.Duration(max(0, rapid.IntRange(-4, 6).Draw(t, "start"))) * time.Hour)
	if n := rapid.IntRange(0, 5).Draw(t, "hours"); n > 0 {
		until = from.Add(time.Duration(n) * time.Hour)
	}
	return from, until
}

func (m *calendarModel) drawNode(t *rapid.T, i int) rspec.Node {
	n := rspec.Node{}
	if rapid.IntRange(0, 2).Draw(t, "constrained") == 0 {
		n = *rapid.SampledFrom(m.pool).Draw(t, "constraints")
	}
	n.ClientID, n.SliverType = fmt.Sprint("n", i), rapid.SampledFrom([]string{"pc", "vm", "vm"}).Draw(t, "type")
	alone := rapid.IntRange(0, 4).Draw(t, "exclusive") == 0
	n.Exclusive = &alone
	n.RoutableIP = rapid.IntRange(0, 3).Draw(t, "public") == 0
	return n
}

func (m *calendarModel) drawRequest(t *rapid.T) *rspec.Request {
	r := &rspec.Request{}
	for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		n := m.drawNode(t, i)
		switch rapid.IntRange(0, 6).Draw(t, "place") {
		case 0:
			n.ComponentID, n.SliverType = rapid.SampledFrom(m.v.Components).Draw(t, "component").URN.String(), ""
			n.Require, n.Prefer, n.Match = nil, nil, nil
		case 1:
			n.Colocate = "g"
		}
		r.Nodes = append(r.Nodes, n)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "links") {
		l := rspec.Link{ClientID: fmt.Sprint("l", i)}
		if rapid.IntRange(0, 5).Draw(t, "kind") == 0 {
			l.SharedVLAN = "exchange"
		}
		for j := range r.Nodes {
			in := rspec.Interface{ClientID: fmt.Sprint(i, ":", j)}
			r.Nodes[j].Interfaces = append(r.Nodes[j].Interfaces, in)
			l.Interfaces = append(l.Interfaces, in.ClientID)
		}
		l.Properties = []rspec.Property{{Source: l.Interfaces[0], Capacity: rapid.SampledFrom([]int64{0, 90_000, 400_000, 600_000}).Draw(t, "capacity")}}
		r.Links = append(r.Links, l)
	}
	return r
}

// bind binds r within the user's quota. It returns the error of Bind, and stores the slivers if
// there is none.
func (m *calendarModel) bind(t *rapid.T, r *rspec.Request, of string, from, until time.Time) (tried bool, err error) {
	user := urn.URN{Authority: "example.org", Type: urn.User, Name: rapid.SampledFrom([]string{"alice", "bob"}).Draw(t, "user")}
	if m.checkHeld(t, user, slice(of), from, until)+int64(len(r.Nodes)) > quota {
		return false, nil
	}
	b, err := Bind(&Request{Request: r, Slice: slice(of)}, from, until, m.x.view())
	if err != nil {
		if e, ok := errors.AsType[*UnsatisfiedError](err); !ok || len(e.Reasons) == 0 {
			t.Fatalf("no reasons: %v", err)
		}
		return true, err
	}
	m.serial++
	for i, n := range b.Nodes {
		s := record(fmt.Sprint(m.serial, "-", i), of, n)
		s.Creator, s.Expires = user, until
		m.of[s.URN.Key()] = m.serial
		for k := range s.Interfaces {
			s.Interfaces[k].Link = fmt.Sprint(m.serial, " ", s.Interfaces[k].Link) // no other request has this link
		}
		m.x.put(s)
		if from.After(m.now) {
			m.x.from[s.URN.Key()] = from
		}
	}
	m.checkNew(t, from, until)
	return true, nil
}

// checkHeld compares policy.Calendar with a count at each instant. It returns the nodes of the user.
func (m *calendarModel) checkHeld(t *rapid.T, user, of urn.URN, from, until time.Time) int64 {
	got, err := policy.Calendar(m.x.view().Calendar).Held(user, of, from, until, m.now)
	if err != nil {
		t.Fatal(err)
	}
	var want policy.Held
	eachInstant(m.list(true), from, until, func(held []*reservation) {
		var sum policy.Held
		for _, h := range held {
			if h.Status.Allocation == am.Unallocated {
				continue
			}
			for _, x := range []struct {
				counts bool
				to     *policy.Amount
			}{{h.Creator == user, &sum.User}, {h.Slice == of, &sum.Slice}, {true, &sum.Project}} {
				if x.counts {
					*x.to = policy.Amount{Nodes: x.to.Nodes + 1, Cores: x.to.Cores + h.Amount.Cores, Disk: x.to.Disk + h.Amount.Disk}
				}
			}
		}
		for _, x := range [][2]*policy.Amount{{&want.User, &sum.User}, {&want.Slice, &sum.Slice}, {&want.Project, &sum.Project}} {
			*x[0] = policy.Amount{Nodes: max(x[0].Nodes, x[1].Nodes), Cores: max(x[0].Cores, x[1].Cores), Disk: max(x[0].Disk, x[1].Disk)}
		}
	})
	if got != want {
		t.Fatalf("from %s until %s %s and %s hold %+v, the count is %+v", from, until, user, of, got, want)
	}
	return got.User.Nodes
}

// canBindOne reports whether one node without links fits. It may lose what it prefers.
func (m *calendarModel) canBindOne(n *rspec.Node, of string, from, until time.Time) bool {
	kind, _ := m.v.SliverType(n.SliverType)
	required, err := match.New(n.Require, nil)
	fits := slices.ContainsFunc(m.v.Components, func(c *inventory.Component) bool {
		need := kind.Needs
		if n.Match != nil {
			grant, ok := required.Match(inventory.CapabilitiesOf(c, kind, nil))
			if !ok {
				return false
			}
			need = kind.AmountFor(c, grant)
		}
		return c.Offers(kind) && m.room(c, of, *n.Exclusive, need, from, until)
	})
	var addresses []string
	for _, a := range m.v.PublicAddresses {
		addresses = append(addresses, a.String())
	}
	return err == nil && fits && (!n.RoutableIP || m.freeName("address", addresses, from, until))
}

// canBindPair reports whether a link of the capacity fits between two hosts, each with one node.
func (m *calendarModel) canBindPair(hosts []*inventory.Component, of string, capacity int64, from, until time.Time) bool {
	vm, _ := m.v.SliverType("vm")
	ok := m.room(hosts[0], of, false, vm.Needs, from, until) && m.room(hosts[1], of, false, vm.Needs, from, until)
	out, in := hosts[0].Interfaces[0], hosts[1].Interfaces[0]
	eachInstant(m.list(true), from, until, func(held []*reservation) {
		all := m.resources(m.v, held)
		if r := all["interface "+out.URN.Name]; r != nil && r.sum(every).out+capacity > out.Capacity {
			ok = false
		}
		if r := all["interface "+in.URN.Name]; r != nil && r.sum(every).in+capacity > in.Capacity {
			ok = false
		}
	})
	var tags []string
	for _, tag := range m.v.VLANs {
		tags = append(tags, fmt.Sprint(tag))
	}
	return ok && m.freeName("tag", tags, from, until)
}

// componentView is a view with what is held on the component of x.
func (m *calendarModel) componentView(x *am.Sliver) *View {
	v := m.x.view()
	all := v.Calendar
	v.Calendar = func(f func(*am.Hold) bool) error {
		return all(func(h *am.Hold) bool { return string(h.Component) != x.Component.Key() || f(h) })
	}
	return v
}

// first does what Names.First does, for the names of the slivers that wait, or that have begun.
func (m *calendarModel) first(t *rapid.T, x *am.Sliver, waits bool, from, until time.Time) time.Time {
	n, err := NewNames(func(f func(*am.Hold) bool) error {
		return m.x.view().Calendar(func(h *am.Hold) bool { return h.From.IsZero() == waits || f(h) })
	})
	if err != nil {
		t.Fatal(err)
	}
	at, err := n.First(x, from, until, func(sliver string) ([]am.Interface, error) { return m.x.slivers[sliver].Interfaces, nil })
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// checkStay compares the time until which x can stay with the first instant at which one of its resources would be
// held by a reservation that begins then.
func (m *calendarModel) checkStay(t *rapid.T, x am.Sliver, until time.Time) (isCut bool) {
	list, want := m.list(true), until
	isX := func(h *reservation) bool { return h.URN == x.URN }
	for i := range list {
		if isX(&list[i]) {
			list[i].until = until
		}
	}
	for _, r := range list {
		at := r.from
		if at.Before(x.Expires) || !at.Before(want) {
			continue
		}
		var held []*reservation
		for i := range list {
			if list[i].holds(at) {
				held = append(held, &list[i])
			}
		}
		for _, r := range m.resources(m.v, held) {
			begins := slices.ContainsFunc(r.holders, func(h *reservation) bool { return h.from.Equal(at) })
			if begins && slices.ContainsFunc(r.holders, isX) && r.wrong(isX) != "" {
				want = at
			}
		}
	}
	got, err := m.componentView(&x).FreeUntil(&x, until)
	if got = m.first(t, &x, true, x.Expires, got); err != nil || !got.Equal(want) {
		t.Fatalf("%s can stay until %s (%v), by the model until %s", x.URN, got, err, want)
	}
	return want.Before(until)
}

// checkBegin compares whether x can begin with what those hold that have begun or are before x.
func (m *calendarModel) checkBegin(t *rapid.T, x am.Sliver) (want bool) {
	isX, start := func(h *reservation) bool { return h.URN == x.URN }, m.x.from[x.URN.Key()]
	want = true
	list := m.list(true)
	for _, names := range []bool{false, true} { // names are held only by those that have begun
		var held []*reservation
		for i := range list {
			h := &list[i]
			isBefore := h.from.Before(start) || h.from.Equal(start) && h.URN.Key() < x.URN.Key()
			if isX(h) || !names && isBefore || h.from.IsZero() {
				held = append(held, h)
			}
		}
		for _, r := range m.resources(m.v, held) {
			if isName := r.component == nil && r.port == nil; isName == names && slices.ContainsFunc(r.holders, isX) && r.wrong(isX) != "" {
				want = false
			}
		}
	}
	got, err := m.componentView(&x).CanBegin(&x)
	if got = got && m.first(t, &x, false, time.Time{}, m.now).Equal(m.now); err != nil || got != want {
		t.Fatalf("%s can begin: %v (%v), by the model: %v", x.URN, got, err, want)
	}
	return want
}

// checkCounter checks that a Counter finds the first start at which the request r binds, and excludes no end until which it binds.
// It reports whether the Counter excludes the end of a hold.
func (m *calendarModel) checkCounter(t *rapid.T, r *Request, length time.Duration) (excludes bool) {
	var holds []am.Hold
	if err := m.x.view().Calendar(func(h *am.Hold) bool { holds = append(holds, *h); return true }); err != nil {
		t.Fatal(err)
	}
	k := m.x.view().NewCounter(r, holds)
	binds := func(from, until time.Time) bool { _, err := Bind(r, from, until, m.x.view()); return err == nil }
	starts := k.Starts(m.now, length, 1000)
	first := slices.IndexFunc(starts, func(at time.Time) bool { return binds(at, at.Add(length)) })
	for _, h := range holds {
		at := h.End(m.now)
		excludes = excludes || at.After(m.now) && !slices.ContainsFunc(starts, at.Equal)
		isFound := first >= 0 && !starts[first].After(at)
		if at.After(m.now) && !isFound && binds(at, at.Add(length)) && !binds(m.now, m.now.Add(length)) {
			t.Fatalf("the request has room from %s for %s, but the counter excludes this start", at, length)
		}
	}
	latest := k.LatestEnd(m.now, m.now.Add(length))
	if end := latest.Add(1); end.Before(m.now.Add(length)) && binds(m.now, end) {
		t.Fatalf("the request has room from %s until %s, but the counter excludes ends after %s", m.now, end, latest)
	}
	return excludes
}

// TestCalendarModel binds random requests for random intervals, beside a plain list of slivers. At
// no instant does a resource have two owners or is over-booked. A request binds if it fits at each
// instant of its interval. RAPID_CHECKS is the number of histories.
func TestCalendarModel(t *testing.T) {
	replaced := func(old, with string) *inventory.Inventory {
		return site(t, strings.ReplaceAll(calendarSite, old, with))
	}
	sites := []*inventory.Inventory{
		site(t, calendarSite),
		replaced("[100..102]\nshared_vlans: [{name: exchange, tag: 1750", "[101..103]\nshared_vlans: [{name: exchange, tag: 100"),
		replaced("grant", "share"),
		replaced("slots: 4, cores: 6", "slots: 3, cores: 4"),
		replaced("192.0.2.10..192.0.2.11", "192.0.2.11..192.0.2.12"),
		replaced("names: pc1..pc2", "names: [pc2, pc4]"),
	}
	largest := replaced("names: pc1..pc2", "names: [pc1, pc2, pc4]")
	var nodes []*rspec.Node
	for _, text := range []string{"cpu.count >= 2", "cpu.count >= 4", "gpu.count >= 1", "cpu.count >= 2; 5: gpu.count >= 1", "memory.size >= 2G"} {
		n := &rspec.Node{}
		constrain(t, n, text)
		nodes = append(nodes, n)
	}
	bound, later, refused, alone := 0, 0, 0, 0
	stays, cut, starts, delayed, excluded := 0, 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := &calendarModel{lives: newLives(sites[0]), of: map[string]int{}, largest: largest, pool: nodes}
		m.x.from = map[string]time.Time{}
		setClock := func(n int) { m.now = hour(n); m.x.now = m.now }
		setClock(0)
		count := func(from time.Time, tried bool, err error) {
			switch {
			case !tried:
			case err != nil:
				refused++
			case from.After(m.now):
				later++
				fallthrough
			default:
				bound++
			}
		}
		t.Repeat(m.steps(sites, map[string]func(*rapid.T){
			"pass the time": func(t *rapid.T) { setClock(rapid.IntRange(0, 12).Draw(t, "hour")) },
			"bind": func(t *rapid.T) {
				of := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "slice")
				from, until := m.drawInterval(t)
				tried, err := m.bind(t, m.drawRequest(t), of, from, until)
				count(from, tried, err)
			},
			"bind one": func(t *rapid.T) {
				of := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "slice")
				from, until := m.drawInterval(t)
				n := m.drawNode(t, 0)
				want := m.canBindOne(&n, of, from, until)
				tried, err := m.bind(t, &rspec.Request{Nodes: []rspec.Node{n}}, of, from, until)
				if count(from, tried, err); tried && want != (err == nil) {
					t.Fatalf("one %s from %s until %s fits by the model: %v, but %v", n.SliverType, from, until, want, err)
				}
				alone++
			},
			"bind a pair": func(t *rapid.T) {
				of := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "slice")
				from, until := m.drawInterval(t)
				h1, _ := m.v.ComponentNamed("h1")
				h2, _ := m.v.ComponentNamed("h2")
				hosts := []*inventory.Component{h1, h2}
				if rapid.Bool().Draw(t, "back") {
					slices.Reverse(hosts)
				}
				capacity := rapid.SampledFrom([]int64{1, 300_000, 700_000}).Draw(t, "capacity")
				r := request("type=vm on="+hosts[0].Name, "type=vm on="+hosts[1].Name)
				linked(r, fmt.Sprintf("l a:0 b:0 a:0>b:0=%d", capacity))
				want := m.canBindPair(hosts, of, capacity, from, until)
				tried, err := m.bind(t, r, of, from, until)
				if count(from, tried, err); tried && want != (err == nil) {
					t.Fatalf("%d kbit/s from %s until %s fit by the model: %v, but %v", capacity, from, until, want, err)
				}
			},
			"search": func(t *rapid.T) {
				r := &Request{Request: m.drawRequest(t), Slice: slice(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "slice"))}
				if m.checkCounter(t, r, time.Duration(rapid.IntRange(1, 5).Draw(t, "hours"))*time.Hour) {
					excluded++
				}
			},
			"stay or begin": func(t *rapid.T) {
				x, ok := m.pick(t)
				from := m.x.from[x.URN.Key()]
				x.Begins = from
				if !ok || x.Status.Allocation == am.Unallocated || !x.Expires.After(m.now) {
					return
				}
				if from.After(m.now) || from.IsZero() {
					stays++
					if m.checkStay(t, x, x.Expires.Add(time.Duration(rapid.IntRange(1, 8).Draw(t, "longer"))*time.Hour)) {
						cut++
					}
					return
				}
				starts++
				if !m.checkBegin(t, x) {
					delayed++
				}
			},
			"": func(t *rapid.T) { m.check(t) },
		}))
	})
	t.Logf("%d requests bound, %d of them for later; %d refused; %d of one node", bound, later, refused, alone)
	t.Logf("%d could stay longer, %d of them only until a reservation; of %d starts, %d were late; %d searches excluded some", stays, cut, starts, delayed, excluded)
	if later == 0 || bound == later || refused == 0 || alone == 0 || excluded == 0 || cut == 0 || cut == stays || starts > 50 && (delayed == 0 || delayed == starts) {
		t.Error("the histories are one-sided")
	}
}
