package rspec

import (
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// shownLink is a link of a manifest to which others of its name add their ends.
type shownLink struct {
	part    int
	element *xmltree.Element
	refs    map[string]bool // interfaces of the element and of the others
	ends    strings.Builder // of the others
}

// joinedTo has the links that are shown as a part of another.
type joinedTo map[*xmltree.Element]*shownLink

// joinedLinks finds the links whose manifest shows another link of their name: links with net:join
// are a part of the link that they join, or of the first link that joins it; and a link that a later
// request has again is a part of the later one.
func joinedLinks(parts []Part) joinedTo {
	shown, joined := map[string]*shownLink{}, joinedTo{} // shown by client_id
	each := func(do func(part int, id string, l *ownLink)) {
		for i := range parts {
			for j := range parts[i].Request.links {
				l := &parts[i].Request.links[j]
				if !l.cross && parts[i].shows(l) {
					do(i, value(parts[i].Request.doc.elements[l.element], "client_id"), l)
				}
			}
		}
	}
	each(func(part int, id string, l *ownLink) {
		if shown[id] == nil || !l.join {
			shown[id] = &shownLink{part: part, element: parts[part].Request.doc.elements[l.element]}
		}
	})
	each(func(part int, id string, l *ownLink) {
		if e := parts[part].Request.doc.elements[l.element]; shown[id].element != e {
			joined[e] = shown[id]
		}
	})
	return joined
}

// shows reports whether one of the link's nodes is shown.
func (p *Part) shows(l *ownLink) bool {
	for _, n := range l.nodes {
		if _, ok := p.Nodes[p.Request.Nodes[n].ClientID]; ok {
			return true
		}
	}
	return false
}

// addEnds adds the ends of e that the link does not have, and their properties. If e does not join
// the link but is an earlier form of it, only ends of nodes that are shown count. The parameter
// components has the component_ids of interfaces of these nodes, by client_id.
func (l *shownLink) addEnds(e *xmltree.Element, join bool, components map[string]urn.URN) {
	if l.refs == nil {
		l.refs = map[string]bool{}
		for _, ref := range children(l.element, "interface_ref") {
			l.refs[value(ref, "client_id")] = true
		}
	}
	added := map[string]bool{}
	for _, ref := range children(e, "interface_ref") {
		id := value(ref, "client_id")
		u, isShown := components[id]
		if l.refs[id] || !join && !isShown {
			continue
		}
		l.refs[id], added[id] = true, true
		component := trimmed(ref, "component_id")
		if !u.IsZero() {
			component = u.String()
		}
		writeElement(&l.ends, Namespace, "interface_ref", "client_id", id, "component_id", component)
	}
	for _, p := range children(e, "property") {
		if !join && !added[value(p, "source_id")] && !added[value(p, "dest_id")] {
			continue // the later form of the link decides
		}
		var attrs []string
		for _, name := range []string{"source_id", "dest_id", "capacity", "latency", "packet_loss"} {
			attrs = append(attrs, name, value(p, name))
		}
		writeElement(&l.ends, Namespace, "property", attrs...)
	}
}

// write adds the ends to the links that are shown.
func (j joinedTo) write(edits []*splices) {
	for _, l := range j {
		edits[l.part].appendTo(l.element, l.ends.String())
		l.ends.Reset() // other elements may have the same link
	}
}
