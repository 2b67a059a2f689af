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
	l.logf("restarted after a crash")
	if l.ifDone == nil {
		return
	}
	records, _ := l.site.records()
	l.ifDone.expire(l.now())
	l.model.expire(l.now())
	switch why := l.difference(l.ifDone, records); {
	case why == "":
		l.logf("  the unanswered call was carried out")
		l.model = l.ifDone
	default:
		l.logf("  the unanswered call was not carried out: %s", why)
	}
	l.ifDone = nil
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
			return x.ClientID + " is not in the model"
		}
		n := s.nodes[i]
		switch {
		case x.Frozen != s.shut:
			return x.ClientID + " is frozen only in the model or only in the store"
		case !x.Expires.Equal(n.expires) || n.state == "reserved" && !x.RequestedEnd.Equal(n.wish):
			return x.ClientID + " has another lease"
		case (len(x.Interfaces) > 0) != n.linked:
			return x.ClientID + " has an interface only in the model or only in the store"
		case !n.mayBecome(stateOf(x.Status)):
			return x.ClientID + " is in another state"
		case n.state == "making" && stateOf(x.Status) == "making" && x.Desired.On != n.on:
			return x.ClientID + " must be started according to only one of model and store"
		}
		if n.urn == "" {
			n.urn, n.component = x.URN.String(), x.Component.Name
		}
	}
	shut := l.site.shut()
	for name, s := range p.slices {
		live -= len(s.nodes)
		if s.shut != shut[name] {
			return name + " is shut down only in the model or only in the store"
		}
	}
	if live != 0 {
		return "a node is missing"
	}
	return ""
}
