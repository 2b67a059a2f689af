package rspec

import (
	"cmp"
	"strings"

	"patchbay/schemas/xmltree"
)

// ownLink is a link with ends at own nodes. A manifest that shows none of these nodes leaves
// the link out.
type ownLink struct {
	element int   // index of the link's element
	nodes   []int // indexes of Request.Nodes
	cross   bool  // the link also ends at foreign nodes and is only copied
	join    bool  // the link adds ends to a link of an earlier request
}

// linkParts are the elements in a link.
type linkParts struct {
	refs, types, properties, managers []*xmltree.Element
	// vlans are the requests for a shared VLAN in the link, endVLANs those in its
	// interfaces.
	vlans      []*xmltree.Element
	endVLANs   []*xmltree.Element
	monitoring *xmltree.Element
}

// partsOf sorts the elements in the link e. It leaves endVLANs to claimEnds.
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

// readLink adds a link to the request if it is ours. A link between our nodes and another
// aggregate's is refused or only copied. A link whose managers are all other aggregates is not
// ours, even if it ends at our nodes.
func (p *requestParser) readLink(e *xmltree.Element) {
	id := value(e, "client_id")
	parts := partsOf(e)
	link := Link{ClientID: id, ComponentID: trimmed(e, "component_id"), Line: e.Line, Column: e.Column}
	own := ownLink{element: e.Index}
	foreign, unknown := p.resolveEnds(&link, &own, parts.refs)
	managed := p.managesLink(parts.managers) || len(own.nodes) > 0 && len(p.o.Managers) == 0
	// A link without known ends is ours if the request has own nodes, so that its mistake is reported.
	ours := managed && (len(own.nodes) > 0 || foreign == 0 && len(p.r.Nodes) > 0)
	p.claimName(&p.linkNames, e, ours)
	if !managed && len(own.nodes) > 0 {
		p.remark(place{parts.managers[0], ""}, id, ignored+"; to create it here, name this aggregate as its component_manager", "link %.80q ends at nodes of this aggregate, but none of its component_managers is this aggregate", id)
	}
	if !ours {
		return
	}
	for _, ref := range unknown {
		p.badArgs(place{ref, "client_id"}, id, "add <interface client_id=…> to a node or drop the interface_ref", "link %.80q refers to the interface %.80q, which no node has", id, value(ref, "client_id"))
	}
	at := place{e, ""}
	switch {
	case len(parts.refs) == 0:
		p.badArgs(at, id, "add an <interface_ref client_id=…> for each end", "link %.80q has no interfaces", id)
	case foreign > 0 && !p.o.CopyCrossLinks:
		p.refuse(Unsupported, at, id, "remove it or put all its nodes at one aggregate", "link %.80q joins nodes of this aggregate with nodes of another, which is not possible here", id)
		return
	case foreign > 0:
		p.remark(at, id, ignored, "link %.80q joins nodes of this aggregate with nodes of another", id)
		own.cross = true
		p.r.links = append(p.r.links, own)
		return
	}
	if len(own.nodes) > 0 && !isManifest([]*xmltree.Element{p.r.doc.elements[p.r.Nodes[own.nodes[0]].element]}) {
		p.remarkAttribute(e, "vlantag", id, "the site chooses the tag; for a shared VLAN, write link_shared_vlan")
	}
	p.readOwnLink(e, &link, &parts)
	own.join = link.Join
	p.r.Links = append(p.r.Links, link)
	p.r.links = append(p.r.links, own)
}

// resolveEnds adds the interfaces that the refs of a link name to the link, and the own nodes among theirs to
// own. It returns how many interfaces other aggregates' nodes have, and the refs to unknown interfaces.
func (p *requestParser) resolveEnds(link *Link, own *ownLink, refs []*xmltree.Element) (foreign int, unknown []*xmltree.Element) {
	for _, ref := range refs {
		name := value(ref, "client_id")
		i, found := p.interfaces[name]
		if !found {
			unknown = append(unknown, ref)
			continue
		}
		link.Interfaces = append(link.Interfaces, name)
		if p.ends[i].own {
			own.nodes = append(own.nodes, p.ends[i].node)
		} else {
			foreign++
		}
	}
	return foreign, unknown
}

