package binder

import (
	"math/bits"
	"net/netip"
	"slices"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/rspec"
)

// assignTags gives a free VLAN tag to each link that uses a physical link and has no tag yet. A link
// that joins a shared VLAN, or a link of the slice, gets the tag of that. The tags of kept links are
// reserved first, so that no new link takes one.
func (b *binding) assignTags() {
	pool := &b.x.network.tags
	for i := range b.wires {
		if w := &b.wires[i]; w.tag != 0 {
			pool.held[w.tag] = true
		}
	}
	asked := 0
	for i := range b.wires {
		if w := &b.wires[i]; w.shared == nil && w.routed && len(w.existing) == 0 && w.tag == 0 {
			asked++
		}
	}
	for i := range b.wires {
		w := &b.wires[i]
		tag, shared := 0, ""
		switch {
		case w.shared != nil:
			tag, shared = w.shared.Tag, w.shared.Name
		case len(w.existing) > 0:
			tag = w.existing[0].Interface.VLAN
		case w.routed && w.tag != 0:
			tag = w.tag
		case w.routed && len(pool.names) > 0:
			var ok bool
			if tag, ok = pool.take(); !ok {
				b.refuseLink(w, am.NoVLAN, "%s; put its nodes on one component or into fewer links%s", pool.shortageText("VLANs", asked), pool.retryHint(asked))
				continue
			}
		}
		isNew := func(e end) bool { return b.keptInterface(&b.nodes[e.node], e.number) == nil }
		if (len(w.existing) > 0 || w.tag != 0) && shared == "" && b.x.network.others[tag] && slices.ContainsFunc(w.ends, isNew) {
			b.refuseLink(w, am.NoVLAN, "another slice has reserved its VLAN %d for a part of this time; ask for another time, or make another link", tag)
		}
		for _, e := range w.ends {
			in := &b.nodes[e.node].Interfaces[e.number]
			in.VLAN, in.SharedVLAN = tag, shared
		}
	}
}

// assignPublic gives a free public address to each new node that asks for one. Kept nodes do not change.
func (b *binding) assignPublic() {
	pool := &b.x.network.public
	asked := 0
	for i := range b.nodes {
		n := &b.nodes[i]
		if x := b.Kept[n.Node.ClientID]; x != nil {
			n.PublicAddress = x.PublicAddress
			pool.held[x.PublicAddress] = true
		} else if n.Node.RoutableIP {
			asked++
		}
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		if b.Kept[n.Node.ClientID] != nil || !n.Node.RoutableIP || len(pool.names) == 0 {
			continue
		}
		var ok bool
		if n.PublicAddress, ok = pool.take(); !ok {
			b.refuse(n, am.TooBig, "%s; leave routable_control_ip out%s", pool.shortageText("public addresses", asked), pool.retryHint(asked))
		}
	}
}

// assignAddresses gives an address to each interface that is on a link and has no address.
// The address is in the range that the link requests, in the network of its other addresses, or in
// a network that the slice does not use yet. Addresses that the slice uses elsewhere are avoided, unless
// the network has no others.
// In a shared VLAN, the slices must agree on addresses themselves.
func (b *binding) assignAddresses(used []netip.Prefix) {
	var free *networks
	var taken map[netip.Addr]bool         // addresses that the slice uses or requests; nil until a network may have some of them
	next := map[netip.Prefix]netip.Addr{} // where the next search in a network begins: all lower addresses are taken
	for i := range b.wires {
		w := &b.wires[i]
		var unaddressed []*am.Interface
		given := w.existingAddresses()
		for _, e := range w.ends {
			if in := &b.nodes[e.node].Interfaces[e.number]; len(in.Addresses) > 0 {
				given = append(given, in.Addresses...)
			} else {
				unaddressed = append(unaddressed, in)
			}
		}
		if len(unaddressed) == 0 || w.shared != nil {
			continue
		}
		network := commonNetwork(given)
		if len(w.existing) == 0 && w.Range.IsValid() {
			network = w.Range
		}
		if !network.IsValid() {
			if free == nil {
				free = newNetworks(b.x.inv.LinkAddresses, used, b.requestedAddresses(), b.requestedRanges())
			}
			var ok bool
			if network, ok = free.next(len(w.ends)); !ok {
				b.refuseLink(w, am.TooBig, "no network for its %s is left in %s; give them addresses", display.Count(len(w.ends), "interface"), b.x.inv.LinkAddresses)
				continue
			}
		}
		if (len(given) > 0 || network == w.Range) && taken == nil {
			taken = addresses(used, b.requestedAddresses())
		}
		for _, a := range given {
			taken[a.Addr()] = true
		}
		from, seen := next[network]
		if !seen {
			from = firstHost(network)
		}
		end, ok := assignHosts(b.work, network, from, taken, unaddressed)
		next[network] = end
		if !ok {
			_, ok = assignHosts(b.work, network, firstHost(network), addresses(given), unaddressed)
		}
		if b.work.isOver() {
			b.refuseWork(w)
			return
		}
		if !ok {
			b.refuseLink(w, am.BadArgs, "the network %s of its addresses has no room for %s more; write a wider netmask or range, or give each interface an address", network, display.Count(len(unaddressed), "interface"))
			continue
		}
		for _, in := range unaddressed {
			if taken != nil {
				taken[in.Addresses[0].Addr()] = true
			}
		}
	}
}

