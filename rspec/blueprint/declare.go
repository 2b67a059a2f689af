package blueprint

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/rspec"
)

// declare makes parts of the components of the document, and of those that are inside a fulfillment or implied by
// one. It gives each requirement its type and its targets. A part with a wrong requirement becomes broken.
func (c *compiler) declare() {
	for _, d := range c.d.components {
		if p := c.addPart(d); p != nil && d.id != "" {
			c.byID[d.id] = p
		}
	}
	for _, r := range c.d.requires {
		if n := c.resolve(nil, r); n != nil {
			c.global = append(c.global, n)
		}
	}
	for i := 0; i < len(c.parts); i++ { // grows by inline and implied components
		p := c.parts[i]
		for _, r := range p.requires {
			n := c.resolve(p, r)
			if n == nil {
				p.isBroken, c.isVague = true, true
				continue
			}
			p.requirements = append(p.requirements, n)
			c.findTargets(n)
		}
	}
}

// addPart adds a component as a part, and gives it its type if it names one. Beyond maxComponents it refuses the
// blueprint, and returns a part that is not added.
func (c *compiler) addPart(d *component) *part {
	p := &part{component: d, label: d.id}
	if len(c.parts) >= maxComponents {
		c.refuse(rspec.TooBig, d.at, "divide the blueprint", "the blueprint has more than %d components", maxComponents)
		return p
	}
	if d.typeName != nil {
		if p.kind = c.l.component(d.typeName.text); p.kind == nil {
			remedy := c.unknown(d.typeName.text, c.l.componentNames())
			var servers []string
			for _, t := range c.l.components {
				if t.is("server") && !t.abstract {
					servers = append(servers, t.name)
				}
			}
			p.isBroken = true
			c.wrong(d.typeName, remedy+"; concrete types of server are "+strings.Join(servers, ", "), "the component type %.80q is unknown", d.typeName.text)
		}
	}
	if p.kind != nil && p.kind.form == isGroup {
		c.expandGroup(p)
	}
	c.parts = append(c.parts, p)
	return p
}

// expandGroup replaces the component of a group by one with the requirements and attributes of its nodespec, and
// the type of the group by one with what the type of the nodespec has.
func (c *compiler) expandGroup(p *part) {
	d := p.component
	i := slices.IndexFunc(d.attributes, func(f field) bool { return f.name == "nodespec" })
	if i < 0 {
		return
	}
	r := &parser{d: &Document{}}
	spec := r.component(d.attributes[i].value, d.attributes[i].value, "")
	c.Add(r.Problems()...)
	if spec == nil {
		return
	}
	if spec.typeName != nil {
		if t := c.l.component(spec.typeName.text); t == nil || t.form != isNode {
			c.wrong(spec.typeName, "use server or another type of a node", "the nodespec has the type %.80q", spec.typeName.text)
		} else {
			p.kind = p.kind.withNode(t)
		}
	}
	group := *d
	group.requires = append(spec.requires, d.requires...)
	group.attributes = append(slices.Delete(slices.Clone(d.attributes), i, i+1), spec.attributes...)
	p.component = &group
}

// withNode returns the type of a group of nodes of another type: it has what both types have.
func (t *componentType) withNode(node *componentType) *componentType {
	k := *node
	k.form, k.defaultRequirement = t.form, t.defaultRequirement
	k.requirements = slices.Concat(t.requirements, node.requirements)
	k.attributes = slices.Concat(t.attributes, node.attributes)
	k.actions = slices.Concat(t.actions, node.actions)
	return &k
}

