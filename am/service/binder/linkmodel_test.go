package binder

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

// linkModel is a list of slivers. It counts their use of the network anew each time.
type linkModel struct {
	*lives
	of    map[string]int  // sliver → the Allocate that made it
	asked map[string]bool // links on which the request names addresses
}

// held returns what slivers use of an interface.
func (m *linkModel) held(u urn.URN) (p port) {
	for _, s := range m.x.slivers {
		for _, i := range s.Interfaces {
			if i.Component == u {
				p.out, p.in, p.users = p.out+i.Out, p.in+i.In, p.users+1
			}
		}
	}
	return p
}

// check checks all rules of links for the slivers.
func (m *linkModel) check(t *rapid.T, x *holdings) {
	for i, p := range m.v.Interfaces {
		held := m.held(p.URN)
		if p.Capacity > 0 && (held.out > p.Capacity || held.in > p.Capacity) {
			t.Fatalf("%s carries %d: %+v are booked", p.URN, p.Capacity, held)
		}
		if now := x.occupied().network.ports[i]; held != now {
			t.Fatalf("%s: the index counts %+v, there are %+v", p.URN, now, held)
		}
	}
	tags := map[int]string{}
	public := map[netip.Addr]string{}
	onLink := map[string]netip.Addr{}
	networks := map[string]map[netip.Prefix]string{} // of live slivers: slice → network → link
	for key, s := range m.x.slivers {
		if a := s.PublicAddress; a.IsValid() {
			if public[a] != "" {
				t.Fatalf("%s has two slivers, %s and %s", a, public[a], key)
			}
			public[a] = key
		}
		for _, i := range s.Interfaces {
			link := fmt.Sprint(m.of[key], i.Link)
			if i.VLAN != 0 && i.VLAN != 1750 {
				if other := tags[i.VLAN]; other != "" && other != link {
					t.Fatalf("tag %d is of two links, %s and %s", i.VLAN, other, link)
				}
				tags[i.VLAN] = link
			}
			if s.Status.Allocation == am.Unallocated {
				continue
			}
			for _, a := range i.Addresses {
				name := link + " " + a.Addr().String()
				if _, twice := onLink[name]; twice {
					t.Fatalf("address %s is twice on link %s", a, link)
				}
				onLink[name] = a.Addr()
				if !m.v.LinkAddresses.Contains(a.Addr()) {
					continue
				}
				of := networks[s.Slice.Name]
				if of == nil {
					of = map[netip.Prefix]string{}
					networks[s.Slice.Name] = of
				}
				of[a.Masked()] = link
			}
		}
	}
	for name, of := range networks {
		for p, link := range of {
			for q, other := range of {
				if link != other && p.Overlaps(q) && !(m.asked[link] && m.asked[other]) {
					t.Fatalf("slice %s: links %s and %s have the networks %s and %s", name, link, other, p, q)
				}
			}
		}
	}
	for _, tag := range m.v.VLANs {
		if free := !x.occupied().network.tags.held[tag]; free != (tags[tag] == "") {
			t.Fatalf("tag %d: free is %v, it is held by %q", tag, free, tags[tag])
		}
	}
	if n := len(x.occupied().network.public.held); n != len(public) {
		t.Fatalf("%d public addresses are held by the index, %d there are", n, len(public))
	}
}

