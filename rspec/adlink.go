package rspec

import (
	"slices"
	"strconv"
	"strings"

	"patchbay/am/urn"
)

// AdLink is a physical link, or a switch, and the interfaces it joins. What
// joins two tells its capacity as a property in each direction. For a switch
// these would be as many as the square of its interfaces, so that tells its
// speeds as further link types, such as "ethernet-1000000".
type AdLink struct {
	ComponentID urn.URN
	// Name and Type are left out if they are empty.
	Name, Type string
	// Capacity is that of the interfaces that say nothing else, in kbit/s; 0
	// tells nothing.
	Capacity int64
	// Interfaces are told if a node of the site has them; a link without such
	// interfaces is not.
	Interfaces []urn.URN
}

// linkFragments are the texts of all links, one behind the other.
type linkFragments struct {
	text  string
	links []linkFragment
}

// linkFragment is a link: it ends where the next begins.
type linkFragment struct {
	// end of its start tag, and of what else is told of it in any case.
	head, end int
	parts     []linkPart
}

// linkPart is a child of a link that is told only together with its nodes.
type linkPart struct {
	end   int
	nodes [2]int // numbers; the same twice if there is one
}

// adEnd is an interface as links know it.
type adEnd struct {
	node     int
	capacity int64
}

func newLinkFragments(s *Site) linkFragments {
	ends := map[string]adEnd{}
	if len(s.Links) > 0 {
		for i := range s.Nodes {
			for _, in := range s.Nodes[i].Interfaces {
				ends[in.ComponentID.Key()] = adEnd{i, in.Capacity}
			}
		}
	}
	var b strings.Builder
	l := linkFragments{links: make([]linkFragment, 0, len(s.Links))}
	manager := s.Manager.String()
	for i := range s.Links {
		if link := &s.Links[i]; link.joins(ends) {
			l.links = append(l.links, link.write(&b, manager, ends))
		}
	}
	l.text = b.String()
	return l
}

// joins tells whether the link has any interface of the site.
func (l *AdLink) joins(ends map[string]adEnd) bool {
	return slices.ContainsFunc(l.Interfaces, func(u urn.URN) bool {
		_, known := ends[u.Key()]
		return known
	})
}

// write writes the link, and notes what of it belongs to which node.
func (l *AdLink) write(b *strings.Builder, manager string, ends map[string]adEnd) linkFragment {
	var f linkFragment
	b.WriteString(" " + openTag(inherited, "link", "component_id", l.ComponentID.String(), "component_name", l.Name) + ">")
	writeElement(b, inherited, "component_manager", "name", manager)
	l.writeTypes(b, ends)
	f.head = b.Len()
	var pair []adEnd
	for _, u := range l.Interfaces {
		end, known := ends[u.Key()]
		if !known {
			continue
		}
		pair = append(pair, end)
		writeElement(b, inherited, "interface_ref", "component_id", u.String())
		f.parts = append(f.parts, linkPart{b.Len(), [2]int{end.node, end.node}})
	}
	if len(l.Interfaces) == 2 && len(pair) == 2 {
		if capacity := least(l.capacity(pair[0]), l.capacity(pair[1])); capacity > 0 {
			a, z := l.Interfaces[0].String(), l.Interfaces[1].String()
			for _, direction := range [][2]string{{a, z}, {z, a}} {
				writeElement(b, inherited, "property", "source_id", direction[0], "dest_id", direction[1], "capacity", strconv.FormatInt(capacity, 10))
				f.parts = append(f.parts, linkPart{b.Len(), [2]int{pair[0].node, pair[1].node}})
			}
		}
	}
	b.WriteString("</link>\n")
	f.end = b.Len()
	return f
}

// writeTypes writes the kind of link, and the speeds of a switch.
func (l *AdLink) writeTypes(b *strings.Builder, ends map[string]adEnd) {
	if l.Type == "" {
		return
	}
	writeElement(b, inherited, "link_type", "name", l.Type)
	if len(l.Interfaces) == 2 {
		return
	}
	var speeds []int64
	for _, u := range l.Interfaces {
		if end, known := ends[u.Key()]; known && l.capacity(end) > 0 {
			speeds = append(speeds, l.capacity(end))
		}
	}
	slices.Sort(speeds)
	for _, speed := range slices.Compact(speeds) {
		if word := "-" + strconv.FormatInt(speed, 10); !strings.HasSuffix(l.Type, word) {
			writeElement(b, inherited, "link_type", "name", l.Type+word)
		}
	}
}

// capacity is what the link carries at one of its ends; 0 if nothing is known.
func (l *AdLink) capacity(e adEnd) int64 {
	if e.capacity > 0 {
		return e.capacity
	}
	return max(0, l.Capacity)
}

// least is the smaller of two capacities, of which 0 is not known.
func least(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// append writes the links without what refers to hidden nodes; a link none of
// whose interfaces is left is not told.
func (l *linkFragments) append(b []byte, hidden []bool) []byte {
	if hidden == nil {
		return append(b, l.text...)
	}
	begin := 0
	for i := range l.links {
		f := &l.links[i]
		from := begin
		begin = f.end
		if !slices.ContainsFunc(f.parts, func(p linkPart) bool { return p.shown(hidden) }) {
			continue
		}
		b = append(b, l.text[from:f.head]...)
		from = f.head
		for _, p := range f.parts {
			if p.shown(hidden) {
				b = append(b, l.text[from:p.end]...)
			}
			from = p.end
		}
		b = append(b, l.text[from:f.end]...)
	}
	return b
}

func (p *linkPart) shown(hidden []bool) bool { return !hidden[p.nodes[0]] && !hidden[p.nodes[1]] }
