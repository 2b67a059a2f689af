package rspec

import (
	"slices"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// readNode reads e, an own node, with its interfaces, services, wishes and constraints. The caller must add the
// node to Request.Nodes before it reads the next one.
func (p *requestParser) readNode(e *xmltree.Element) Node {
	n := p.readNodeAttributes(e)
	fresh := !isManifest([]*xmltree.Element{e}) // facts of a manifest get no remarks
	if fresh && n.ComponentID == "" {
		p.remarkAttribute(e, "component_name", n.ClientID, "write the component_id of the node in the advertisement")
	}
	var types, hardware int
	services := serviceReader{requestParser: p, n: &n, node: len(p.r.Nodes)}
	for c := range childElements(e) {
		switch {
		case isMonitoring(c):
			if n.Monitoring == nil {
				n.Monitoring = p.readMonitoring(c, n.ClientID)
			}
		case c.Space == setupSpace:
			p.remark(place{c, ""}, n.ClientID, "move it into <services>; "+ignored, "node %.80q has a <%.40s> outside of its <services>", n.ClientID, c.Local)
		case c.Space == originSpace:
			if c.Local == "source" {
				p.readOrigin(c, &n)
			}
		case c.Space == netSpace:
			p.readNodeWish(c, &n)
		case isLeaseRef(c):
			p.readLeaseRef(c, &n)
		case c.Space == emulabSpace:
			n.RoutableIP = n.RoutableIP || c.Local == "routable_control_ip"
			p.remarkUnsupported(c, "node", n.ClientID)
		case c.Space != Namespace || slices.Contains(netExtension.elements, c.Local):
			p.remarkForeign(c, &netExtension)
		case c.Local == "sliver_type":
			if types++; types == 1 {
				p.readSliverType(c, &n)
			} else if types == 2 {
				p.remark(place{c, ""}, n.ClientID, "the first one counts, and the manifest leaves out the others", "node %.80q has several sliver_types", n.ClientID)
			}
		case c.Local == "hardware_type":
			if hardware++; hardware == 1 {
				n.HardwareType = trimmed(c, "name")
			} else if hardware == 2 {
				p.remark(place{c, ""}, n.ClientID, "the first one counts", "node %.80q has several hardware_types", n.ClientID)
			}
		case c.Local == "interface":
			p.addInterface(c, &n)
			if fresh {
				p.remarkAttribute(c, "mac_address", value(c, "client_id"), "the site chooses it; set it in a step of the node")
			}
		case c.Local == "services":
			services.read(c)
		case fresh:
			p.remarkUnread(c, &n)
		}
	}
	services.checkProperties()
	p.readConstraints(e, &n)
	return n
}

func (p *requestParser) readNodeAttributes(e *xmltree.Element) Node {
	n := Node{ClientID: value(e, "client_id"), Colocate: value(e, "colocate"), Line: e.Line, Column: e.Column, element: e.Index}
	if n.ComponentID = trimmed(e, "component_id"); n.ComponentID != "" {
		u, err := urn.Parse(n.ComponentID)
		if err != nil {
			p.badArgs(place{e, "component_id"}, n.ClientID, "copy one from the advertisement or leave it out", "node %.80q has a component_id that is no URN, %.80q", n.ClientID, n.ComponentID)
		}
		n.Component = u
	}
	if text, given := e.Attr("", "exclusive"); given {
		if v, ok := boolean(text); ok {
			n.Exclusive = &v
		} else {
			p.badArgs(place{e, "exclusive"}, n.ClientID, "write true or false", "node %.80q has exclusive=%.40q", n.ClientID, text)
		}
	}
	return n
}

// remarkUnread remarks on an element of a request's node that has no effect.
func (p *requestParser) remarkUnread(e *xmltree.Element, n *Node) {
	switch {
	case e.Local == "location" && n.ComponentID == "" && trimmed(e, "country")+trimmed(e, "latitude")+trimmed(e, "longitude") != "":
		p.remark(place{e, ""}, n.ClientID, "write the component_id of a node there, from the advertisement; "+ignored, "node %.80q has a <location>, which has no effect", n.ClientID)
	case e.Local == "relation":
		p.remark(place{e, ""}, n.ClientID, ignored, "node %.80q has a <relation>, which this aggregate does not read", n.ClientID)
	}
}

func (p *requestParser) readSliverType(e *xmltree.Element, n *Node) {
	if n.SliverType = trimmed(e, "name"); n.SliverType == "" {
		p.badArgs(place{e, "name"}, n.ClientID, "name one of the advertisement or leave the element out", "node %.80q has a sliver_type without a name", n.ClientID)
	}
	image := false
	for c := range childElements(e) {
		if c.Space == emulabSpace && slices.ContainsFunc([]string{"cores", "ram", "disk"}, func(name string) bool { return trimmed(c, name) != "" }) {
			p.remark(place{c, ""}, n.ClientID, "require cpu.count, memory.size or disk.0.free_size instead; "+ignored, "node %.80q asks for an amount by <%.40s>, which has no effect", n.ClientID, c.Local)
		}
		if isElement(c, "disk_image") && !image {
			image = true
			if n.DiskImage, n.DiskImageURL = trimmed(c, "name"), trimmed(c, "url"); n.DiskImage+n.DiskImageURL == "" && trimmed(c, "os")+trimmed(c, "version") != "" {
				p.remark(place{c, ""}, n.ClientID, "write the name of an image of the advertisement; "+ignored, "node %.80q has a disk_image with neither name nor url", n.ClientID)
			}
		}
	}
}

func boolean(s string) (v, ok bool) {
	switch strings.TrimSpace(s) {
	case "true", "1":
		return true, true
	case "false", "0":
		return false, true
	}
	return false, false
}
