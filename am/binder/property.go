package binder

import (
	"slices"

	"patchbay/am"
)

// Limits on the properties of links. Otherwise the result could have the
// square of the size of a request with large LANs.
const (
	maxProperties  = 256      // of one interface
	maxNamed       = 16 << 10 // bytes of client_ids in the properties of one interface
	maxPropertySum = 4 << 20  // approximate bytes of all properties of a request
	maxQualities   = 1 << 18  // steps for one link
)

// qualities are the properties of one link, by the positions of its ends.
type qualities struct {
	out   []quality // of frames that leave an end, to any other
	in    []quality // of frames that arrive at an end, from any other
	pairs [][]pair  // from each end to others, sorted by these
	// classes are the groups of ends with equal in; the ends of each are ascending.
	classes []peers
	classOf []int // the class of each end
}

// pair is the quality of frames from one end, known from the context, to the end to.
type pair struct {
	to int
	quality
}

// peers are the ends at which arriving frames have the same quality.
type peers struct {
	quality
	ends []int
}

// assignProperties sets the properties of frames that leave each interface.
func (b *binding) assignProperties() {
	left := maxPropertySum
	for i := range b.wires {
		w := &b.wires[i]
		if len(w.Properties) == 0 || len(w.ends) == 0 {
			continue
		}
		s := b.qualitiesOf(w)
		if len(w.ends)*len(s.classes) > maxQualities {
			b.refuseLink(w, am.TooBig, am.NoDetail, "its properties differ at %d of its %s, which is too much for one link; split it into several links", len(s.classes), plural(len(w.ends), "interface"))
			continue
		}
		for n, e := range w.ends {
			list, size, ok := s.leaving(n, w, func(n int) string { return b.clientID(w.ends[n]) })
			if !ok {
				b.refuseLink(w, am.TooBig, am.NoDetail, "its interface %.80q needs too many different properties: at most %d, with %d bytes of names, are possible; split it into several links", b.clientID(e), maxProperties, maxNamed)
				break
			}
			if left -= size; left < 0 {
				b.refuseLink(w, am.TooBig, am.NoDetail, "the properties of all links have more than %d bytes; write fewer different ones, or request less at once", maxPropertySum)
				return
			}
			b.nodes[e.node].Interfaces[e.number].Properties = list
		}
	}
}

// qualitiesOf returns the properties of a link, sorted by its ends. Properties that name an
// end which the link does not have are ignored.
func (b *binding) qualitiesOf(w *wire) *qualities {
	n := len(w.ends)
	s := &qualities{out: make([]quality, n), in: make([]quality, n), pairs: make([][]pair, n), classOf: make([]int, n)}
	places := make(map[string]int, n)
	for i, e := range w.ends {
		places[b.clientID(e)] = i
	}
	for _, p := range w.Properties {
		from, known1 := places[p.Source]
		to, known2 := places[p.Dest]
		q := qualityOf(p)
		switch {
		case known1 && p.Dest == "":
			s.out[from] = s.out[from].combine(q)
		case known2 && p.Source == "":
			s.in[to] = s.in[to].combine(q)
		case known1 && known2 && from != to:
			s.pairs[from] = append(s.pairs[from], pair{to, q})
		}
	}
	for from, all := range s.pairs {
		slices.SortStableFunc(all, func(a, b pair) int { return a.to - b.to })
		s.pairs[from] = mergePairs(all)
	}
	numbers := map[quality]int{}
	for i, q := range s.in {
		c, known := numbers[q]
		if !known {
			c = len(s.classes)
			numbers[q] = c
			s.classes = append(s.classes, peers{quality: q})
		}
		s.classes[c].ends = append(s.classes[c].ends, i)
		s.classOf[i] = c
	}
	return s
}

// mergePairs combines the pairs with the same end, which must be neighbours in all.
func mergePairs(all []pair) []pair {
	out := all[:0]
	for _, p := range all {
		if last := len(out) - 1; last >= 0 && out[last].to == p.to {
			out[last].quality = out[last].combine(p.quality)
		} else {
			out = append(out, p)
		}
	}
	return out
}

