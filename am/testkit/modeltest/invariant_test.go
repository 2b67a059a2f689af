package modeltest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/inventory/provider"
)

var (
	adNode       = regexp.MustCompile(`(?s)<node component_id="[^"]*\+node\+([^"]+)".*?</node>`)
	adSlots      = regexp.MustCompile(`type_slots="(\d+)"`)
	adFree       = regexp.MustCompile(`<available now="(true|false)"/>`)
	manifestNode = regexp.MustCompile(`<node ([^>]*)>`)
	attribute    = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
)

// free returns the number of free slots of each component in an advertisement.
func free(advertisement string) map[string]int {
	out := map[string]int{}
	for _, m := range adNode.FindAllStringSubmatch(advertisement, -1) {
		out[m[1]] = 0
		if f := adFree.FindStringSubmatch(m[0]); f != nil && f[1] == "true" {
			out[m[1]] = 1
			if s := adSlots.FindStringSubmatch(m[0]); s != nil {
				out[m[1]], _ = strconv.Atoi(s[1])
			}
		}
	}
	return out
}

// capacity returns the number of slots of a component of offer.
func capacity(component string) int {
	if component[0] == 'h' {
		return 3
	}
	return 1
}

// check compares the aggregate with the model after a step, and checks the conditions that
// must always hold. It takes over the new states of nodes, if a provider may have caused
// them.
func (l *run) check() {
	now := l.now()
	records, tasks := l.site.records()
	l.model.expire(now)

	// The records are the slivers of the model, and those that are being removed.
	on := map[string]int{}
	l.room = room{free: map[string]int{}, kind: map[string]string{}, cleaning: map[string]int{}, over: map[string]int{}}
	live := map[string]bool{}
	for id, x := range records {
		on[x.Component.Name]++
		if x.Status.Allocation == am.Unallocated {
			if _, ok := tasks[id]; !ok {
				l.fail("sliver %s is released, and no task removes it", id)
			}
			l.room.cleaning[x.Component.Name]++
			continue
		}
		s, n := l.model.find(x.URN.String())
		switch {
		case n == nil && !x.Live(now):
			if late := now.Sub(x.Expires); late > time.Second && now.Sub(l.opened) > time.Second && time.Now().Unix()-l.stuck.Load() > 5 {
				l.fail("the lease of sliver %s ended %v ago, and the sliver is still held", id, late)
			}
			l.room.cleaning[x.Component.Name]++
			l.room.unsure = true
			if x.Status.Allocation == am.Allocated && !x.Restored {
				l.room.over[x.Component.Name]++
			}
			continue
		case n == nil:
			l.fail("sliver %s of %s on %s in %v until %v is not in the model", id, x.Slice.Name, x.Component.Name, x.Status, x.Expires)
		case s.name != x.Slice.Name || n.client != x.ClientID || n.component != x.Component.Name:
			l.fail("sliver %s is %s of %s on %s, want %+v of %s", id, x.ClientID, x.Slice.Name, x.Component.Name, n, s.name)
		case !x.Expires.Equal(n.expires):
			l.fail("sliver %s of %s ends at %v, want %v (it is %v)", n.client, s.name, x.Expires, n.expires, now)
		case x.Expires.After(n.latest):
			l.fail("sliver %s outlives its credential: %v, %v", n.client, x.Expires, n.latest)
		case (len(x.Interfaces) > 0) != n.linked:
			l.fail("sliver %s of %s has %d interfaces; linked: %v", n.client, s.name, len(x.Interfaces), n.linked)
		case x.Frozen != s.shut:
			l.fail("sliver %s of %s: frozen %v", n.client, s.name, x.Frozen)
		case stateOf(x.Status) == "making" && x.Desired.On != n.on:
			l.fail("sliver %s of %s is being created with Desired.On %v, want %v", n.client, s.name, x.Desired.On, n.on)
		}
		live[n.urn] = true
		if l.adoptState(n, x.Status, x.Error); s.shut {
			delete(l.abandoned, id) // a slice that is shut down keeps everything for inspection
		}
		if _, busy := tasks[id]; !busy {
			l.checkMachine(n, id)
		}
	}
	for _, s := range l.model.slices {
		for _, n := range s.nodes {
			if !live[n.urn] {
				l.fail("node %s of %s, sliver %s, %s, until %v, has no record", n.client, s.name, n.urn, n.state, n.expires)
			}
		}
	}

	// No component is overbooked, and the advertisement has the free slots.
	ad := l.alice.advertised()
	if ad.code != am.Success {
		l.fail("ListResources: %d %s", ad.code, ad.output)
	}
	advertised := free(ad.manifest())
	for _, c := range l.inv.Components {
		l.room.kind[c.Name] = c.SliverTypes[0].Name
		left := capacityOf(c) - on[c.Name]
		if left < 0 && (c.Exclusive || on[c.Name] > l.held[c.Name]) {
			l.fail("%s holds %d slivers", c.Name, on[c.Name])
		}
		if more := -left; more > 0 { // a new inventory has fewer slots: slivers that are removed free none
			l.room.cleaning[c.Name] = max(0, l.room.cleaning[c.Name]-more)
			l.room.over[c.Name] = max(0, l.room.over[c.Name]-more)
		}
		left = max(0, left)
		if l.room.free[c.Name] = left; advertised[c.Name] != left {
			l.fail("the advertisement has room for %d on %s, want %d", advertised[c.Name], c.Name, left)
		}
	}

	l.held = on
	if is := l.site.clock.Now(); !is.Equal(now) {
		l.fail("the site's time is %v, want %v", is, now)
	}

	// Each resource has a sliver, or a task that removes it. The runner has followed the
	// provider protocol.
	for name, r := range l.providers {
		for _, id := range r.present() {
			x, ok := records[id]
			if _, task := tasks[id]; !ok || x.Status.Allocation == am.Unallocated && !task {
				l.fail("provider %s has %s, which has neither a record nor a task", name, id)
			}
		}
		r.with(func() {
			for _, b := range r.broken {
				l.fail("provider %s saw %s", name, b)
			}
		})
	}
	for _, s := range l.model.slices {
		if s.name == l.touched || l.rand.IntN(4) == 0 {
			l.describe(s)
		}
	}
}