func addresses(lists ...[]netip.Prefix) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, list := range lists {
		for _, p := range list {
			all[p.Addr()] = true
		}
	}
	return all
}

func (b *binding) requestedRanges() (all []netip.Prefix) {
	for i := range b.wires {
		if w := &b.wires[i]; w.Range.IsValid() {
			all = append(all, w.Range)
		}
	}
	return all
}

func (b *binding) requestedAddresses() (all []netip.Prefix) {
	for i := range b.Nodes {
		for _, in := range b.Nodes[i].Interfaces {
			all = append(all, in.Addresses...)
		}
	}
	return all
}

// commonNetwork returns the network of the first IPv4 address in requested, else of the first
// IPv6 address, else a zero Prefix.
func commonNetwork(requested []netip.Prefix) netip.Prefix {
	first := netip.Prefix{}
	for _, p := range requested {
		if p.Addr().Is4() {
			return p.Masked()
		}
		if !first.IsValid() {
			first = p.Masked()
		}
	}
	return first
}

// noHosts are the IPv4 addresses that no host can have.
var noHosts = netip.MustParsePrefix("0.0.0.0/8")

func firstHost(network netip.Prefix) netip.Addr {
	if noHosts.Contains(network.Addr()) {
		return rspec.LastAddress(noHosts).Next()
	}
	return network.Addr()
}

// assignHosts gives each interface the lowest available host address from start to end. ok
// is false if the network has too few available addresses.
func assignHosts(w *work, network netip.Prefix, start netip.Addr, unavailable map[netip.Addr]bool, interfaces []*am.Interface) (end netip.Addr, ok bool) {
	var first, last netip.Addr                                      // addresses that no host can have
	if host := network.Addr().BitLen() - network.Bits(); host > 1 { // else hosts can have all addresses
		first = network.Addr()
		if first.Is4() {
			last = rspec.LastAddress(network)
		}
	}
	end = start
	for _, in := range interfaces {
		for end.IsValid() && (unavailable[end] || end == first || end == last) {
			if !w.add(2) {
				return end, false
			}
			end = end.Next()
		}
		if !network.Contains(end) {
			return end, false
		}
		in.Addresses = []netip.Prefix{netip.PrefixFrom(end, network.Bits())}
		end = end.Next()
	}
	return end, true
}

// networks finds IPv4 networks inside area that overlap no used network.
type networks struct {
	area  netip.Prefix
	used  []span     // ascending, disjoint
	first [33]uint64 // where the next search begins, by length of the prefix
}

// span is a range of IPv4 addresses as numbers.
type span struct{ first, last uint64 }

// newNetworks returns the networks in area that do not overlap those in lists.
func newNetworks(area netip.Prefix, lists ...[]netip.Prefix) *networks {
	n := &networks{area: area}
	for _, list := range lists {
		for _, p := range list {
			if p.Addr().Is4() && p.Overlaps(area) {
				first := number4(p.Masked().Addr())
				n.used = append(n.used, span{first, first + size4(p.Bits()) - 1})
			}
		}
	}
	slices.SortFunc(n.used, func(a, b span) int {
		if a.first != b.first {
			return int(int64(a.first) - int64(b.first))
		}
		return int(int64(b.last) - int64(a.last))
	})
	disjoint := n.used[:0]
	for _, s := range n.used { // of two networks that overlap, one is inside the other
		if len(disjoint) == 0 || s.first > disjoint[len(disjoint)-1].last {
			disjoint = append(disjoint, s)
		}
	}
	n.used = disjoint
	for i := range n.first {
		n.first[i] = number4(area.Addr())
	}
	return n
}

// next takes the lowest free network for a number of hosts: a /24 or larger. It returns
// false if area has no such network.
func (n *networks) next(hosts int) (netip.Prefix, bool) {
	length := min(24, 32-bits.Len(uint(hosts+1)))
	if length < n.area.Bits() {
		return netip.Prefix{}, false
	}
	size, end := size4(length), number4(n.area.Addr())+size4(n.area.Bits())
	at := n.first[length]
	for {
		// used[i] is the first used network that ends at or after at.
		i, _ := slices.BinarySearchFunc(n.used, at, func(s span, at uint64) int {
			if s.last < at {
				return -1
			}
			return 1
		})
		if at+size > end {
			n.first[length] = at
			return netip.Prefix{}, false
		}
		if i < len(n.used) && n.used[i].first < at+size {
			at = (n.used[i].last + size) / size * size
			continue
		}
		n.first[length] = at + size
		if i > 0 && n.used[i-1].last+1 == at {
			n.used[i-1].last = at + size - 1
		} else {
			n.used = slices.Insert(n.used, i, span{at, at + size - 1})
		}
		return netip.PrefixFrom(address4(at), length), true
	}
}

func size4(length int) uint64 { return 1 << (32 - length) }

func number4(a netip.Addr) uint64 {
	b := a.As4()
	return uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3])
}

func address4(n uint64) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}
