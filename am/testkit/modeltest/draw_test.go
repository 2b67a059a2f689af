package modeltest

import (
	"fmt"
	"slices"
	"time"
)

// draw returns a random call and its caller.
func (l *run) draw() (*caller, ask) {
	s := l.model.slices[l.pick("s1", "s2", "s3", "s1")]
	now := l.now()
	a := ask{version: 3, slice: s.name}
	if l.rand.IntN(5) == 0 {
		a.version = 2
	}
	moment := func() time.Time {
		d := l.pick("-1h", "1s", "3m", "19m", "21m", "50m", "230m", "250m", "20h")
		x, _ := time.ParseDuration(d)
		return now.Add(x).Truncate(time.Second)
	}
	if l.rand.IntN(4) == 0 {
		a.wish = moment()
	}
	a.effort, a.alap = l.rand.IntN(3) == 0, l.rand.IntN(3) == 0
	if l.rand.IntN(3) == 0 {
		for _, x := range l.model.slices {
			for _, n := range x.nodes {
				if (x == s || l.rand.IntN(20) == 0) && l.rand.IntN(2) == 0 {
					a.named = append(a.named, n.urn)
				}
			}
		}
		if l.rand.IntN(8) == 0 {
			a.named = append(a.named, name("sliver", "none"))
		}
	}
	n := l.rand.IntN(100)
	if len(s.nodes) == 0 && l.rand.IntN(4) > 0 {
		n = 0
	}
	switch {
	case n < 20:
		a.method, a.named = "Allocate", nil
		if a.version == 2 {
			a.method = "CreateSliver"
		}
		a.nodes = l.nodes(s)
		if a.change = a.version == 3 && l.rand.IntN(2) == 0; a.change {
			a.nodes = l.changed(s, a.nodes)
		}
	case n < 48:
		a.method, a.version = "Provision", 3
	case n < 70:
		a.method, a.version = "PerformOperationalAction", 3
		a.action = l.pick("geni_start", "geni_start", "geni_start", "geni_stop", "geni_restart", "geni_update_users", "geni_updating_users_cancel", "patchbay_setup")
	case n < 82:
		a.method, a.time, a.wish = "Renew", moment(), time.Time{}
		if a.version == 2 {
			a.method = "RenewSliver"
		}
	case n < 92:
		a.method = "Delete"
		if a.version == 2 {
			a.method = "DeleteSliver"
		}
	case n < 94:
		a.method, a.named = "Shutdown", nil
	default:
		a.method = "Status"
		if a.version == 2 {
			a.method = "SliverStatus"
		}
	}
	if a.version == 2 {
		a.named, a.effort = nil, false
	}
	var c *caller
	c, a.until, a.elsewhere = l.credential(a.slice)
	return c, a
}

// nodes returns random nodes for a request: mostly with new names, on any component or on a
// named one.
func (l *run) nodes(s *plainSlice) (all []askedNode) {
	used := map[string]bool{}
	for range 1 + l.rand.IntN(3) {
		n := askedNode{client: fmt.Sprint("n", l.rand.IntN(40)), kind: l.pick("raw-pc", "vm")}
		if used[n.client] {
			continue
		}
		used[n.client] = true
		if l.rand.IntN(4) == 0 {
			for n.where == "" {
				if c := l.inv.Components[l.rand.IntN(len(l.inv.Components))]; c.SliverTypes[0].Name == n.kind {
					n.where = c.Name
				}
			}
		}
		all = append(all, n)
	}
	return all
}

// changed adds nodes of the slice to those of a request, mostly as they are, and gives each node an
// interface, or none.
func (l *run) changed(s *plainSlice, nodes []askedNode) []askedNode {
	nodes = nodes[:l.rand.IntN(len(nodes)+1)]
	for _, x := range s.nodes {
		if len(nodes) > 0 && l.rand.IntN(3) == 0 || slices.ContainsFunc(nodes, func(n askedNode) bool { return n.client == x.client }) {
			continue
		}
		n := askedNode{client: x.client, kind: x.kind}
		switch l.rand.IntN(12) {
		case 0:
			n.kind = l.pick("raw-pc", "vm")
		case 1:
			n.where = x.component
		case 2:
			n.where = l.inv.Components[0].Name
		}
		nodes = append(nodes, n)
	}
	for i := range nodes {
		nodes[i].linked = l.rand.IntN(2) == 0
	}
	return nodes
}

// pick returns a random element of words.
func (l *run) pick(words ...string) string { return words[l.rand.IntN(len(words))] }

// credential returns a random caller for a slice, and the end of the caller's credential; zero
// if the credential gives no right. elsewhere means that it is for another slice.
func (l *run) credential(slice string) (c *caller, until time.Time, elsewhere bool) {
	s := l.site
	lasts := []time.Duration{2 * time.Hour, 8 * time.Hour, forever, forever, forever}[l.rand.IntN(5)]
	switch l.rand.IntN(12) {
	case 0: // bob uses a credential that alice has delegated
		return s.as(s.sharedUsers.bob, slice, s.sharedUsers.delegatedCredential(s.t, slice, forever, lasts)), began.Add(lasts), false
	case 1:
		if l.rand.IntN(2) == 0 { // bob uses alice's credential
			return s.as(s.sharedUsers.bob, slice, s.sharedUsers.over(s.t, slice, forever)), time.Time{}, false
		}
		return s.as(s.sharedUsers.alice, slice, s.sharedUsers.over(s.t, "other", forever)), began.Add(forever), true
	}
	return s.alice(slice, lasts), began.Add(lasts), false
}
