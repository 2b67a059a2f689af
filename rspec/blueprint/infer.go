package blueprint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/rspec"
	"patchbay/rspec/generate"
)

// readPolicies reads the global requirements: the country, the allowed providers, and features that are copied to
// the manifest.
func (c *compiler) readPolicies() {
	for _, n := range c.global {
		v := n.get(n.kind.defaultName)
		if v == nil {
			c.wrong(n.at, "give "+n.kind.defaultName, "the requirement %.80q has no value", n.kind.name)
			continue
		}
		switch n.kind.defaultName {
		case "iso3166":
			if c.country = strings.ToUpper(flat(v)); len(c.country) != 2 || v.kind != yaml.ScalarNode {
				c.wrong(v, "write one code of two letters, such as US", "%.80q is no country", flat(v))
			}
			c.request.Comments = append(c.request.Comments, "jurisdiction: components without a country, or in another one, do not match")
		case "allow":
			list := v.items
			if v.kind == yaml.ScalarNode {
				list = []*value{v}
			}
			if len(list) > maxAllowed {
				c.refuse(rspec.TooBig, v, "use wildcards", "allow has more than %d patterns", maxAllowed)
				return
			}
			for _, g := range list {
				if _, err := path.Match(g.text, ""); err != nil || g.kind != yaml.ScalarNode || len(g.text) > 200 {
					c.wrong(g, "write names with *", "%.80q is no pattern", g.text)
				}
				c.allow = append(c.allow, g.text)
			}
			c.request.Features = append(c.request.Features, generate.Feature{Name: "providers.allow", Value: flat(v)})
		default:
			c.request.Features = append(c.request.Features, features(n.kind.name+".", n.fields)...)
		}
	}
}

// hasProvider reports whether a name begins with that of a provider: org.jetty.Server or
// AWS::EC2::Instance, but not vm or ubuntu-22.04.
var hasProvider = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*(\.|::?)[A-Za-z]`).MatchString

// isAllowed reports whether providers.allow has the name of a type or an image, which may be the
// last part of a URN. A pattern may be the provider alone. Names without a provider are always allowed.
func (c *compiler) isAllowed(name string) bool {
	if strings.HasPrefix(name, "urn:") {
		name = name[strings.LastIndexByte(name, '+')+1:]
	}
	return c.allow == nil || !hasProvider(name) || slices.ContainsFunc(c.allow, func(glob string) bool {
		ok, _ := path.Match(glob, name)
		return ok || strings.HasPrefix(name, glob+".")
	})
}

// inferTypes gives each part a type that has a form: its declared type, or else the first one in the library that
// it can be. Then it removes the parts for which there is no such type, and what refers to them.
func (c *compiler) inferTypes() {
	for _, p := range c.parts {
		declared := p.kind
		if p.isBroken {
			continue
		}
		if declared == nil && len(p.pointing)+len(p.requirements) == 0 {
			if !c.isVague {
				c.wrong(p.at, "add type:", "the component %.80q has no type, and nothing refers to it", p.id)
			}
			continue
		}
		var usable, rejected []string // names of types
		var chosen *componentType     // the first usable one
		candidates := c.l.components
		if declared != nil && declared.form != "" {
			candidates = []*componentType{declared} // which is not in the library if it has a nodespec
		}
		for _, t := range candidates {
			switch {
			case t.form == "" || !p.canBe(t) || declared != nil && !t.is(declared.name):
			case !t.abstract && !c.isAllowed(t.name):
				rejected = append(rejected, t.name)
			default:
				if chosen == nil {
					chosen = t
				}
				usable = append(usable, t.name)
			}
		}
		if chosen == nil {
			c.refuseType(p, declared, rejected)
			continue
		}
		if p.kind = chosen; declared != chosen {
			c.request.Comments = append(c.request.Comments, fmt.Sprintf("component in line %d: type %s, the first of %s", p.at.line, chosen.name, strings.Join(usable, ", ")))
		}
	}
	isUnknown := func(p *part) bool { return p.kind == nil || p.kind.form == "" }
	c.isVague = c.isVague || slices.ContainsFunc(c.parts, isUnknown)
	c.parts = slices.DeleteFunc(c.parts, isUnknown)
	for _, p := range c.parts {
		p.pointing = slices.DeleteFunc(p.pointing, func(n *need) bool { return isUnknown(n.source) })
		for _, n := range p.requirements {
			n.targets = slices.DeleteFunc(n.targets, isUnknown)
		}
	}
}

// canBe reports whether the part can be of the type t: t offers what the requirements need that point at the part,
// and knows the part's own requirements.
func (p *part) canBe(t *componentType) bool {
	return !slices.ContainsFunc(p.pointing, func(n *need) bool { return n.kind.needs != "" && !slices.Contains(t.offers, n.kind.needs) }) &&
		!slices.ContainsFunc(p.requirements, func(n *need) bool { return !slices.Contains(t.requirements, n.kind.name) })
}

// refuseType refuses the part p, which can be of no type, with the reasons. declared is its declared type, or nil;
// rejected are the types that providers.allow excludes.
func (c *compiler) refuseType(p *part, declared *componentType, rejected []string) {
	var why []string
	for _, n := range p.pointing {
		if declared == nil || n.kind.needs != "" && !slices.Contains(declared.offers, n.kind.needs) {
			why = append(why, fmt.Sprintf("%s in line %d refers to it and needs %s", n.kind.name, n.at.line, n.kind.needs))
		}
	}
	for _, n := range p.requirements {
		if declared == nil || !slices.Contains(declared.requirements, n.kind.name) {
			why = append(why, fmt.Sprintf("it requires %s in line %d", n.kind.name, n.at.line))
		}
	}
	name := "no type fits"
	if declared != nil {
		name = "type " + declared.name + " does not fit"
	}
	remedy := "give each part a component of its own"
	if declared != nil && slices.ContainsFunc(p.pointing, func(n *need) bool {
		return n.kind.name == "host" && n.source.kind != nil && n.source.kind.form == isGroup
	}) {
		remedy = "the type of the nodes of a tier is in its nodespec: {type: " + declared.name + "}"
	}
	if len(rejected) > 0 {
		remedy = "providers.allow excludes " + strings.Join(rejected, ", ")
	}
	text := fmt.Sprintf("%.120s the component %.80q", name, p.id)
	if p.id == "" {
		text = fmt.Sprintf("%.120s the component in line %d", name, p.at.line)
	}
	if len(why) > 0 {
		text += ": " + strings.Join(why, "; ")
	}
	c.wrong(p.at, remedy, "%.800s", text)
}
