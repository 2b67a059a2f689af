package importad

import (
	"cmp"
	"fmt"
	"slices"

	"patchbay/am/urn"
)

type link struct {
	name, kind string
	rate       int64   // capacity in kbit/s; 0 if unknown
	wires      []*wire // the links of the advertisement that became this one
	ports      []*interfaceDraft
}

// interfaceDraft is an interface of a component. Interfaces on the same link form a tree
// in a union-find structure.
type interfaceDraft struct {
	port
	key    string          // of the interface's URN
	joined *interfaceDraft // the parent in the tree; nil for the root
	link   *link           // nil if it has none
	rate   int64           // capacity in kbit/s; 0 if unknown
	// cloud reports whether the interface belongs to a network of another site.
	cloud bool
}

// root returns the interface that represents all interfaces joined with s.
func (s *interfaceDraft) root() *interfaceDraft {
	for s.joined != nil {
		if s.joined.joined != nil {
			s.joined = s.joined.joined // path halving shortens later searches
		}
		s = s.joined
	}
	return s
}

func join(a, b *interfaceDraft) {
	if a, b = a.root(), b.root(); a != b {
		a.joined = b
	}
}

// addLinks joins all wires that meet at one interface, or at the interfaces of one
// switch, into one link.
func (d *draft) addLinks(wires []*wire) {
	byKey, isSwitch := map[string]*interfaceDraft{}, map[*interfaceDraft]string{}
	for _, c := range d.components {
		for _, p := range c.ports {
			byKey[p.key] = p
			if c.isSwitch() {
				join(p, c.ports[0])
			}
		}
	}
	ends := make([][]*interfaceDraft, len(wires))
	for i, w := range wires {
		for _, id := range w.ports {
			u, err := urn.Parse(id)
			p := byKey[u.Key()]
			switch {
			case err != nil || p == nil:
				d.remarks.add("ends of links without an interface in this inventory, left out", validName(id), 1)
				continue
			case len(ends[i]) > 0:
				join(p, ends[i][0])
			}
			ends[i] = append(ends[i], p)
			p.rate = max(p.rate, w.rate[id])
		}
	}
	// A link gets the name of a real switch, or else of another component that joins wires.
	for _, real := range []bool{true, false} {
		for _, c := range d.components {
			if c.isSwitch() && len(c.ports) > 0 && (!real || slices.Contains(c.hardware, "switch")) {
				root := c.ports[0].root()
				isSwitch[root] = cmp.Or(isSwitch[root], c.name)
			}
		}
	}
	links := map[*interfaceDraft]*link{}
	for i, w := range wires {
		if len(ends[i]) == 0 {
			d.remarks.add("links without an interface in this inventory, left out", validName(w.id), 1)
			continue
		}
		root := ends[i][0].root()
		l := links[root]
		if l == nil {
			l = &link{name: isSwitch[root], kind: validName(w.kind)}
			links[root] = l
			d.links = append(d.links, l)
		}
		l.wires = append(l.wires, w)
		for _, p := range ends[i] {
			if p.link == nil {
				p.link = l
				l.ports = append(l.ports, p)
			}
		}
	}
	d.links = slices.DeleteFunc(d.links, d.removeIfUnusable)
	d.nameLinks()
}

// isSwitch reports whether a component joins the wires connected to it. A cloud does not,
// since it stands for a network of another site.
func (c *component) isSwitch() bool { return c.drained && !c.node.cloud }

// removeIfUnusable removes a link that can carry no traffic of experiments, and reports
// whether it has removed the link.
func (d *draft) removeIfUnusable(l *link) bool {
	carries := func(p *interfaceDraft) bool { return p.role != "control" && !p.cloud }
	if slices.ContainsFunc(l.ports, carries) {
		return false
	}
	d.remarks.add("links of control interfaces only, left out", "", len(l.wires))
	for _, p := range l.ports {
		p.link = nil
	}
	return true
}

// nameLinks keeps the component_id of a single wire as the link's name, if that is a
// unique URN of a link.
func (d *draft) nameLinks() {
	var given usedNames
	keys := map[string]bool{}
	merged, lost := 0, 0
	for _, l := range d.links {
		u, err := urn.Parse(l.wires[0].id)
		switch {
		case len(l.wires) > 1:
			merged, lost = merged+1, lost+len(l.wires)
			fallthrough
		case err != nil || u.Type != urn.Link || keys[u.Key()]:
			l.name = given.unique(cmp.Or(l.name, "link"))
		default:
			keys[u.Key()] = true
			l.name = given.unique(u.String())
		}
		for _, p := range l.ports {
			l.rate = max(l.rate, p.rate)
		}
		l.kind = cmp.Or(l.kind, "ethernet")
	}
	if merged > 0 {
		d.remarks.add(fmt.Sprintf("links merged from %d of the advertisement, because all links at one switch or interface are one here; the component_ids of the merged links are lost", lost), "", merged)
	}
	if len(d.links) > 0 {
		d.remarks.add("links with the capacities of the advertisement, which may be only the free part; set the real capacities", "", len(d.links))
	}
}
