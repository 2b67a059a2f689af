package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/service"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/rspec"
)

// aheadInventory has three computers on a switch with two VLANs, a host for three virtual machines, and two public addresses.
const aheadInventory = `provider: simulated
default_sliver_type: pc
vlans: [100, 101]
link_types: [lan]
public_addresses: [192.0.2.10, 192.0.2.11]
links: [{name: switch, capacity: 1G}]
sliver_types:
  - {name: pc}
  - {name: vm, needs: {slots: 1}}
components:
  - {names: pc1..pc3, sliver_types: [pc], exclusive: true, interfaces: [{name: eth1, link: switch}]}
  - {name: host1, sliver_types: [vm], exclusive: false, capacity: {slots: 3}}
`

// reserved is a sliver with the times that answers have granted.
type reserved struct {
	am.Sliver
	from, until time.Time
	deadline    time.Time // zero when it is provisioned, or provisions by itself
}

// aheadModel keeps a plain list of what was granted beside a site.
type aheadModel struct {
	*world
	t      *rapid.T
	grants map[string]credentials.Grant // by slice
	list   map[string]*reserved         // by sliver
	serial int
}

const (
	aheadQuota = 4 // nodes of one user
	aheadUsers = 2
)

func newAheadWorld(t *testing.T) (*world, map[string]credentials.Grant) {
	w := setting{inventory: aheadInventory, policy: fmt.Sprintf("rules: [{name: all, nodes: {user: %d}}]", aheadQuota)}.world(t)
	grants := map[string]credentials.Grant{}
	for i := range aheadUsers * 2 {
		slice, c := fmt.Sprintf("s%d", i), w.who([]string{"alice", "bob"}[i%aheadUsers])
		u, credential := c.slice(slice, 60*24*time.Hour)
		w.urns[slice] = u
		caller := w.api.auth.Identify(c.chain, began)
		for _, right := range []credentials.Right{credentials.RightAllocate, credentials.RightRenew, credentials.RightProvision, credentials.RightDelete} {
			g, err := w.api.auth.Authorize(caller, []credentials.Presented{{Type: "geni_sfa", Version: "3", Text: credential}}, "", right, began)
			if err != nil {
				t.Fatal(err)
			}
			grants[slice+string(right)] = g
		}
	}
	return w, grants
}

// wipe empties the store, and sets the clock back.
func (m *aheadModel) wipe() {
	m.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		err = v.Slivers(func(x am.Sliver) bool {
			cs.Remove(store.SliverKey(x.URN), store.TaskKey(x.URN), store.DocumentKey(x.Document), store.SliceKey(x.Slice))
			return true
		})
		v.Slices(func(s am.Slice) bool { cs.Remove(store.SliceKey(s.URN)); return true })
		v.Journal(func(e am.JournalEntry) bool { cs.Remove(store.Key{Kind: store.Journal, ID: e.ID}); return true })
		return cs, err
	})
	m.mu.Lock()
	m.now = began
	m.mu.Unlock()
}

func (m *aheadModel) commit(d store.Decision) {
	if err := m.store.Commit(context.Background(), d); err != nil {
		m.t.Fatal(err)
	}
}

func (m *aheadModel) urn(slice string) urn.URN { return urn.MustParse(m.urns[slice]) }

// hour draws a time: a number of hours from now, at the full hour or some minutes later.
func (m *aheadModel) hour(name string, first, last int) time.Time {
	return m.clock().Truncate(time.Hour).Add(time.Duration(rapid.IntRange(first, last).Draw(m.t, name)) * time.Hour)
}