func (n *need) get(name string) *value {
	for _, f := range n.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// findTargets sets the targets of a requirement: the parts that fulfill it. It adds parts for components that the
// requirement contains or implies.
func (c *compiler) findTargets(n *need) {
	if n.kind.effect != bySetup && n.kind.effect != byRelation || c.IsFull() {
		return
	}
	f := n.get("fulfillment")
	switch {
	case f == nil && n.kind.environment:
	case f == nil:
		p := c.addPart(&component{at: n.at})
		p.implied, p.pointing, n.targets = true, []*need{n}, []*part{p}
		c.request.Comments = append(c.request.Comments, fmt.Sprintf("line %d: %s has no fulfillment, so a component is implied", n.at.line, n.kind.name))
	default:
		list := []*value{f}
		if f.kind == yaml.SequenceNode {
			list = f.items
		}
		for _, v := range list {
			if p := c.partFor(v); p != nil && !slices.Contains(n.targets, p) {
				n.targets, p.pointing = append(n.targets, p), append(p.pointing, n)
			}
		}
	}
}

// partFor returns the part for v, one value of a fulfillment: a component with its keys, or a reference to one. It
// adds a part for a component that has none yet. It returns nil after a mistake.
func (c *compiler) partFor(v *value) *part {
	switch {
	case v.kind == yaml.MappingNode:
		r := &parser{d: &Document{}}
		d := r.component(v, v, "")
		c.Add(r.Problems()...)
		if d == nil {
			return nil
		}
		if d.id != "" && c.byID[d.id] != nil {
			c.wrong(v, "rename it", "the component %.80q exists already", d.id)
		}
		p := c.addPart(d)
		if d.id != "" {
			c.byID[d.id] = p
		}
		return p
	case v.kind != yaml.ScalarNode:
		c.wrong(v, "name a component", "a fulfillment is no reference")
		return nil
	}
	id, isExplicit := strings.CutPrefix(v.text, "id:")
	if p := c.byID[id]; p != nil {
		return p
	}
	var ids []string
	for _, p := range c.parts[:min(len(c.parts), 100)] {
		if p.id != "" && !p.implied {
			ids = append(ids, p.id)
		}
	}
	urn := ""
	if strings.HasPrefix(id, "urn:publicid:") {
		urn = id
		id = id[strings.LastIndexByte(id, '+')+1:]
		if !strings.Contains(urn, "+node+") {
			c.refuse(rspec.Unsupported, v, "name a component by its URN, with +node+", "%.80q is not the URN of a component", urn)
			return nil
		}
	}
	if isExplicit || !isID(id) || c.byID[id] != nil {
		c.wrong(v, c.unknown(id, ids), "there is no component %.80q", id)
		return nil
	}
	p := c.addPart(&component{at: v, id: id})
	p.implied, p.urn = true, urn
	if urn == "" {
		c.request.Comments = append(c.request.Comments, fmt.Sprintf("component %s: implied, since line %d refers to it", id, v.line))
		if remedy := c.unknown(id, ids); strings.HasPrefix(remedy, "did you mean") {
			c.warn(v, remedy, "the component %.80q is not declared, so it is implied", id)
		}
	}
	c.byID[id] = p
	return p
}

// resolve returns a requirement with its type and attributes, or nil after a mistake. source is the part that has
// the requirement; nil for a global one.
func (c *compiler) resolve(source *part, r *requirement) *need {
	n := &need{requirement: r, source: source}
	name := r.typeName
	if name == "" {
		if source != nil && source.kind != nil {
			name = source.kind.defaultRequirement
		}
		if name == "" {
			var list []string
			for _, t := range c.l.requirements {
				if source != nil || t.scope == "global" {
					list = append(list, t.name)
				}
			}
			remedy := "name one of " + strings.Join(list, ", ")
			if slices.Contains(list, r.value.text) {
				remedy = "write {type: " + r.value.text + "}"
			}
			c.wrong(r.at, remedy, "the value %.80q names no requirement, and there is no default one", r.value.text)
			return nil
		}
	}
	if n.kind = c.l.requirement(name); n.kind == nil {
		remedy := c.unknown(name, c.l.requirementNames())
		if t := c.l.component(name); t != nil {
			remedy = fmt.Sprintf("it is a type of components: give it a component of its own, or write REQUIREMENT: {type: %s, …}", t.name)
			if i := slices.IndexFunc(c.l.requirements, func(q *requirementType) bool { return q.needs != "" && slices.Contains(t.offers, q.needs) }); i >= 0 {
				remedy = fmt.Sprintf("it is a type of components: write %s: {type: %s, …}", c.l.requirements[i].name, t.name)
			}
		}
		c.wrong(r.at, remedy, "the requirement type %.80q is unknown", name)
		return nil
	}
	if (source == nil) != (n.kind.scope == "global") {
		c.wrong(r.at, "move it", "the requirement %.80q is of the scope %s", name, n.kind.scope)
		return nil
	}
	useDefault := func() { // the value is that of the default attribute
		if n.kind.defaultName == "" {
			c.wrong(r.value, "name the attribute", "the requirement %.80q has no default attribute", name)
		} else if r.value.kind != 0 {
			n.fields = []field{{n.kind.defaultName, r.at, r.value}}
		}
	}
	switch kind := r.value.get("type"); {
	case r.value.kind != yaml.MappingNode:
		useDefault()
	case r.isItem || kind == nil:
		n.fields = slices.DeleteFunc(slices.Clone(r.value.fields), func(f field) bool { return f.name == "type" })
	case c.l.component(kind.text) != nil:
		useDefault()
	default:
		c.wrong(kind, "component types are "+strings.Join(c.l.componentNames(), ", ")+"; requirement types are "+strings.Join(c.l.requirementNames(), ", "), "the type %.80q is unknown", kind.text)
		return nil
	}
	return n
}
