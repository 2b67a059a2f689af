package rspec

import (
	"fmt"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// ignored ends remarks about an element that is copied without effect.
const ignored = "it is ignored, but copied to the manifest"

// unsupported describes the features of Emulab's extension that have no effect here, by
// element.
var unsupported = map[string]string{
	"blockstore": "a blockstore", "openflow_controller": "an OpenFlow controller",
	"vlan_tagging": "VLAN tagging", "link_multiplexing": "multiplexing",
}

func (p *requestParser) remarkUnsupported(e *xmltree.Element, kind, clientID string) {
	what := unsupported[e.Local]
	if on, ok := boolean(value(e, "enabled")); what == "" || e.Space != emulabSpace || ok && !on {
		return
	}
	p.remark(place{e, ""}, clientID, ignored, "%s %.80q asks for %s (<%s>), which this aggregate does not offer", kind, clientID, what, e.Local)
}

// remarkUnsupportedRoot adds remarks about stitching and OpenFlow if the request has nodes for
// this aggregate.
func (p *requestParser) remarkUnsupportedRoot(root *xmltree.Element) {
	if len(p.r.Nodes) == 0 {
		return
	}
	p.remarkLeases(root)
	for e := range childElements(root) {
		switch {
		case e.Local == "stitching":
			p.remark(place{e, ""}, "", ignored, "the request asks for stitching, which this aggregate does not offer")
		case e.Local == "sliver" && strings.Contains(strings.ToLower(e.Space), "openflow"):
			p.remark(place{e, ""}, "", ignored, "the request asks for an OpenFlow slice, which this aggregate does not offer")
		}
	}
}

// IsEmpty reports whether the request has neither nodes nor links, of any aggregate.
func (r *Request) IsEmpty() bool {
	root := r.doc.elements[0]
	return len(children(root, "node"))+len(children(root, "link")) == 0
}

// cloud returns the manager of the first node, if that node is of another aggregate and was compiled from
// RADL, in which clouds name aggregates; else "".
func (r *Request) cloud() string {
	if r.Foreign == 0 || r.doc == nil {
		return ""
	}
	n := children(r.doc.elements[0], "node")[0]
	for e := range childElements(n) {
		if e.Space == originSpace && e.Local == "source" && value(e, "language") == "radl" {
			return trimmed(n, "component_manager_id")
		}
	}
	return ""
}

// NoNodesReason returns the reason why a request has no nodes for this aggregate, and the
// remedy. manager is the URN of this aggregate.
func (r *Request) NoNodesReason(manager urn.URN) string {
	if other := r.cloud(); other != "" {
		return fmt.Sprintf("the request has no node for this aggregate, %s, since its nodes are for %.200s; leave the cloud out of the deploy sentence; operators can name this aggregate as a cloud, under clouds in inventory.yaml", manager, other)
	}
	if r.Foreign > 0 {
		return "the request has no node for this aggregate, " + manager.String() + "; set component_manager_id to that URN, or leave it out"
	}
	var has []string
	if r.doc != nil {
		seen := map[string]bool{}
		for e := range childElements(r.doc.elements[0]) {
			if name := "<" + e.Local + ">"; !seen[name] && len(has) < 5 && len(e.Local) < 40 {
				seen[name] = true
				has = append(has, name)
			}
		}
	}
	if len(has) == 0 {
		return "the request is empty; add a <node>"
	}
	return "the request has no nodes, only " + strings.Join(has, ", ") + "; add a <node>"
}

// Place returns the line and column, counted from 1, of an attribute of an own node or link,
// or of an element inside it. The parameter part is the name of the attribute or element, or
// the text of a constraint. For an element with the attribute "name" or "url", Place returns
// the position of that attribute. Without such a part it returns the position of the node or
// link. If the node or link does not exist, it returns 0.
func (r *Request) Place(kind, clientID, part string) (line, column int) {
	e := r.element(kind, clientID)
	if e == nil {
		return 0, 0
	}
	at := place{e, ""}
	if _, ok := e.Attr("", part); ok {
		at.attr = part
	} else if required := requirementIn(e, part); required != nil {
		at.e = required
	} else if inner := find(e, part); inner != nil {
		at.e = inner
		for _, name := range []string{"name", "url"} {
			if _, ok := inner.Attr("", name); ok {
				at.attr = name
				break
			}
		}
	}
	p := newPosition(r.doc.given)
	p.moveTo(r.doc.offset(at))
	return p.line, p.column
}

// element returns nil if there is no such node or link. Any kind except "node" means a link.
func (r *Request) element(kind, clientID string) *xmltree.Element {
	if r.doc == nil {
		return nil
	}
	if kind == "node" {
		if n, ok := r.Node(clientID); ok {
			return r.doc.elements[n.element]
		}
		return nil
	}
	for _, l := range r.links {
		if e := r.doc.elements[l.element]; value(e, "client_id") == clientID {
			return e
		}
	}
	return nil
}

// find returns the first element inside e with the name, in any namespace.
func find(e *xmltree.Element, local string) *xmltree.Element {
	for c := range childElements(e) {
		if c.Local == local {
			return c
		}
		if inner := find(c, local); inner != nil {
			return inner
		}
	}
	return nil
}