// checkBound compares a binding with its request.
func (m *linkModel) checkBound(t *rapid.T, r *rspec.Request, b Binding) {
	ends := map[string][]am.Interface{}
	for i, n := range b.Nodes {
		if len(n.Interfaces) != len(r.Nodes[i].Interfaces) {
			t.Fatalf("node %s has %d interfaces", n.Node.ClientID, len(n.Interfaces))
		}
		for j, in := range n.Interfaces {
			asked := r.Nodes[i].Interfaces[j]
			if in.ClientID != asked.ClientID || len(asked.Addresses) > 0 && !slices.Equal(in.Addresses, asked.Addresses) || asked.ComponentID != "" && n.Component.IsWired() && in.Component != asked.Component {
				t.Fatalf("asked for %+v, got %+v", asked, in)
			}
			if p, ok := m.v.Interface(in.Component); ok && p.Component != n.Component {
				t.Fatalf("%s is on %s, its interface on %s", n.Node.ClientID, n.Component.Name, p.Component.Name)
			}
			if in.Link == "" && (len(in.Addresses) > len(asked.Addresses) || in.VLAN != 0 || in.Out+in.In != 0) {
				t.Fatalf("on no link: %+v", in)
			}
			ends[in.Link] = append(ends[in.Link], in)
		}
	}
	on := map[string]*inventory.Component{}
	for _, n := range b.Nodes {
		for _, in := range n.Interfaces {
			on[in.ClientID] = n.Component
		}
	}
	for i := range r.Links {
		m.checkTaken(t, &r.Links[i], ends[r.Links[i].ClientID], on)
	}
	for _, l := range r.Links {
		var over *inventory.Link
		for _, in := range ends[l.ClientID] {
			if in.VLAN != ends[l.ClientID][0].VLAN {
				t.Fatalf("link %s has two tags: %+v", l.ClientID, ends[l.ClientID])
			}
			if l.SharedVLAN == "" && len(in.Addresses) == 0 {
				t.Fatalf("no address: %+v", in)
			}
			p, ok := m.v.Interface(in.Component)
			if !ok || l.SharedVLAN != "" || l.Type != "" || in.VLAN == 0 {
				continue
			}
			if over == nil {
				over = p.Link
			}
			if p.Link != over {
				t.Fatalf("link %s is on %s and %s: %+v", l.ClientID, over.Name, p.Link.Name, ends[l.ClientID])
			}
		}
	}
}

// checkTaken compares the capacity that the ends of a link use with its properties; on has the
// components of interfaces.
func (m *linkModel) checkTaken(t *rapid.T, l *rspec.Link, ends []am.Interface, on map[string]*inventory.Component) {
	for _, in := range ends {
		// passes reports whether traffic between in and other, or any other interface,
		// uses the network.
		passes := func(other string) bool {
			if other != "" {
				return on[other] != on[in.ClientID]
			}
			return l.SharedVLAN != "" || slices.ContainsFunc(l.Interfaces, func(id string) bool { return on[id] != on[in.ClientID] })
		}
		var out, into int64
		for _, p := range l.Properties {
			if p.Source == in.ClientID && passes(p.Dest) {
				out = max(out, p.Capacity)
			}
			if p.Dest == in.ClientID && passes(p.Source) {
				into = max(into, p.Capacity)
			}
		}
		if in.Component.IsZero() || l.Type == "gre-tunnel" {
			out, into = 0, 0
		}
		if in.Out != out || in.In != into {
			t.Fatalf("link %+v: %s takes %d out and %d in, want %d and %d", l, in.ClientID, in.Out, in.In, out, into)
		}
	}
}

// possible reports whether a request of one link between two bound components
// has a pair of interfaces on one physical link with room.
func (m *linkModel) possible(from, to *inventory.Component, capacity int64) bool {
	for _, p := range from.Interfaces {
		for _, q := range to.Interfaces {
			if p.CarriesLinks() && q.CarriesLinks() && p.Link == q.Link && p.Capacity-m.held(p.URN).out >= capacity && q.Capacity-m.held(q.URN).in >= capacity {
				return true
			}
		}
	}
	return false
}