// readOwnLink reads what e, a link between own nodes, requests. claimEnds must come before readProperties and
// readEndVLANs, which need its results.
func (p *requestParser) readOwnLink(e *xmltree.Element, link *Link, parts *linkParts) {
	for c := range childElements(e) {
		p.remarkUnsupported(c, "link", link.ClientID)
		if c.Space == netSpace {
			p.readLinkWish(c, link)
		} else {
			p.remarkForeign(c, &netExtension)
		}
	}
	link.Join = p.readJoin(e, link.ClientID)
	areDistinct := p.claimEnds(e, link.ClientID, parts)
	p.readType(link, parts.types)
	p.readProperties(e, link, parts.properties)
	p.readSharedVLANs(link, parts.vlans)
	p.readEndVLANs(link, parts.endVLANs)
	if parts.monitoring != nil {
		link.Monitoring = p.readMonitoring(parts.monitoring, link.ClientID)
	}
	if areDistinct { // otherwise the same address could count at several ends
		p.checkAddresses(e, link)
	}
}

// claimEnds records that an own link ends at its interfaces. If an interface is an end of two
// links, or twice an end of this link, that is a mistake. areDistinct is true if no
// interface has this mistake. claimEnds also collects the interfaces' requests for a shared
// VLAN in parts.endVLANs.
func (p *requestParser) claimEnds(e *xmltree.Element, id string, parts *linkParts) (areDistinct bool) {
	areDistinct = true
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
			areDistinct = false
			p.badArgs(at, id, "drop one interface_ref", "link %.80q ends twice at the interface %.80q", id, name)
		default:
			areDistinct = false
			p.badArgs(at, id, "give its node an interface for each link", "link %.80q ends at the interface %.80q, which already is an end of link %.80q", id, name, value(x.link, "client_id"))
			x.link = e
		}
	}
	return areDistinct
}

// readJoin reports whether the link adds ends to one of the slice.
func (p *requestParser) readJoin(e *xmltree.Element, id string) bool {
	text, given := e.Attr(netSpace, "join")
	join, ok := boolean(text)
	if given && !ok {
		p.badArgs(place{e, "join"}, id, "write true or false", "link %.80q has net:join=%.40q", id, text)
	}
	for _, a := range e.Attrs {
		switch {
		case a.Local == "join" && a.Space == "":
			p.remark(place{e, "join"}, id, "write net:join and xmlns:net=\""+netSpace+"\"; "+ignored, "link %.80q has the attribute join without a prefix", id)
		case isMisspelledSpace(a.Space):
			p.remark(place{e, a.Local}, id, "use "+similarSpace(a.Space, &netExtension)+"; "+ignored, "the attribute %.40s of link %.80q is in the unknown namespace %.80q", a.Local, id, a.Space)
		}
	}
	return join
}

// managerName returns the name of a component_manager; some clients write it as text.
func managerName(m *xmltree.Element) string {
	return cmp.Or(trimmed(m, "name"), strings.TrimSpace(m.Text()))
}

// managesLink reports whether the link can be ours: no manager has a name, or one is this
// aggregate.
func (p *requestParser) managesLink(managers []*xmltree.Element) bool {
	named := false
	for _, m := range managers {
		name := managerName(m)
		if us, _ := p.isThisAggregate(name); us {
			return true
		}
		named = named || name != ""
	}
	return !named
}

// readType selects the first requested type that the site offers. If the site offers none of
// the types, the link is refused.
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
		p.refuse(Unsupported, place{types[n-1], "name"}, l.ClientID, "use "+strings.Join(append(p.o.LinkTypes[:len(p.o.LinkTypes):len(p.o.LinkTypes)], "or leave link_type out"), ", "), "link %.80q has the type %.80q, which is not available here", l.ClientID, l.Type)
	}
}
