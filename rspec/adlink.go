package rspec

import (
	"slices"
	"strconv"
	"strings"

	"patchbay/am/urn"
)

// AdLink is a physical link or a switch with the interfaces that it joins. The capacity of a
// link with two interfaces is written as a property in each direction. A switch would need a
// property for each pair of interfaces. So the capacities of a switch are written as further
// link types, such as "ethernet-1000000".
type AdLink struct {
	ComponentID urn.URN
	// Name and Type are left out if they are empty.
	Name, Type string
	// Capacity applies to the interfaces that state no capacity of their own. It is in
	// kbit/s; 0 means unknown.
	Capacity int64
	// Interfaces are the joined interfaces. An interface that no node of the site has is not
	// written. A link without any other interface is not written either.
	Interfaces []urn.URN
}

type linkFragments struct {
	text  string
	links []linkFragment
}

// linkFragment starts where the previous one ends.
type linkFragment struct {
	// head is the offset of the first part. The text up to head is written whenever one of
	// the parts is written. end is the offset at which the link ends.
	head, end int
	parts     []linkPart
}

// linkPart is written only if all its nodes are shown.
type linkPart struct {
	end   int    // the offset at which the part ends
	nodes [2]int // indexes of Site.Nodes; both are equal if there is one node
}

// adEnd is a node's interface at which links may end.
type adEnd struct {
	node     int   // index of Site.Nodes
	capacity int64 // 0 if the interface states none
}

// newLinkFragments writes all links that have an interface of a node of the site.
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
		if link := &s.Links[i]; link.hasKnownInterface(ends) {
			l.links = append(l.links, link.write(&b, manager, ends))
		}
	}
	l.text = b.String()
	return l
}

func (l *AdLink) hasKnownInterface(ends map[string]adEnd) bool {
	return slices.ContainsFunc(l.Interfaces, func(u urn.URN) bool {
		_, known := ends[u.Key()]
		return known
	})
}

// write appends the link to b. It returns the offsets in b with which linkFragments.append leaves out parts. The
// map ends has the interfaces of the site's nodes.
func (l *AdLink) write(b *strings.Builder, manager string, ends map[string]adEnd) linkFragment {
	var f linkFragment
	b.WriteString(" " + openTag(inherited, "link", "component_id", l.ComponentID.String(), "component_name", l.Name) + ">")
	writeElement(b, inherited, "component_manager", "name", manager)
	l.writeTypes(b, ends)
	f.head = b.Len()
	var written []adEnd
	for _, u := range l.Interfaces {
		end, known := ends[u.Key()]
		if !known {
			continue
		}
		written = append(written, end)
		writeElement(b, inherited, "interface_ref", "component_id", u.String())
		f.parts = append(f.parts, linkPart{b.Len(), [2]int{end.node, end.node}})
	}
	if len(l.Interfaces) == 2 && len(written) == 2 {
		if capacity := smallestKnown(l.capacity(written[0]), l.capacity(written[1])); capacity > 0 {
			a, z := l.Interfaces[0].String(), l.Interfaces[1].String()
			for _, direction := range [][2]string{{a, z}, {z, a}} {
				writeElement(b, inherited, "property", "source_id", direction[0], "dest_id", direction[1], "capacity", strconv.FormatInt(capacity, 10))
				f.parts = append(f.parts, linkPart{b.Len(), [2]int{written[0].node, written[1].node}})
			}
		}
	}
	b.WriteString("</link>\n")
	f.end = b.Len()
	return f
}

// writeTypes writes the link type, and for a switch one more type for each capacity of its interfaces.
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

// capacity returns 0 for unknown.
func (l *AdLink) capacity(e adEnd) int64 {
	if e.capacity > 0 {
		return e.capacity
	}
	return max(0, l.Capacity)
}

// smallestKnown treats 0 as unknown.
func smallestKnown(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// append appends the links to b, without the parts that refer to hidden nodes, and without links of which no
// part remains. hidden has a value for each of Site.Nodes; nil if no node is hidden.
func (l *linkFragments) append(b []byte, hidden []bool) []byte {
	if hidden == nil {
		return append(b, l.text...)
	}
	next := 0 // the offset at which the next link starts
	for i := range l.links {
		f := &l.links[i]
		from := next
		next = f.end
		if !slices.ContainsFunc(f.parts, func(p linkPart) bool { return p.isShown(hidden) }) {
			continue
		}
		b = append(b, l.text[from:f.head]...)
		from = f.head
		for _, p := range f.parts {
			if p.isShown(hidden) {
				b = append(b, l.text[from:p.end]...)
			}
			from = p.end
		}
		b = append(b, l.text[from:f.end]...)
	}
	return b
}

func (p *linkPart) isShown(hidden []bool) bool { return !hidden[p.nodes[0]] && !hidden[p.nodes[1]] }
