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

// readLink sorts a link: ours, another's, or between the two.
func (p *requestParser) readLink(e *xmltree.Element, ids *names) error {
	id := value(e, "client_id")
	refuse := func(k Kind, format string, args ...any) error {
		return refusal(k, e, id, "link %.80q "+format, append([]any{id}, args...)...)
	}
	link := Link{ClientID: id, Line: e.Line}
	own := ownLink{element: e.Index}
	var foreign, dangling int
	for _, ref := range children(e, "interface_ref") {
		name := value(ref, "client_id")
		link.Interfaces = append(link.Interfaces, name)
		switch end, found := p.interfaces[name]; {
		case !found:
			dangling++
		case end.own:
			own.nodes = append(own.nodes, end.node)
		default:
			foreign++
		}
	}
	ours := len(own.nodes) > 0 || foreign == 0 && len(p.r.Nodes) > 0 && p.managesLink(e)
	if err := ids.add(e, ours); err != nil {
		return err
	}
	switch {
	case !ours:
		return nil
	case dangling > 0:
		for _, name := range link.Interfaces {
			if _, found := p.interfaces[name]; !found {
				return refuse(BadArgs, "refers to the interface %.80q, which no node has; add <interface client_id=…> to a node or drop the interface_ref", name)
			}
		}
	case len(link.Interfaces) == 0:
		return refuse(BadArgs, "has no interfaces; add an <interface_ref client_id=…> for each end")
	case foreign > 0 && !p.o.CopyCrossLinks:
		return refuse(Unsupported, "joins nodes of this aggregate with nodes of another, which cannot be done here; remove it or put all its nodes at one aggregate")
	case foreign > 0:
		p.notice("line %d: link %.80q joins nodes of this aggregate with nodes of another; it is copied, and nothing is done about it", e.Line, id)
		own.cross = true
		p.r.links = append(p.r.links, own)
		return nil
	}
	kind, ok := p.linkType(e)
	if !ok {
		return refuse(Unsupported, "has the type %.80q, which is not to be had here; use %s or leave link_type out", kind, strings.Join(p.o.LinkTypes, ", "))
	}
	link.Type = kind
	for _, c := range children(e, "property") {
		property, wrong := readProperty(c, p.o.PacketLoss)
		if wrong != "" {
			return refuse(BadArgs, "has a property with %s", wrong)
		}
		link.Properties = append(link.Properties, property)
	}
	if address := p.sharedAddress(link.Interfaces); address != "" {
		return refuse(BadArgs, "has the address %.80q twice; give each interface its own", address)
	}
	p.r.Links = append(p.r.Links, link)
	p.r.links = append(p.r.links, own)
	return nil
}

// managesLink tells whether a link without known ends is ours: it names us, or
// nobody.
func (p *requestParser) managesLink(e *xmltree.Element) bool {
	managers := children(e, "component_manager")
	for _, m := range managers {
		if p.isUs(strings.TrimSpace(value(m, "name")), func() {}) {
			return true
		}
	}
	return len(managers) == 0
}

// linkType is the kind asked for, and whether it is to be had.
func (p *requestParser) linkType(e *xmltree.Element) (kind string, ok bool) {
	types := children(e, "link_type")
	for _, t := range types {
		kind = strings.TrimSpace(value(t, "name"))
		if kind == "" || p.o.LinkTypes == nil {
			return kind, true
		}
		for _, have := range p.o.LinkTypes {
			if strings.EqualFold(kind, have) {
				return kind, true
			}
		}
	}
	return kind, len(types) == 0
}

// sharedAddress is an address that two interfaces of one own link ask for.
func (p *requestParser) sharedAddress(interfaces []string) string {
	bearer := map[string]string{}
	for _, name := range interfaces {
		end := p.interfaces[name]
		for _, a := range p.r.Nodes[end.node].Interfaces[end.number].Addresses {
			address := a.Addr().Unmap().String()
			if other, taken := bearer[address]; taken && other != name {
				return address
			}
			bearer[address] = name
		}
	}
	return ""
}