func drawLinks(t *rapid.T, v *inventory.Inventory) *rspec.Request {
	r := &rspec.Request{}
	nodes := rapid.IntRange(1, 4).Draw(t, "nodes")
	for i := range nodes {
		n := rspec.Node{ClientID: fmt.Sprint("n", i)}
		n.SliverType = rapid.SampledFrom([]string{"pc", "vm", "vm", "vm", "vm", "ap"}).Draw(t, "type")
		if rapid.Bool().Draw(t, "bound") {
			hosts := slices.DeleteFunc(slices.Clone(v.Components), func(c *inventory.Component) bool { return c.Exclusive })
			c := rapid.SampledFrom(hosts).Draw(t, "component")
			if rapid.IntRange(0, 3).Draw(t, "exclusive") == 0 {
				c = rapid.SampledFrom(v.Components).Draw(t, "component")
			}
			n.ComponentID, n.SliverType = c.URN.String(), ""
		}
		n.RoutableIP = rapid.IntRange(0, 9).Draw(t, "public") == 0
		r.Nodes = append(r.Nodes, n)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "links") {
		l := rspec.Link{ClientID: fmt.Sprint("l", i)}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			l.Type = "gre-tunnel"
		case 1:
			l.SharedVLAN = "exchange"
		}
		for j := range nodes {
			if rapid.Bool().Draw(t, "on it") && (j < nodes-1 || len(l.Interfaces) > 0) || j == nodes-1 && len(l.Interfaces) == 0 {
				in := rspec.Interface{ClientID: fmt.Sprintf("n%d:%d", j, i)}
				if rapid.IntRange(0, 4).Draw(t, "address") == 0 {
					in.Addresses = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 + byte(rapid.IntRange(0, 1).Draw(t, "half")), byte(i), byte(j + 1)}), 24)}
				}
				if rapid.IntRange(0, 19).Draw(t, "fixed") == 0 {
					in.Component = rapid.SampledFrom(v.Interfaces).Draw(t, "port").URN
					in.ComponentID = in.Component.String()
				}
				r.Nodes[j].Interfaces = append(r.Nodes[j].Interfaces, in)
				l.Interfaces = append(l.Interfaces, in.ClientID)
			}
		}
		for range rapid.IntRange(0, 4).Draw(t, "properties") {
			sides := append([]string{""}, l.Interfaces...)
			from, to := rapid.SampledFrom(sides).Draw(t, "from"), rapid.SampledFrom(sides).Draw(t, "to")
			if from != to {
				l.Properties = append(l.Properties, rspec.Property{Source: from, Dest: to, Capacity: rapid.SampledFrom([]int64{60_000, 300_000, 600_000}).Draw(t, "capacity")})
			}
		}
		r.Links = append(r.Links, l)
	}
	return r
}

