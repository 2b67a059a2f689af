package binder

import (
	"slices"

	"patchbay/am"
	"patchbay/am/display"
)

// Limits on the properties of links. Without these limits, the result could grow with the
// square of a LAN's interfaces.
const (
	maxProperties  = 256      // of one interface
	maxNamed       = 16 << 10 // bytes of client_ids in the properties of one interface
	propertyBytes  = 64       // of a property without its client_ids, approximately
	maxPropertySum = 4 << 20  // approximate bytes of all properties of a request
	maxQualities   = 1 << 18  // ends times classes of one link
)

// qualities are the properties of one link. Slices are indexed by the position of an end: first
// those of the request, then those that the link has already.
type qualities struct {
	out   []quality // of frames that leave the end, to any other
	in    []quality // of frames that arrive at the end, from any other
	pairs [][]pair  // of frames from the end to single other ends, sorted by the other end
	// classes are the sets of ends whose values in "in" are equal; each set is ascending.
	classes []peers
	classOf []int // the class of the end
}

// quality returns the quality of the frames from all other ends.
func (e *LinkEnd) quality() quality {
	a := &e.Interface.Arriving
	return quality{a.Capacity, a.Latency, a.Loss}
}

// pair is the quality of frames to the end with the number to. The index in qualities.pairs
// is the number of the end that sends these frames.
type pair struct {
	to int
	quality
}

// peers is a set of ends at which arriving frames have the same quality.
type peers struct {
	quality
	ends []int
}

// assignProperties sets the properties of each interface on a link that has properties, and refuses links that need
// too many.
func (b *binding) assignProperties() {
	left := maxPropertySum
	for i := range b.wires {
		w := &b.wires[i]
		isShaped := len(w.Properties) > 0 || slices.ContainsFunc(w.existing, func(e LinkEnd) bool { return e.quality() != quality{} })
		if !isShaped || len(w.ends) == 0 {
			continue
		}
		s := b.qualitiesOf(w)
		if len(w.ends)*len(s.classes) > maxQualities {
			b.refuseLink(w, am.TooBig, "its properties differ at %d of its %s, which is too much for one link; split it into several links", len(s.classes), display.Count(len(w.ends), "interface"))
			continue
		}
		for n, e := range w.ends {
			if !b.work.add(3 * len(s.classes)) {
				b.refuseLink(w, am.TooBig, "the properties of the request's links differ at too many of their interfaces; write fewer different ones, or request less at once")
				return
			}
			list, size, ok := s.leaving(n, w, func(n int) string {
				if n >= len(w.ends) {
					return w.existing[n-len(w.ends)].Interface.ClientID
				}
				return b.clientID(w.ends[n])
			})
			if !ok {
				b.refuseLink(w, am.TooBig, "its interface %.80q needs too many different properties: at most %d, with %d bytes of names, are possible; split it into several links", b.clientID(e), maxProperties, maxNamed)
				break
			}
			if left -= size; left < 0 {
				b.refuseLink(w, am.TooBig, "the properties of all links have more than %d bytes; write fewer different ones, or request less at once", maxPropertySum)
				return
			}
			in := &b.nodes[e.node].Interfaces[e.number]
			in.Properties, in.Arriving = list, property(s.in[n], nil)
		}
	}
}

