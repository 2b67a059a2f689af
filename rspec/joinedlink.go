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
	isJoin  bool
	ends    strings.Builder // of the others
}

// joinedTo has the links that are shown as a part of another.
type joinedTo map[*xmltree.Element]*shownLink

// joinedLinks finds links with net:join whose manifest shows the link that they join, or an
// earlier link that joins it.
func joinedLinks(parts []Part) joinedTo {
	shown, joined := map[string]*shownLink{}, joinedTo{}
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
		if first := shown[id]; first == nil || first.isJoin && !l.join {
			shown[id] = &shownLink{part: part, element: parts[part].Request.doc.elements[l.element], isJoin: l.join}
		}
	})
	each(func(part int, id string, l *ownLink) {
		if e := parts[part].Request.doc.elements[l.element]; l.join && shown[id].element != e {
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

// addEnds adds the ends and properties of e, which joins the link. The parameter components has the
// component_ids of interfaces, by client_id.
func (l *shownLink) addEnds(e *xmltree.Element, components map[string]urn.URN) {
	for _, ref := range children(e, "interface_ref") {
		id := value(ref, "client_id")
		component := trimmed(ref, "component_id")
		if u := components[id]; !u.IsZero() {
			component = u.String()
		}
		writeElement(&l.ends, Namespace, "interface_ref", "client_id", id, "component_id", component)
	}
	for _, p := range children(e, "property") {
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