// TestLinkModel runs random histories of linked slivers. After every step nothing is over-booked
// or reserved twice, and the index agrees.
func TestLinkModel(t *testing.T) {
	// The hosts have room for many nodes, so that only interfaces are scarce.
	text := strings.NewReplacer("slots: 4", "slots: 40", "vlans: [100..102]", "vlans: [100..105]").Replace(switched)
	other := strings.Replace(text, "vlans: [100..105]", "vlans: [102..107]", 1)
	sites := []*inventory.Inventory{site(t, text), site(t, strings.Replace(other, "10.128.0.0/22", "10.128.0.0/20", 1))}
	bound, linked, joined, refused := 0, 0, 0, map[am.Detail]int{}
	rapid.Check(t, func(t *rapid.T) {
		m := &linkModel{newLives(sites[0]), map[string]int{}, map[string]bool{}}
		x := m.x
		serial, joins := 0, 0
		addresses := func(of string) (all []netip.Prefix) {
			for _, s := range m.x.slivers {
				if s.Slice == slice(of) && s.Status.Allocation != am.Unallocated {
					for _, i := range s.Interfaces {
						all = append(all, i.Addresses...)
					}
				}
			}
			return all
		}
		t.Repeat(m.steps(sites, map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				of := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "slice")
				r := drawLinks(t, m.v)
				b, err := bind(r, x, slice(of), addresses(of)...)
				if again, err2 := bind(r, x, slice(of), addresses(of)...); fmt.Sprint(wiring(b, err), err) != fmt.Sprint(wiring(again, err2), err2) {
					t.Fatalf("two answers: %s, %v; %s, %v", wiring(b, err), err, wiring(again, err2), err2)
				}
				if err != nil {
					e, ok := errors.AsType[*UnsatisfiedError](err)
					if !ok || len(e.Reasons) == 0 {
						t.Fatalf("no reasons: %v", err)
					}
					refused[e.Reasons[0].detail()]++
					return
				}
				bound++
				linked += len(r.Links)
				m.checkBound(t, r, b)
				serial++
				for _, n := range r.Nodes {
					for _, in := range n.Interfaces {
						if len(in.Addresses) > 0 {
							m.asked[fmt.Sprint(serial, "l", in.ClientID[3:])] = true
						}
					}
				}
				for i, n := range b.Nodes {
					s := record(fmt.Sprint(serial, "-", i), of, n)
					m.of[s.URN.Key()] = serial
					x.put(s)
				}
			},
			"join": func(t *rapid.T) {
				of, ok := m.pick(t)
				if !ok || of.Status.Allocation == am.Unallocated || len(of.Interfaces) == 0 {
					return
				}
				link, asked := rapid.SampledFrom(of.Interfaces).Draw(t, "link").Link, rspec.Interface{ClientID: fmt.Sprint("j", serial)}
				if link == "" {
					return
				}
				members := []am.Sliver{}
				for key, s := range x.slivers {
					if m.of[key] == m.of[of.URN.Key()] && s.Status.Allocation != am.Unallocated {
						members = append(members, s)
					}
				}
				existing := endsOf(members)[link]
				r := &rspec.Request{Nodes: []rspec.Node{{ClientID: "j", Interfaces: []rspec.Interface{asked}}}, Links: []rspec.Link{{ClientID: link, Join: true, Interfaces: []string{asked.ClientID}}}}
				if rapid.Bool().Draw(t, "shaped") {
					r.Links[0].Properties = []rspec.Property{{Source: asked.ClientID, Capacity: 300_000}}
				}
				b, err := bindFor(&Request{Request: r, Slice: of.Slice, Addresses: addresses(of.Slice.Name), Existing: map[string][]LinkEnd{link: existing}}, x)
				if err != nil {
					return
				}
				joined++
				in := b.Nodes[0].Interfaces[0]
				if is := existing[0].Interface; in.VLAN != is.VLAN || in.SharedVLAN != is.SharedVLAN || in.LinkType != is.LinkType {
					t.Fatalf("%+v joined %+v", in, is)
				}
				p, wired := m.v.Interface(in.Component)
				for _, e := range existing {
					if q, ok := m.v.Interface(e.Interface.Component); ok && wired && in.SharedVLAN == "" && q.Link != p.Link {
						t.Fatalf("%+v is not on the physical link of %+v", in, e)
					}
				}
				joins++
				s := record(fmt.Sprint("join-", joins), of.Slice.Name, b.Nodes[0])
				m.of[s.URN.Key()] = m.of[of.URN.Key()]
				x.put(s)
			},
			"one link": func(t *rapid.T) {
				from, to := rapid.SampledFrom(m.v.Components).Draw(t, "from"), rapid.SampledFrom(m.v.Components).Draw(t, "to")
				if from == to || !from.IsWired() || !to.IsWired() {
					return
				}
				capacity := rapid.SampledFrom([]int64{1, 40_000, 600_000, 5_000_000}).Draw(t, "capacity")
				r := &rspec.Request{Links: []rspec.Link{{ClientID: "l", Interfaces: []string{"a:0", "b:0"}, Properties: []rspec.Property{{Source: "a:0", Dest: "b:0", Capacity: capacity}}}}}
				for i, c := range []*inventory.Component{from, to} {
					id := []string{"a", "b"}[i]
					r.Nodes = append(r.Nodes, rspec.Node{ClientID: id, ComponentID: c.URN.String(), Interfaces: []rspec.Interface{{ClientID: id + ":0"}}})
				}
				_, err := bind(r, x, slice("z"))
				got := ""
				if e, ok := errors.AsType[*UnsatisfiedError](err); ok {
					if e.Reasons[0].Kind == "node" || e.Reasons[0].Code == am.NoVLAN {
						return
					}
					got = err.Error()
					refused[e.Reasons[0].detail()]++
				}
				if want := m.possible(from, to, capacity); want != (got == "") {
					t.Fatalf("%d kbit/s from %s to %s is possible by the model: %v, but %s", capacity, from.Name, to.Name, want, got)
				}
			},
			"": func(t *rapid.T) { m.check(t, x) },
		}))
	})
	t.Logf("%d requests with %d links bound, %d nodes joined, refused: %v", bound, linked, joined, refused)
	if bound == 0 || linked == 0 || joined == 0 || refused[am.InsufficientBandwidth] == 0 {
		t.Error("nothing was ever bound or refused: the test tests nothing")
	}
}
