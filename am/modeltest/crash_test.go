package modeltest

import (
	"slices"
	"time"

	"patchbay/am"
)

// reopenAfterCrash opens a new process after a crash, perhaps after a delay, and
// determines whether the interrupted call was carried out.
func (l *run) reopenAfterCrash() {
	l.site.kill()
	if l.rand.IntN(3) == 0 {
		time.Sleep(time.Duration(l.rand.IntN(3600)) * time.Second)
	}
	l.begin()
	l.tell("resurrected")
	if l.maybe == nil {
		return
	}
	records, _ := l.site.records()
	l.maybe.pass(l.now())
	l.model.pass(l.now())
	switch why := l.difference(l.maybe, records); {
	case why == "":
		l.tell("  the call that nobody heard of was done")
		l.model = l.maybe
	default:
		l.tell("  the call that nobody heard of was not done: %s", why)
	}
	l.maybe = nil
}

// difference returns how the records differ from a model; "" if they agree. New nodes
// of the model get their names from the records.
func (l *run) difference(p *plain, records map[string]am.Sliver) string {
	live := 0
	for _, x := range records {
		if x.Status.Allocation == am.Unallocated || !x.Live(l.now()) {
			continue
		}
		live++
		s := p.slices[x.Slice.Name]
		i := slices.IndexFunc(s.nodes, func(n *plainNode) bool { return n.urn == x.URN.String() || n.urn == "" && n.client == x.ClientID })
		if i < 0 {
			return x.ClientID + " is too much"
		}
		n := s.nodes[i]
		switch {
		case x.Frozen != s.shut:
			return x.ClientID + " is frozen, or is not"
		case !x.Expires.Equal(n.expires) || n.state == "reserved" && !x.RequestedEnd.Equal(n.wish):
			return x.ClientID + " has another lease"
		case !n.mayBecome(stateOf(x.Status)):
			return x.ClientID + " is in another state"
		case n.state == "making" && stateOf(x.Status) == "making" && x.Desired.On != n.on:
			return x.ClientID + " is to be started, or is not"
		}
		if n.urn == "" {
			n.urn, n.component = x.URN.String(), x.Component.Name
		}
	}
	shut := l.site.shut()
	for name, s := range p.slices {
		live -= len(s.nodes)
		if s.shut != shut[name] {
			return name + " is shut down, or is not"
		}
	}
	if live != 0 {
		return "a node is missing"
	}
	return ""
}