// allocate asks for one to three nodes, for now or ahead.
func (m *aheadModel) allocate() {
	slice := fmt.Sprintf("s%d", rapid.IntRange(0, aheadUsers*2-1).Draw(m.t, "slice"))
	var nodes []string
	for range rapid.IntRange(1, 3).Draw(m.t, "nodes") {
		m.serial++
		nodes = append(nodes, fmt.Sprintf(`n%d`, m.serial))
	}
	linked := len(nodes) == 2 && rapid.Bool().Draw(m.t, "linked")
	var text strings.Builder
	for i, n := range nodes {
		kind, inside := rapid.SampledFrom([]string{"pc", "vm"}).Draw(m.t, "type"), ""
		if linked {
			kind, inside = "pc", fmt.Sprintf(`<interface client_id="%s:0"/>`, n)
		} else if i == 0 && rapid.IntRange(0, 3).Draw(m.t, "public") == 0 {
			inside = `<routable_control_ip xmlns="http://www.protogeni.net/resources/rspec/ext/emulab/1"/>`
		}
		fmt.Fprintf(&text, `<node client_id="%s" exclusive="%t"><sliver_type name="%s"/>%s</node>`, n, kind == "pc", kind, inside)
	}
	if linked {
		fmt.Fprintf(&text, `<link client_id="l%d"><interface_ref client_id="%s:0"/><interface_ref client_id="%s:0"/></link>`, m.serial, nodes[0], nodes[1])
	}
	o := service.ProvisionOptions{AtStart: rapid.Bool().Draw(m.t, "at start")}
	now, isAhead := m.clock(), rapid.IntRange(0, 3).Draw(m.t, "ahead") > 0
	from := now
	if isAhead {
		o.StartTime = m.hour("start", 1, 20)
		from = o.StartTime
	}
	if rapid.IntRange(0, 3).Draw(m.t, "with end") > 0 {
		o.EndTime = from.Truncate(time.Hour).Add(time.Duration(rapid.IntRange(1, 12).Draw(m.t, "hours")) * time.Hour)
	}
	m.reserve(slice, text.String(), from, o)
}

// reserve calls Allocate, and keeps what it grants. After a refusal for room it asks for the window that the refusal names, which must succeed.
func (m *aheadModel) reserve(slice, nodes string, from time.Time, o service.ProvisionOptions) {
	req, err := rspec.ParseRequest([]byte(request(nodes)), m.reading)
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := m.service.Allocate(context.Background(), m.grants[slice+"Allocate"], m.urn(slice), req, o)
	if err != nil {
		if code := am.CodeOf(err); code != am.TooBig && code != am.Refused && code != am.SearchFailed && code != am.NoVLAN {
			m.t.Fatalf("%v: %v", code, err)
		}
		if refused, ok := errors.AsType[*am.Error](err); ok {
			m.acceptOffers(slice, nodes, from, o, refused)
		}
		return
	}
	isAhead := o.StartTime.After(m.clock().Add(time.Minute))
	for _, r := range out.Slivers {
		p := &reserved{Sliver: r.Sliver, from: from, until: r.Ends, deadline: r.Expires}
		if isAhead && !r.Begins.Equal(from) {
			m.t.Fatalf("%s begins at %s, not at %s", r.ClientID, r.Begins, from)
		}
		if !o.EndTime.IsZero() && !r.Ends.Equal(o.EndTime) {
			m.t.Fatalf("%s ends at %s, not at %s", r.ClientID, r.Ends, o.EndTime)
		}
		if isAhead && o.AtStart {
			p.deadline = time.Time{}
		}
		m.list[r.URN.Key()] = p
	}
}

// acceptOffers asks for each of the times that a refusal names. The request must have room then.
func (m *aheadModel) acceptOffers(slice, nodes string, from time.Time, o service.ProvisionOptions, refused *am.Error) {
	first, until := o, o
	first.StartTime, until.EndTime = refused.FirstStart, refused.LongestEnd
	if !o.EndTime.IsZero() {
		first.EndTime = refused.FirstStart.Add(o.EndTime.Sub(from))
	}
	for _, offer := range []struct {
		time    time.Time
		options service.ProvisionOptions
	}{{refused.FirstStart, first}, {refused.LongestEnd, until}} {
		if offer.time.IsZero() {
			continue
		}
		req, err := rspec.ParseRequest([]byte(request(nodes)), m.reading)
		if err != nil {
			m.t.Fatal(err)
		}
		offer.options.Preview = true
		_, err = m.service.Allocate(context.Background(), m.grants[slice+"Allocate"], m.urn(slice), req, offer.options)
		if err != nil && am.CodeOf(err) != am.Refused { // a quota may refuse it
			m.t.Fatalf("after %v\nAllocate of %+v: %v", refused, offer.options, err)
		}
	}
}