// group is a set of ends towards which frames that leave an end have the same
// properties.
type group struct {
	quality
	first   int // the lowest place
	count   int
	classes []int // classes that belong to it, without those of their ends that are apart (isApart)
	apart   []int // ends that belong to it for themselves, not with their class
}

// leaving returns the properties of what leaves end n and their approximate size in
// bytes, and whether they are within the limits.
func (s *qualities) leaving(n int, w *wire, name func(int) string) (list []am.Property, size int, ok bool) {
	groups := s.groups(n)
	rest := s.remaining(n, w, groups)
	if rest != (quality{}) {
		list = append(list, property(rest, nil))
	}
	names := 0
	for _, g := range groups {
		if g.quality == (quality{}) || g.quality == rest {
			continue
		}
		if len(list) == maxProperties {
			return nil, 0, false
		}
		var to []string
		for place := range s.members(n, g) {
			id := name(place)
			if names += len(id); names > maxNamed {
				return nil, 0, false
			}
			to = append(to, id)
		}
		list = append(list, property(g.quality, to))
	}
	return list, names + 64*len(list), true
}

// property returns the property of frames to the named interfaces; to all if there are none.
func property(s quality, to []string) am.Property {
	return am.Property{To: to, Capacity: s.capacity, Latency: s.latency, Loss: s.loss}
}

// groups returns the other ends grouped by the properties of frames from n to them, in
// the order of the first end of each group.
func (s *qualities) groups(n int) []*group {
	var all []*group
	find := map[quality]*group{}
	add := func(q quality, first, count int) *group {
		g := find[q]
		if g == nil {
			g = &group{quality: q, first: first}
			find[q] = g
			all = append(all, g)
		}
		g.first, g.count = min(g.first, first), g.count+count
		return g
	}
	apart := make(map[int]int, len(s.classes)) // how many of a class are treated apart
	apart[s.classOf[n]]++
	for _, p := range s.pairs[n] {
		apart[s.classOf[p.to]]++
		g := add(s.out[n].combine(s.in[p.to]).overriddenBy(p.quality), p.to, 1)
		g.apart = append(g.apart, p.to)
	}
	for c, x := range s.classes {
		count := len(x.ends) - apart[c]
		if count == 0 {
			continue
		}
		first := slices.IndexFunc(x.ends, func(to int) bool { return !s.isApart(n, to) })
		g := add(s.out[n].combine(x.quality), x.ends[first], count)
		g.classes = append(g.classes, c)
	}
	slices.SortFunc(all, func(a, b *group) int { return a.first - b.first })
	return all
}

// isApart reports whether end to is treated apart from its class, because n has a property
// for it alone, or because it is n itself.
func (s *qualities) isApart(n, to int) bool {
	_, listed := slices.BinarySearchFunc(s.pairs[n], to, func(p pair, to int) int { return p.to - to })
	return listed || to == n
}

// members yields the ends of a group of n: those apart, then those of each class.
func (s *qualities) members(n int, g *group) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for _, to := range g.apart {
			if !yield(to) {
				return
			}
		}
		for _, c := range g.classes {
			for _, to := range s.classes[c].ends {
				if !s.isApart(n, to) && !yield(to) {
					return
				}
			}
		}
	}
}

// remaining returns the quality that is written without names, for all ends that no other
// property names. It is that of the largest group; none if a group has no properties. A
// shared VLAN also has ends that are unknown here, so there it is the quality of all frames
// that leave n.
func (s *qualities) remaining(n int, w *wire, groups []*group) quality {
	if w.shared != nil {
		return s.out[n]
	}
	var largest *group
	for _, g := range groups {
		if g.quality == (quality{}) {
			return quality{}
		}
		if largest == nil || g.count > largest.count {
			largest = g
		}
	}
	if largest == nil {
		return quality{}
	}
	return largest.quality
}