// checkMachine compares the reported state of a node without a task with its machine.
func (l *run) checkMachine(n *plainNode, id string) {
	if l.abandoned[id] {
		for _, r := range l.providers {
			r.with(func() {
				if r.machines[id] != nil && r.machines[id].is.Text(provider.AttrEnsure) == provider.Present && !r.machines[id].reappeared {
					l.fail("node %s, sliver %s, was given up, but its machine still exists", n.client, id)
				}
			})
		}
	}
	if n.state != "on" && n.state != "off" || l.damaged[id] {
		return
	}
	live := false
	for _, r := range l.providers {
		r.with(func() {
			m := r.machines[id]
			if m != nil && m.is.Text(provider.AttrComponent) == n.component && m.failed == "" &&
				m.is.Text(provider.AttrEnsure) == provider.Present && (m.is.Text(provider.AttrPower) == provider.On) == (n.state == "on") &&
				(n.state == "off" || (len(m.is.List(provider.AttrInterfaces)) > 0) == n.linked) { // changes of nodes that are off wait
				live = true
			}
		})
	}
	if !live {
		l.fail("node %s, sliver %s, is %s, but no machine is in that state", n.client, id, n.state)
	}
}

// adoptState sets the state of a node in the model to its recorded state, if a provider may
// have caused it.
func (l *run) adoptState(n *plainNode, s am.Status, text string) {
	state := stateOf(s)
	if !n.mayBecome(state) {
		l.fail("node %s, sliver %s, went from %s to %s (%q)", n.client, n.urn, n.state, state, text)
	}
	if state == "broken" && text == "" {
		l.fail("node %s is broken without a reason", n.client)
	}
	if n.state != state {
		l.logf("  %s: %s → %s %s", n.client, n.state, state, text)
	}
	// In such a short time a node cannot be created and then lost, so its creation has failed.
	if n.state == "making" && state == "broken" && l.took < 20*time.Second {
		l.abandoned[uuid(n.urn)] = true
	}
	n.state = state
}

// stateOf returns the model's state for a status.
func stateOf(s am.Status) string {
	for word, operational := range wire {
		if string(s.Operational) == operational && (word == "reserved") == (s.Allocation == am.Allocated) {
			return word
		}
	}
	return ""
}