// qualitiesOf collects the properties of w by the ends to which they apply, and puts ends with equal properties of
// arriving frames into classes. It ignores properties that name an end that the link does not have.
func (b *binding) qualitiesOf(w *wire) *qualities {
	n := len(w.ends) + len(w.existing)
	s := &qualities{out: make([]quality, n), in: make([]quality, n), pairs: make([][]pair, n), classOf: make([]int, n)}
	places := make(map[string]int, n)
	for i, e := range w.ends {
		places[b.clientID(e)] = i
	}
	for i, e := range w.existing {
		s.in[len(w.ends)+i] = e.quality()
	}
	for _, p := range w.Properties {
		from, hasSource := places[p.Source]
		to, hasDest := places[p.Dest]
		q := qualityOf(p)
		switch {
		case hasSource && p.Dest == "":
			s.out[from] = s.out[from].combine(q)
		case hasDest && p.Source == "":
			s.in[to] = s.in[to].combine(q)
		case hasSource && hasDest && from != to:
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

// mergePairs combines the pairs to the same end, which must be neighbours in the list.
func mergePairs(list []pair) []pair {
	out := list[:0]
	for _, p := range list {
		if last := len(out) - 1; last >= 0 && out[last].to == p.to {
			out[last].quality = out[last].combine(p.quality)
		} else {
			out = append(out, p)
		}
	}
	return out
}

// group is a set of ends. Frames from one given end have the same quality to all of them.
type group struct {
	quality
	first   int   // the lowest end
	count   int   // the number of ends
	classes []int // classes whose ends are in the group, except the single ends (isSingle)
	singles []int // single ends
}

// leaving returns the properties of frames that leave end n, and their approximate size in
// bytes. The first property may have no names: then it is the default for all ends that no other one names.
// ok is false if the properties exceed the limits.
func (s *qualities) leaving(n int, w *wire, clientIDAt func(int) string) (list []am.Property, size int, ok bool) {
	groups := s.groups(n)
	other := s.defaultQuality(n, w, groups)
	if other != (quality{}) {
		list = append(list, property(other, nil))
	}
	nameBytes := 0
	for _, g := range groups {
		if g.quality == (quality{}) || g.quality == other {
			continue
		}
		if len(list) == maxProperties {
			return nil, 0, false
		}
		var to []string
		for place := range s.members(n, g) {
			id := clientIDAt(place)
			if nameBytes += len(id); nameBytes > maxNamed {
				return nil, 0, false
			}
			to = append(to, id)
		}
		list = append(list, property(g.quality, to))
	}
	return list, nameBytes + propertyBytes*len(list), true
}

// property returns the property of frames to all interfaces if names is empty.
func property(s quality, names []string) am.Property {
	return am.Property{To: names, Capacity: s.capacity, Latency: s.latency, Loss: s.loss}
}

// groups returns the ends opposite to end n, grouped by the quality of the way to them. The
// groups are sorted by their first end. Single ends (isSingle) are added one by one, and the other ends of a
// class together, so that the cost does not grow with the square of the ends.
func (s *qualities) groups(n int) []*group {
	var all []*group
	byQuality := map[quality]*group{}
	add := func(q quality, first, count int) *group {
		g := byQuality[q]
		if g == nil {
			g = &group{quality: q, first: first}
			byQuality[q] = g
			all = append(all, g)
		}
		g.first, g.count = min(g.first, first), g.count+count
		return g
	}
	singlesIn := make(map[int]int, len(s.classes)) // the number of single ends of each class
	singlesIn[s.classOf[n]]++                      // n itself
	for _, p := range s.pairs[n] {
		singlesIn[s.classOf[p.to]]++
		g := add(s.out[n].combine(s.in[p.to]).overriddenBy(p.quality), p.to, 1)
		g.singles = append(g.singles, p.to)
	}
	for c, x := range s.classes {
		count := len(x.ends) - singlesIn[c]
		if count == 0 {
			continue
		}
		first := slices.IndexFunc(x.ends, func(to int) bool { return !s.isSingle(n, to) })
		g := add(s.out[n].combine(x.quality), x.ends[first], count)
		g.classes = append(g.classes, c)
	}
	slices.SortFunc(all, func(a, b *group) int { return a.first - b.first })
	return all
}

// isSingle reports whether the end dest is handled alone, not with the other ends of its class.
// This is so if n has a property for dest alone, or if dest is n.
func (s *qualities) isSingle(n, dest int) bool {
	_, listed := slices.BinarySearchFunc(s.pairs[n], dest, func(p pair, dest int) int { return p.to - dest })
	return listed || dest == n
}

// members yields the ends of a group of n: first the single ends, then the ends of each
// class.
func (s *qualities) members(n int, g *group) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for _, to := range g.singles {
			if !yield(to) {
				return
			}
		}
		for _, c := range g.classes {
			for _, to := range s.classes[c].ends {
				if !s.isSingle(n, to) && !yield(to) {
					return
				}
			}
		}
	}
}

// defaultQuality returns the quality for all ends that no property of n names. This is the quality
// of the largest group, or the zero quality if a group needs no properties. A shared VLAN has
// ends of other slices, so there it is the quality of frames that leave n to any end.
func (s *qualities) defaultQuality(n int, w *wire, groups []*group) quality {
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
