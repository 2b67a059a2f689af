package rspec

import (
	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// owns tells whether a node is this aggregate's: it names us, or nobody and is
// not bound to another's component.
func (p *requestParser) owns(e *xmltree.Element) bool {
	if manager := trimmed(e, "component_manager_id"); manager != "" {
		us, ok := p.isUs(manager)
		if !ok {
			id := value(e, "client_id")
			p.remark(place{e, "component_manager_id"}, id, "it is taken for another aggregate's", "node %.80q names a manager that is no URN, %.80q", id, manager)
		}
		return us
	}
	component, err := urn.Parse(trimmed(e, "component_id"))
	if err != nil {
		return true // readNode says what is wrong with it
	}
	for _, m := range p.o.Managers {
		if urn.Covers(m.Authority, component.Authority) {
			return true
		}
	}
	return false
}

// isUs tells whether text names this aggregate; ok is false if it is no URN.
func (p *requestParser) isUs(text string) (us, ok bool) {
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

// passBy notes the interfaces of a foreign node; nothing about it is judged.
func (p *requestParser) passBy(e *xmltree.Element) {
	for c := range childElements(e) {
		if is(c, "interface") && p.nameIsFree(&p.interfaceNames, c, false) {
			p.interfaces[value(c, "client_id")] = len(p.ends)
			p.ends = append(p.ends, end{})
		}
	}
}