// describe compares the answers of both versions about a slice with the model.
func (l *run) describe(s *plainSlice) {
	c := l.site.alice(s.name, forever)
	a := c.v3("Describe", nil, opts())
	if s.shut {
		if a.code != am.Forbidden {
			l.fail("Describe of %s, which is shut down: %d", s.name, a.code)
		}
		if a := c.v2("SliverStatus", opts()); a.code != am.Success && len(s.nodes) > 0 || len(s.nodes) > 0 && get(a.value, "geni_status") != "shutdown" {
			l.fail("SliverStatus of %s, which is shut down: %d %v", s.name, a.code, get(a.value, "geni_status"))
		}
		return
	}
	if a.code != am.Success {
		l.fail("Describe of %s: %d %s", s.name, a.code, a.output)
	}
	nodes := map[string]*plainNode{}
	for _, n := range s.nodes {
		nodes[n.urn] = n
	}
	slivers := a.slivers()
	if len(slivers) != len(nodes) {
		l.fail("Describe lists %d slivers of %s, want %d", len(slivers), s.name, len(nodes))
	}
	for _, x := range slivers {
		n := nodes[x.urn]
		if n == nil || x.client != n.client || x.state != wire[n.state] || !x.expires.Equal(n.expires) || (x.allocation == "geni_allocated") != (n.state == "reserved") {
			l.fail("Describe of %s shows %+v, want %+v", s.name, x, n)
		}
	}
	l.status2(s, c.v2("SliverStatus", opts()))
	b := c.call(2, "ListResources", strs(c.credential), opts(opt("geni_slice_urn", c.slice)))
	if b.code != am.Success || b.manifest() != a.manifest() {
		l.fail("ListResources of %s: %d, not the manifest of Describe: %s, %s", s.name, b.code, b.manifest(), a.manifest())
	}
	shown := manifestNode.FindAllStringSubmatch(a.manifest(), -1)
	if len(shown) != len(nodes) {
		l.fail("the manifest of %s has %d nodes, want %d: %s", s.name, len(shown), len(nodes), a.manifest())
	}
	for _, m := range shown {
		is := map[string]string{}
		for _, x := range attribute.FindAllStringSubmatch(m[1], -1) {
			is[x[1]] = x[2]
		}
		if n := nodes[is["sliver_id"]]; n == nil || is["client_id"] != n.client || is["component_id"] != name("node", n.component) {
			l.fail("the manifest of %s shows %v, want %+v", s.name, is, n)
		}
	}
}

// status2 compares SliverStatus with the model, for a slice that is not shut down.
func (l *run) status2(s *plainSlice, a answer) {
	if len(s.nodes) == 0 {
		if a.code != am.SearchFailed {
			l.fail("SliverStatus of %s, which is empty: %d", s.name, a.code)
		}
		return
	}
	words := map[string]string{"on": "ready", "updating": "ready", "broken": "failed"}
	worst := []string{"ready", "configuring", "failed"}
	overall, ends := 0, s.nodes[0].expires
	for _, n := range s.nodes {
		overall = max(overall, slices.Index(worst, cmp.Or(words[n.state], "configuring")))
		ends = first(ends, n.expires)
	}
	list, _ := get(a.value, "geni_resources").([]xmlrpc.Value)
	if get(a.value, "geni_status") != worst[overall] || get(a.value, "pg_expires") != stamp(ends) || len(list) != len(s.nodes) {
		l.fail("SliverStatus of %s: %d %v, want %s until %s of %d nodes", s.name, a.code, a.value, worst[overall], stamp(ends), len(s.nodes))
	}
	for _, x := range list {
		i := slices.IndexFunc(s.nodes, func(n *plainNode) bool { return n.client == get(x, "geni_client_id") })
		if i < 0 || get(x, "geni_status") != cmp.Or(words[s.nodes[i].state], "configuring") || get(x, "geni_expires") != stamp(s.nodes[i].expires) {
			l.fail("SliverStatus of %s shows %v, want %+v", s.name, x, s.nodes)
		}
	}
}

// logf adds a line to the trace, which is printed after a failure.
func (l *run) logf(format string, args ...any) {
	l.trace = append(l.trace, fmt.Sprintf("%s ", l.now().Sub(began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// fail prints the last lines of the trace and fails the test.
func (l *run) fail(format string, args ...any) {
	l.t.Helper()
	for _, line := range l.trace[max(0, len(l.trace)-60):] {
		l.t.Log(line)
	}
	l.t.Fatalf("step %d: "+format, append([]any{l.steps}, args...)...)
}
