package rspec

import (
	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// isOwnNode reports whether a node names this aggregate as its manager, or names no manager
// and no component of another aggregate.
func (p *requestParser) isOwnNode(e *xmltree.Element) bool {
	if manager := trimmed(e, "component_manager_id"); manager != "" {
		us, ok := p.isThisAggregate(manager)
		if !ok {
			id := value(e, "client_id")
			p.remark(place{e, "component_manager_id"}, id, "this aggregate skips the node", "node %.80q names a manager that is no URN, %.80q", id, manager)
		}
		return us
	}
	component, err := urn.Parse(trimmed(e, "component_id"))
	if err != nil {
		return true // readNode reports the mistake
	}
	for _, m := range p.o.Managers {
		if urn.Covers(m.Authority, component.Authority) {
			return true
		}
	}
	return false
}

// isThisAggregate reports whether text is a URN of this aggregate. ok is false if text is no URN.
func (p *requestParser) isThisAggregate(text string) (us, ok bool) {
	u, err := urn.Parse(text)
	if err != nil {
		return false, false
	}
	for _, m := range p.o.Managers {
		if urn.SameManager(u, m) || u.Equal(m) {
			return true, true
		}
	}
	return false, true
}

// readForeignNode records the interfaces of e, another aggregate's node, as ends of links. It checks nothing else.
func (p *requestParser) readForeignNode(e *xmltree.Element) {
	for c := range childElements(e) {
		if isElement(c, "interface") && p.claimName(&p.interfaceNames, c, false) {
			p.interfaces[value(c, "client_id")] = len(p.ends)
			p.ends = append(p.ends, end{})
		}
	}
}