// pick returns one that still holds; nil for none.
func (m *aheadModel) pick() *reserved {
	keys := make([]string, 0, len(m.list))
	for k := range m.list {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil
	}
	slices.SortFunc(keys, func(a, b string) int { return strings.Compare(m.list[a].ClientID, m.list[b].ClientID) })
	return m.list[rapid.SampledFrom(keys).Draw(m.t, "sliver")]
}

func (m *aheadModel) provision() {
	p := m.pick()
	if p == nil {
		return
	}
	out, err := m.service.Provision(context.Background(), m.grants[p.Slice.Name+"Provision"], service.Targets{Slivers: []urn.URN{p.URN}}, service.ProvisionOptions{})
	switch waits := p.from.After(m.clock()); {
	case waits && am.CodeOf(err) != am.Unavailable:
		m.t.Fatalf("Provision of %s before its start: %v", p.ClientID, err)
	case err != nil && !waits && p.Status.Allocation == am.Allocated && am.CodeOf(err) != am.Unavailable:
		m.t.Fatalf("Provision of %s: %v", p.ClientID, err)
	case err == nil:
		x := out.Slivers[0].Sliver
		if !p.Begins.IsZero() && x.Expires.Before(p.until) {
			m.t.Fatalf("Provision cut %s to %s, although %s was granted", p.ClientID, x.Expires, p.until)
		}
		p.Sliver, p.until, p.deadline = x, x.Expires, time.Time{}
	}
}

func (m *aheadModel) renew() {
	p := m.pick()
	if p == nil {
		return
	}
	until := m.hour("until", 1, 30)
	o := service.RenewOptions{AsLongAsPossible: rapid.Bool().Draw(m.t, "alap")}
	if p.from.After(m.clock()) && rapid.Bool().Draw(m.t, "end") {
		o.EndTime = m.hour("end", 1, 40)
	}
	out, err := m.service.Renew(context.Background(), m.grants[p.Slice.Name+"Renew"], service.Targets{Slivers: []urn.URN{p.URN}}, until, o)
	if err != nil {
		if code := am.CodeOf(err); code != am.Refused && code != am.BadArgs {
			m.t.Fatalf("%v: %v", code, err)
		}
		return
	}
	x := out.Slivers[0].Sliver
	if o.AsLongAsPossible && x.Ends.Before(p.until) {
		m.t.Fatalf("%s was shortened from %s to %s", p.ClientID, p.until, x.Ends)
	}
	p.Sliver, p.until = x, x.Ends
	if !p.deadline.IsZero() {
		p.deadline = x.Expires
	}
}

func (m *aheadModel) delete() {
	p := m.pick()
	if p == nil {
		return
	}
	if _, err := m.service.Delete(context.Background(), m.grants[p.Slice.Name+"Delete"], service.Targets{Slivers: []urn.URN{p.URN}}, service.Call{}); err != nil {
		m.t.Fatal(err)
	}
	delete(m.list, p.URN.Key())
}

// passTime lets the runner end and begin what is due at each step, as often as in a second of a real site.
func (m *aheadModel) passTime() {
	for range rapid.IntRange(1, 8).Draw(m.t, "half hours") {
		m.pass(30 * time.Minute)
		m.commit(func(v *store.View) (cs store.ChangeSet, err error) {
			due, _, err := v.Due(100)
			if err == nil {
				err = lease.Release(v, &cs, due, am.EventExpire, "")
			}
			return cs, err
		})
		if rapid.IntRange(0, 3).Draw(m.t, "cleaned") > 0 {
			m.settle()
		}
		m.commit(func(v *store.View) (cs store.ChangeSet, err error) {
			cs, _, err = m.service.Begin(v, 100)
			return cs, err
		})
	}
}

