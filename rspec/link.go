package rspec

import (
	"strings"

	"patchbay/schemas/xmltree"
)

// ownLink is a link that ends at own nodes; a manifest without any of these
// nodes leaves it out.
type ownLink struct {
	element int
	nodes   []int // numbers among Request.Nodes
	cross   bool  // it ends at foreign nodes, too, and is only copied
}

// linkParts are the children of a link, sorted.
type linkParts struct {
	refs, types, properties, managers []*xmltree.Element
	// vlans are wishes for a shared VLAN, endVLANs those of its interfaces.
	vlans      []*xmltree.Element
	endVLANs   []*xmltree.Element
	monitoring *xmltree.Element
}

func partsOf(e *xmltree.Element) (l linkParts) {
	for c := range childElements(e) {
		switch {
		case isSharedVLAN(c):
			l.vlans = append(l.vlans, c)
		case isMonitoring(c):
			if l.monitoring == nil {
				l.monitoring = c
			}
		case c.Space != Namespace:
		case c.Local == "interface_ref":
			l.refs = append(l.refs, c)
		case c.Local == "link_type":
			l.types = append(l.types, c)
		case c.Local == "property":
			l.properties = append(l.properties, c)
		case c.Local == "component_manager":
			l.managers = append(l.managers, c)
		}
	}
	return l
}

// readLink sorts a link: ours, another's, or between the two.
func (p *requestParser) readLink(e *xmltree.Element) {
	id := value(e, "client_id")
	parts := partsOf(e)
	link := Link{ClientID: id, Line: e.Line, Column: e.Column}
	own := ownLink{element: e.Index}
	var dangling []*xmltree.Element
	foreign := 0
	for _, ref := range parts.refs {
		name := value(ref, "client_id")
		i, found := p.interfaces[name]
		if !found {
			dangling = append(dangling, ref)
			continue
		}
		link.Interfaces = append(link.Interfaces, name)
		if p.ends[i].own {
			own.nodes = append(own.nodes, p.ends[i].node)
		} else {
			foreign++
		}
	}
	ours := len(own.nodes) > 0 || foreign == 0 && len(p.r.Nodes) > 0 && p.managesLink(parts.managers)
	p.nameIsFree(&p.linkNames, e, ours)
	if !ours {
		return
	}
	for _, ref := range dangling {
		p.wrong(place{ref, "client_id"}, id, "add <interface client_id=…> to a node or drop the interface_ref", "link %.80q refers to the interface %.80q, which no node has", id, value(ref, "client_id"))
	}
	at := place{e, ""}
	switch {
	case len(parts.refs) == 0:
		p.wrong(at, id, "add an <interface_ref client_id=…> for each end", "link %.80q has no interfaces", id)
	case foreign > 0 && !p.o.CopyCrossLinks:
		p.refuse(Unsupported, at, id, "remove it or put all its nodes at one aggregate", "link %.80q joins nodes of this aggregate with nodes of another, which cannot be done here", id)
		return
	case foreign > 0:
		p.remark(at, id, "it is copied, and nothing is done about it", "link %.80q joins nodes of this aggregate with nodes of another", id)
		own.cross = true
		p.r.links = append(p.r.links, own)
		return
	}
	for c := range childElements(e) {
		p.unmetWish(c, "link", id)
	}
	alone := p.meet(e, id, &parts)
	p.readType(&link, parts.types)
	p.readProperties(e, &link, parts.properties)
	p.joinVLANs(&link, parts.vlans)
	p.joinEnds(&link, parts.endVLANs)
	if parts.monitoring != nil {
		link.Monitoring = p.readMonitoring(parts.monitoring, id)
	}
	if alone { // otherwise one address may be there at any number of ends
		p.checkAddresses(e, &link)
	}
	p.r.Links = append(p.r.Links, link)
	p.r.links = append(p.r.links, own)
}

// meet notes that an own link ends at its interfaces, each of which has one
// place at one own link, and takes up their wishes for a shared VLAN. It tells
// whether the link has them for itself, each once.
func (p *requestParser) meet(e *xmltree.Element, id string, parts *linkParts) (alone bool) {
	alone = true
	for _, ref := range parts.refs {
		name := value(ref, "client_id")
		i, found := p.interfaces[name]
		if !found {
			continue
		}
		x, at := &p.ends[i], place{ref, "client_id"}
		switch x.link {
		case nil:
			x.link = e
			if x.vlan != nil {
				parts.endVLANs = append(parts.endVLANs, x.vlan)
			}
		case e:
			alone = false
			p.wrong(at, id, "drop one interface_ref", "link %.80q ends twice at the interface %.80q", id, name)
		default:
			alone = false
			p.wrong(at, id, "give its node an interface for each link", "link %.80q ends at the interface %.80q, which is at the end of link %.80q already", id, name, value(x.link, "client_id"))
			x.link = e
		}
	}
	return alone
}

// managesLink tells whether a link without known ends is ours: it names us, or
// nobody.
func (p *requestParser) managesLink(managers []*xmltree.Element) bool {
	for _, m := range managers {
		if us, _ := p.isUs(trimmed(m, "name")); us {
			return true
		}
	}
	return len(managers) == 0
}

// readType reads the kind asked for; of several the first that is to be had.
func (p *requestParser) readType(l *Link, types []*xmltree.Element) {
	for _, t := range types {
		l.Type = trimmed(t, "name")
		if l.Type == "" || p.o.LinkTypes == nil {
			return
		}
		for _, have := range p.o.LinkTypes {
			if strings.EqualFold(l.Type, have) {
				return
			}
		}
	}
	if n := len(types); n > 0 {
		p.refuse(Unsupported, place{types[n-1], "name"}, l.ClientID, "use "+strings.Join(append(p.o.LinkTypes[:len(p.o.LinkTypes):len(p.o.LinkTypes)], "or leave link_type out"), ", "), "link %.80q has the type %.80q, which is not to be had here", l.ClientID, l.Type)
	}
}
