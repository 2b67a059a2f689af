package faithful_test

import (
	"slices"
	"strings"

	"patchbay/am/urn"
)

// reading is what a request means to one aggregate, read anew from the rules.
type reading struct {
	d        *doc
	managers []urn.URN
	nodes    []*elem // own ones, in document order
	foreign  []*elem
	links    []*elem // own ones
	// role is what an element is of ours: rspec, node, services, sliver_type,
	// interface, ip, link, interface_ref. All others are somebody else's, or
	// unknown, and are nothing here.
	role map[*elem]string
	// bearer is the node of each interface.
	bearer map[string]*elem
}

func read(d *doc, managers []urn.URN) *reading {
	r := &reading{d: d, managers: managers, role: map[*elem]string{d.root: "rspec"}, bearer: map[string]*elem{}}
	for _, n := range d.root.all(core, "node") {
		own := r.owns(n)
		if own {
			r.nodes = append(r.nodes, n)
			r.role[n] = "node"
		} else {
			r.foreign = append(r.foreign, n)
		}
		for _, i := range n.all(core, "interface") {
			r.bearer[i.get("client_id")] = n
		}
		for _, kind := range []string{"interface", "services", "sliver_type"} {
			for _, c := range n.all(core, kind) {
				if own {
					r.role[c] = kind
				}
				for _, ip := range c.all(core, "ip") {
					if own && kind == "interface" {
						r.role[ip] = "ip"
					}
				}
			}
		}
	}
	for _, l := range d.root.all(core, "link") {
		if mine, others := r.ends(l); mine > 0 && others == 0 {
			r.links = append(r.links, l)
			r.role[l] = "link"
			for _, ref := range l.all(core, "interface_ref") {
				r.role[ref] = "interface_ref"
			}
		}
	}
	return r
}

// ends counts the ends of a link at own and at foreign nodes.
func (r *reading) ends(l *elem) (mine, others int) {
	for _, ref := range l.all(core, "interface_ref") {
		switch n := r.bearer[ref.get("client_id")]; {
		case n != nil && r.role[n] == "node":
			mine++
		case n != nil:
			others++
		}
	}
	return mine, others
}

// owns tells whether a node is ours: it names us; or it names nobody, and is
// bound to a component of ours or to none.
func (r *reading) owns(n *elem) bool {
	if name := strings.TrimSpace(n.get("component_manager_id")); name != "" {
		return r.isManager(name)
	}
	id := strings.TrimSpace(n.get("component_id"))
	if id == "" {
		return true
	}
	u, err := urn.Parse(id)
	return err != nil || slices.ContainsFunc(r.managers, func(m urn.URN) bool { return strings.EqualFold(m.Authority, u.Authority) })
}

func (r *reading) isManager(name string) bool {
	u, err := urn.Parse(strings.TrimSpace(name))
	return err == nil && slices.ContainsFunc(r.managers, func(m urn.URN) bool {
		cm := func(name string) string {
			if strings.EqualFold(name, "am") {
				return "cm"
			}
			return strings.ToLower(name)
		}
		return strings.EqualFold(m.Authority, u.Authority) && m.Type == u.Type && cm(m.Name) == cm(u.Name)
	})
}

// everyManager makes all nodes of a document ours.
func everyManager(d *doc) []urn.URN {
	list := []urn.URN{manager}
	add := func(text string, authority bool) {
		u, err := urn.Parse(strings.TrimSpace(text))
		if err != nil {
			return
		}
		if authority {
			u = urn.URN{Authority: u.Authority, Type: urn.Authority, Name: "cm"}
		}
		list = append(list, u)
	}
	for _, n := range d.root.all(core, "node") {
		add(n.get("component_manager_id"), false)
		add(n.get("component_id"), true)
	}
	for _, l := range d.root.all(core, "link") {
		for _, m := range l.all(core, "component_manager") {
			add(m.get("name"), false)
		}
	}
	return list
}
