package rspec

import (
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// notMet says that a wish is copied and not met.
const notMet = "it is copied, and nothing is done about it"

// unmet are extensions that ask for something which no site here does, by what they
// ask for.
var unmet = map[string]string{
	"blockstore": "a blockstore", "openflow_controller": "an OpenFlow controller",
	"vlan_tagging": "VLAN tagging", "link_multiplexing": "multiplexing",
}

// unmetWish remarks that an extension of a node or link asks for what is not done.
func (p *requestParser) unmetWish(e *xmltree.Element, kind, clientID string) {
	what := unmet[e.Local]
	if on, ok := boolean(value(e, "enabled")); what == "" || e.Space != emulabSpace || ok && !on {
		return
	}
	p.remark(place{e, ""}, clientID, notMet, "%s %.80q asks for %s (<%s>), which this aggregate does not offer", kind, clientID, what, e.Local)
}

// unmetWishes remarks that extensions of the request ask for what is not done. A request
// for other aggregates alone is none of ours.
func (p *requestParser) unmetWishes(root *xmltree.Element) {
	if len(p.r.Nodes) == 0 {
		return
	}
	for e := range childElements(root) {
		switch {
		case e.Local == "stitching":
			p.remark(place{e, ""}, "", notMet, "the request asks for stitching, which this aggregate does not offer")
		case e.Local == "sliver" && strings.Contains(strings.ToLower(e.Space), "openflow"):
			p.remark(place{e, ""}, "", notMet, "the request asks for an OpenFlow slice, which this aggregate does not offer")
		}
	}
}

// Nothing says why a request without own nodes asks the aggregate for nothing, and what
// to do.
func (r *Request) Nothing(manager urn.URN) string {
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

// Place is where an attribute, or an element in it, of an own node or link stands: its
// line and column, counted from 1. Of an element that has a name it is the name. It is
// where the node or link begins if there is no such thing, or what is empty, and 0 for a
// node or link that is not there.
func (r *Request) Place(kind, clientID, what string) (line, column int) {
	e := r.element(kind, clientID)
	if e == nil {
		return 0, 0
	}
	at := place{e, ""}
	if _, ok := e.Attr("", what); ok {
		at.attr = what
	} else if inner := find(e, what); inner != nil {
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

// element is that of an own node or link.
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

// find is the first element of that name inside e, of whatever namespace.
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
