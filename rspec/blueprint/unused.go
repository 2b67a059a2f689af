package blueprint

import (
	"slices"

	"patchbay/am/display"
)

// nodeAttributes are attributes of all nodes and groups.
var nodeAttributes = []string{"sliver_type", "image", "hardware_type", "tags"}

// warnOfUnused warns of attributes and keys that have no effect.
func (c *compiler) warnOfUnused() {
	for _, f := range c.d.features {
		remedy := "remove it; it is only copied to the manifest"
		if t := c.l.requirement(f.name); t != nil && t.scope == "global" {
			remedy = "write it below requires:"
		}
		if f.name != "description" && f.name != "tags" {
			c.warn(f.key, remedy, "the key %.80q has no effect here", f.name)
		}
	}
	for _, n := range c.global {
		c.warnOfFields(n)
	}
	for _, p := range c.parts {
		known := names(p.kind.attributes)
		if p.kind.form == isNode || p.kind.form == isGroup {
			known = append(known, nodeAttributes...)
		}
		for _, f := range p.attributes {
			if slices.Contains(known, f.name) || f.name == "description" {
				continue
			}
			if p.runsContent() {
				if err := checkVariable(f.name); err != nil {
					c.warn(f.key, "rename it", "the attribute %.80q is no variable of the script: %v", f.name, err)
				}
				continue
			}
			remedy := remedyFor(f.name, known)
			if slices.Contains(p.kind.requirements, f.name) {
				remedy = "write it below requires:"
			}
			c.warn(f.key, remedy, "the type %s has no attribute %.80q, so it has no effect", p.kind.name, f.name)
		}
		for _, n := range p.requirements {
			c.warnOfFields(n)
		}
	}
}

// warnOfFields warns of attributes of a requirement that neither Patchbay nor an action uses. A fixed attribute may
// have its fixed value.
func (c *compiler) warnOfFields(n *need) {
	known := []string{n.kind.defaultName}
	switch {
	case n.kind.effect == byRelation && !n.kind.host && len(n.kind.actions) > 0:
		known = append(known, names(n.kind.attributes)...)
	case n.kind.environment && len(n.targets) > 0:
		known = nil
	}
	if n.kind.effect == bySetup || n.kind.effect == byRelation {
		known = append(known, "fulfillment")
	}
	isCustomPolicy := n.kind.effect == byPolicy && n.kind.defaultName != "iso3166" && n.kind.defaultName != "allow"
	for _, f := range n.fields {
		if slices.Contains(known, f.name) || isCustomPolicy {
			continue
		}
		i := slices.IndexFunc(n.kind.fixed, func(a attribute) bool { return a.name == f.name })
		switch {
		case i < 0:
			remedy := remedyFor(f.name, known)
			if t := f.value.get("type"); t != nil && c.l.component(t.text) != nil {
				remedy = "write it as a component of its own, which requires this one or its target"
			}
			c.warn(f.key, remedy, "the requirement %s has no attribute %.80q, so it has no effect", n.kind.name, f.name)
		case n.kind.fixed[i].value != flat(f.value):
			c.warn(f.key, "expect "+n.kind.fixed[i].value, "%s: %.80q has no effect: the requirement %s does only %s", f.name, flat(f.value), n.kind.name, n.kind.fixed[i].value)
		}
	}
}

func names(list []attribute) (all []string) {
	for _, a := range list {
		all = append(all, a.name)
	}
	return all
}

func remedyFor(name string, known []string) string {
	if near := display.Suggest(display.Cut(name, 80), known); near != "" {
		return "did you mean \"" + near + "\"?"
	}
	return "remove it"
}