// check compares the store with what was granted.
func (m *aheadModel) check() {
	now := m.clock()
	stored, err := m.store.Slivers()
	if err != nil {
		m.t.Fatal(err)
	}
	has := map[string]*am.Sliver{}
	for i := range stored {
		has[stored[i].URN.Key()] = &stored[i]
	}
	for k, p := range m.list {
		x := has[k]
		lives := x != nil && x.Live(now)
		if isOver := !p.until.After(now) || !p.deadline.IsZero() && !p.deadline.After(now) && (x == nil || x.Begun || p.Begins.IsZero()); isOver {
			if !lives {
				delete(m.list, k)
			}
			continue
		}
		if !lives {
			m.t.Fatalf("%s was released at %s, although it was granted until %s (deadline %s)", p.ClientID, now, p.until, p.deadline)
		}
		if x.Ends.Before(p.until) {
			m.t.Fatalf("%s ends at %s, although it was granted until %s", p.ClientID, x.Ends, p.until)
		}
		if !p.deadline.IsZero() && x.Expires.After(p.deadline) {
			p.deadline = x.Expires // it began late
		}
		p.Sliver = *x
	}
	m.checkInstants(now, stored)
}

// checkInstants checks at the present and at each later start that nothing is held twice.
func (m *aheadModel) checkInstants(now time.Time, stored []am.Sliver) {
	instants := []time.Time{now}
	for i := range stored {
		if stored[i].Begins.After(now) {
			instants = append(instants, stored[i].Begins)
		}
	}
	for _, at := range instants {
		owner, slots := map[string]string{}, 0
		users := map[urn.URN]int{}
		for i := range stored {
			x := &stored[i]
			h := am.HoldOf(x)
			isOver := h.Cleaning || !h.Until.After(now)
			isLate := x.Waits() && at.Equal(now) // it waits until its component is clean
			if isLate || h.From.After(at) || isOver && at.After(now) || !isOver && !h.Until.After(at) {
				continue
			}
			take := func(what, by string) {
				if o, taken := owner[what]; taken && o != by {
					m.t.Fatalf("at %s, %s belongs to %s and to %s", at, what, o, by)
				}
				owner[what] = by
			}
			if x.Exclusive {
				take(x.Component.Name, x.ClientID)
			} else if slots++; slots > 3 {
				m.t.Fatalf("at %s, host1 has %d slivers", at, slots)
			}
			if x.PublicAddress.IsValid() {
				take(x.PublicAddress.String(), x.ClientID)
			}
			for _, in := range x.Interfaces {
				if in.VLAN != 0 {
					take(fmt.Sprint("VLAN ", in.VLAN), x.Slice.Name+in.Link)
				}
			}
			if !h.Cleaning {
				if users[x.Creator]++; users[x.Creator] > aheadQuota {
					m.t.Fatalf("at %s, %s holds %d nodes", at, x.Creator.Name, users[x.Creator])
				}
			}
		}
	}
}

// TestAheadModel reserves, renews, provisions and deletes at random times, and checks that no answer is broken.
func TestAheadModel(t *testing.T) {
	w, grants := newAheadWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		m := &aheadModel{world: w, t: rt, grants: grants, list: map[string]*reserved{}}
		m.wipe()
		rt.Repeat(map[string]func(*rapid.T){
			"":          func(*rapid.T) { m.check() },
			"allocate":  func(*rapid.T) { m.allocate() },
			"provision": func(*rapid.T) { m.provision() },
			"renew":     func(*rapid.T) { m.renew() },
			"delete":    func(*rapid.T) { m.delete() },
			"pass":      func(*rapid.T) { m.passTime() },
		})
	})
}
