package binder

import (
	"slices"
	"strconv"
	"strings"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

// wire is a link of the request with its ends at nodes.
type wire struct {
	*rspec.Link
	ends  []end
	flows []flow
	// shared is the VLAN that the link joins; nil for none. A tunnel uses no physical links.
	shared *inventory.SharedVLAN
	tunnel bool
	// existing are the ends that the link has already; over is the physical link between them, or
	// nil.
	existing []LinkEnd
	over     *inventory.Link
	// only has the physical links that the request allows; nil for any.
	only   []*inventory.Link
	tag    int  // of the VLAN that its kept ends have; 0 if they have none
	routed bool // it runs over a physical link
	failed bool // refused with a reason
}

// end is the position of an interface: its node in the request, and its number in the
// node.
type end struct{ node, number int }

// flow is a property that asks for capacity, from one end of the wire to another, or
// between one end and all others (rest).
type flow struct {
	from, to int
	capacity int64 // kbit/s
}

// rest stands for all other ends of a wire. How a flow divides among them is unknown, so the
// flow takes no capacity at these ends.
const rest = -1

// amount is the capacity that an end takes in each direction, in kbit/s.
type amount struct{ out, in int64 }

// unlimited is more than any interface has, and small enough that sums over all slivers
// of a site do not overflow.
const unlimited = 1 << 40

// sum adds two capacities, up to unlimited.
func sum(a, b int64) int64 { return min(a+b, unlimited) }

func (a amount) add(b amount) amount { return amount{sum(a.out, b.out), sum(a.in, b.in)} }

func (a amount) within(b amount) bool { return a.out <= b.out && a.in <= b.in }

// readWires makes b.wires of the request's links: their ends, the capacities that they ask for, and the shared VLAN or
// physical links that they may use. It records a mistake in a link as a reason and sets flawed.
func (b *binding) readWires() {
	r := b.Request.Request
	if len(r.Links) == 0 {
		return
	}
	places := map[string]end{}
	for n := range r.Nodes {
		for i := range r.Nodes[n].Interfaces {
			places[r.Nodes[n].Interfaces[i].ClientID] = end{n, i}
		}
	}
	linkOf := map[end]string{}
	b.wires = make([]wire, 0, len(r.Links))
	before := len(b.reasons)
	for l := range r.Links {
		w := wire{Link: &r.Links[l]}
		b.readExisting(&w)
		w.tunnel = isTunnel(w.Type)
		number := map[string]int{} // the position in w.ends, by client_id
		for _, id := range w.Link.Interfaces {
			e, ok := places[id]
			if _, twice := number[id]; twice || !ok {
				continue
			}
			if other, taken := linkOf[e]; taken {
				b.refuseLink(&w, am.BadArgs, "its interface %.80q is on link %.80q already; give each link an interface of its own", id, other)
				continue
			}
			linkOf[e] = w.ClientID
			in := &b.nodes[e.node].Interfaces[e.number]
			in.Link, in.LinkType = w.ClientID, w.Type
			b.keepAddresses(&w, e)
			number[id] = len(w.ends)
			w.ends = append(w.ends, e)
		}
		endNumber := func(id string) (n int, ok bool) {
			if id == "" {
				return rest, true
			}
			n, ok = number[id]
			return n, ok
		}
		for _, p := range w.Properties {
			from, ok1 := endNumber(p.Source)
			to, ok2 := endNumber(p.Dest)
			if ok1 && ok2 && from != to && p.Capacity > 0 {
				w.flows = append(w.flows, flow{from, to, min(p.Capacity, unlimited)})
			}
		}
		b.readSharedVLAN(&w)
		b.readPhysicalLink(&w)
		b.checkExisting(&w)
		b.wires = append(b.wires, w)
	}
	b.flawed = len(b.reasons) > before
}

func isTunnel(linkType string) bool { return strings.Contains(strings.ToLower(linkType), "tunnel") }

// readPhysicalLink reads the component_id of a link, which names a physical link, and a type of
// physical links.
func (b *binding) readPhysicalLink(w *wire) {
	if w.tunnel {
		return
	}
	w.only = b.linksOfType(w.Type)
	if w.ComponentID == "" {
		return
	}
	u, err := urn.Parse(w.ComponentID)
	n := b.linkWith(u)
	switch {
	case err != nil:
		b.refuseLink(w, am.BadArgs, "its component_id is not a URN: %.200q; copy one from the advertisement, or leave it out", w.ComponentID)
	case n < 0:
		b.refuseLink(w, am.SearchFailed, "there is no physical link %s; there are %s", u, list(b.x.inv.Links, linkName))
	case w.only != nil && !slices.Contains(w.only, b.x.inv.Links[n]):
		b.refuseLink(w, am.Unsupported, "the physical link %s is %s, not %.80q; leave link_type out, or name another link", b.x.inv.Links[n].Name, b.x.inv.Links[n].Type, w.Type)
	default:
		w.only = b.x.inv.Links[n : n+1]
	}
}

// linksOfType remembers the links of each type.
func (b *binding) linksOfType(name string) []*inventory.Link {
	all, known := b.ofType[name]
	if !known {
		if b.ofType == nil {
			b.ofType = map[string][]*inventory.Link{}
		}
		b.work.add(len(b.x.inv.Links))
		all = b.x.inv.LinksOfType(name)
		b.ofType[name] = all
	}
	return all
}

// linkWith returns the index of the physical link u; negative if there is none.
func (b *binding) linkWith(u urn.URN) int {
	if b.linkByURN == nil {
		b.linkByURN = map[string]int{}
		for i, l := range b.x.inv.Links {
			b.linkByURN[l.URN.Key()] = i
		}
	}
	n, known := b.linkByURN[u.Key()]
	if !known {
		return -1
	}
	return n
}

func (w *wire) allows(l *inventory.Link) bool { return w.only == nil || slices.Contains(w.only, l) }

// readSharedVLAN sets the shared VLAN that the link asks for, or refuses the link.
func (b *binding) readSharedVLAN(w *wire) {
	if w.SharedVLAN == "" {
		return
	}
	v, ok := b.x.inv.SharedVLAN(w.SharedVLAN)
	tag := strings.TrimSpace(w.SharedTag)
	switch {
	case !ok && len(b.x.inv.SharedVLANs) == 0:
		b.refuseLink(w, am.SearchFailed, "there is no shared VLAN %.80q; this aggregate has none", w.SharedVLAN)
	case !ok:
		names := make([]string, len(b.x.inv.SharedVLANs))
		for i, v := range b.x.inv.SharedVLANs {
			names[i] = v.Name
		}
		b.refuseLink(w, am.SearchFailed, "there is no shared VLAN %.80q%s", w.SharedVLAN, b.hint(w.SharedVLAN, names))
	case v.Restricted:
		b.refuseLink(w, am.Refused, "the shared VLAN %s is restricted; ask the operators of this aggregate for it", v.Name)
	case tag != "" && tag != strconv.Itoa(v.Tag):
		b.refuseLink(w, am.BadArgs, "the shared VLAN %s has the tag %d, not %.40q; leave vlantag out", v.Name, v.Tag, tag)
	case b.x.network.alone[v.Tag]: // the inventory has changed meanwhile
		b.refuseLink(w, am.NoVLAN, "an earlier link still uses the tag %d of the shared VLAN %s; try again later", v.Tag, v.Name)
	default:
		w.shared = v
	}
}

// amounts returns the capacity that each end takes. All nodes must have components, because traffic within a component
// takes no capacity.
func (b *binding) amounts(w *wire) []amount {
	return w.amounts(func(x, y end) bool { return b.nodes[x.node].Component != b.nodes[y.node].Component })
}

// amounts returns the capacity that each end takes: the largest flow that leaves the end, and
// the largest flow that arrives. usesNetwork reports whether traffic between two ends uses the
// network. Flows are not added, because clients repeat the speed of an interface for every
// pair of a LAN. The cost is linear in ends and flows.
func (w *wire) amounts(usesNetwork func(x, y end) bool) []amount {
	all := make([]amount, len(w.ends))
	if len(w.flows) == 0 {
		return all
	}
	hasOtherEnds := w.shared != nil || w.over != nil // a shared VLAN has ends in other slices
	for _, e := range w.ends {
		hasOtherEnds = hasOtherEnds || usesNetwork(w.ends[0], e)
	}
	for _, f := range w.flows {
		passes := hasOtherEnds
		if f.from != rest && f.to != rest {
			passes = usesNetwork(w.ends[f.from], w.ends[f.to])
		}
		if passes && f.from != rest {
			all[f.from].out = max(all[f.from].out, f.capacity)
		}
		if passes && f.to != rest {
			all[f.to].in = max(all[f.to].in, f.capacity)
		}
	}
	return all
}

// countComponents reports whether the wire connects several components. wired is the number of wired
// components at its ends, 2 if there are more.
func (b *binding) countComponents(w *wire) (several bool, wired int) {
	var all, seen []*inventory.Component
	for _, e := range w.existing {
		if c, ok := b.x.inv.Component(e.Component); ok {
			all = append(all, c)
		}
	}
	for _, e := range w.ends {
		all = append(all, b.nodes[e.node].Component)
	}
	for _, c := range all {
		if len(seen) < 2 && c.IsWired() && !slices.Contains(seen, c) {
			seen = append(seen, c)
		}
		several = several || c != all[0]
	}
	return several, len(seen)
}
