package inventory

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory/nameset"
	"patchbay/rspec/match"
	"patchbay/schemas/yamlfile"
)

// maxComponents and maxInterfaces protect the memory from a mistyped range.
const (
	maxComponents = 1_000_000
	maxInterfaces = 2_000_000
)

var componentKeys = []string{
	"name", "names", "component_id", "exclusive", "hardware_types", "sliver_types", "capacity", "capabilities", "interfaces", "location", "provider", "gateway", "drained", "settings",
}

func (s *site) readComponents(n *yaml.Node) {
	for _, item := range s.Items(n, "components") {
		s.readComponent(item)
	}
}

// componentEntry is an entry of "components", for one component or several equal ones.
type componentEntry struct {
	Component
	names []string
	ports []interfaceEntry
	// id, exclusive and capacity are the YAML nodes of these keys; nil if they are
	// missing.
	id, exclusive, capacity *yaml.Node
}

// readComponent reads an entry of components, and adds the components that it describes. After a mistake it adds
// none.
func (s *site) readComponent(item *yaml.Node) {
	e := &componentEntry{Component: Component{Provider: s.provider, Line: item.Line}}
	bad := s.Mistakes()
	s.Fields(item, "a component", componentKeys, func(key string, n *yaml.Node) { s.readField(e, key, n) })
	if s.Mistakes() > bad {
		return
	}
	if len(e.SliverTypes) == 0 && s.DefaultSliverType != nil {
		e.SliverTypes = []*SliverType{s.DefaultSliverType}
	}
	if s.checkEntry(item, e); s.Mistakes() > bad {
		return
	}
	e.limitConsumables()
	if e.Exclusive {
		e.Capacity = am.Amount{Slots: 1}
	} else if !s.checkCapacity(item, e.names[0], &e.Component) {
		return
	}
	for _, name := range e.names {
		s.addComponent(item, name, e.Component, e.ports)
	}
}

// readField reads the value n of a key into the entry. It only checks what does not depend on other keys.
func (s *site) readField(e *componentEntry, key string, n *yaml.Node) {
	switch key {
	case "name":
		switch name := s.name(n, key); {
		case strings.Contains(name, ".."):
			s.Wrong(n, "name %q is one component; for a range write names: %s", name, name)
		case name != "":
			e.names = append(e.names, name)
		}
	case "names":
		for _, r := range s.names(n, key) {
			e.names = append(e.names, s.expandRange(r, r == n)...)
		}
	case "component_id":
		e.URN, e.id = s.urn(n, urn.Node), n
	case "exclusive":
		e.Exclusive, e.exclusive = s.flag(n, key), n
	case "hardware_types", "sliver_types":
		s.readTypes(e, key, n)
	case "capacity":
		e.Capacity, e.capacity = s.amount(n, key, am.Amount{}), n
	case "capabilities":
		e.Capabilities = s.capabilities(n)
	case "interfaces":
		e.ports = s.readInterfaces(n)
	case "location":
		if e.Location = s.locations[n.Value]; e.Location == nil {
			s.Unknown(n, "location", namesOf(s.Locations, func(l *Location) string { return l.Name }))
		} else if offer, err := match.ParseCapability(country, e.Location.Country); err == nil {
			e.country = &offer
		}
	case "provider":
		e.Provider = s.name(n, key)
	case "gateway":
		if e.Gateway = s.gateways[n.Value]; e.Gateway == nil {
			s.Unknown(n, "gateway", namesOf(s.Gateways, func(g *Gateway) string { return g.Name }))
		}
	case "drained":
		e.Drained = s.flag(n, key)
	case "settings":
		e.Settings = s.settings(n)
	}
}

func (s *site) readTypes(e *componentEntry, key string, n *yaml.Node) {
	for _, name := range s.Texts(n, key) {
		if key == "hardware_types" {
			if !s.hardware[name.Value] {
				s.Unknown(name, "hardware type", s.HardwareTypes)
			}
			e.HardwareTypes = append(e.HardwareTypes, name.Value)
		} else if t := s.sliverType(name); t != nil && !e.Offers(t) {
			e.SliverTypes = append(e.SliverTypes, t)
		}
	}
}

// checkEntry records a mistake if keys of the entry are missing or exclude each other.
func (s *site) checkEntry(item *yaml.Node, e *componentEntry) {
	switch {
	case len(e.names) == 0:
		s.Missing(item, "a component", "name")
	case e.id != nil && len(e.names) > 1:
		s.Wrong(e.id, "component_id is for one component; this entry creates %d", len(e.names))
	case e.exclusive == nil:
		s.Wrong(item, "component %s does not say whether it is exclusive; add exclusive: true (one experiment at a time) or false (shared)", e.names[0])
	case e.Provider == "":
		s.Wrong(item, "component %s has no provider; add one here, or one for all at the top", e.names[0])
	case e.Exclusive && e.capacity != nil:
		s.Wrong(e.capacity, "component %s is exclusive, so it holds one sliver of any size; remove capacity", e.names[0])
	default:
		for _, p := range e.ports {
			if p.single != nil && len(e.names) > 1 {
				s.Wrong(p.single, "%s is for one interface; this entry creates %d", p.what, len(e.names))
				return
			}
		}
		if len(e.ports)*len(e.names) > maxInterfaces-len(s.Interfaces) {
			s.Wrong(item, "%d interfaces on each of %d components are too many, since an inventory may have %d in all; list fewer", len(e.ports), len(e.names), maxInterfaces)
		}
	}
}

// checkCapacity records a mistake and returns false unless the capacity has room for a
// sliver of each type and limits their number.
func (s *site) checkCapacity(n *yaml.Node, name string, c *Component) bool {
	for _, t := range c.SliverTypes {
		switch am.Fits(c.Capacity, am.Amount{}, t.Needs, math.MaxInt64) {
		case 0:
			s.Wrong(n, "component %s is too small for one %s; raise its capacity or lower what %s needs", name, t.Name, t.Name)
			return false
		case math.MaxInt64:
			s.Wrong(n, "component %s is shared and has no limit for slivers of type %s; add capacity: {slots: N}", name, t.Name)
			return false
		}
	}
	return true
}

// addComponent adds a component with its interfaces. If another component has the same name or URN, it records a
// mistake instead.
func (s *site) addComponent(n *yaml.Node, name string, c Component, ports []interfaceEntry) {
	c.Index, c.Name = len(s.Components), name
	if c.URN.IsZero() {
		c.URN = s.urnOf(n, urn.Node, name)
	}
	key := c.URN.Key()
	switch {
	case s.byURN[key] != nil:
		s.Wrong(n, "there are two components %s; rename one", c.URN)
	case s.byName[name] != nil:
		s.Wrong(n, "there are two components %q; rename one", name)
	default:
		s.byURN[key], s.byName[name] = &c, &c
		s.Components = append(s.Components, &c)
		s.addInterfaces(&c, ports)
	}
}

// looksLikeRange matches texts that are probably a mistyped range, such as pc1-pc20. The
// short form pc1-20 can also be a correct single name.
var looksLikeRange = regexp.MustCompile(`^(\D*)(\d+)(?:-|–|:|\.\.\.|…)(\D*)(\d+)$`)

// expandRange returns the names of a range, such as pc1..pc20 or pc001..pc100. A text
// that is probably a mistyped range or list is a mistake. The parameter single reports
// whether n is the only entry under "names"; then pc1-20 is also a mistake.
func (s *site) expandRange(n *yaml.Node, single bool) []string {
	if m := looksLikeRange.FindStringSubmatch(n.Value); m != nil && (m[1] == m[3] && m[1] != "" || m[3] == "" && single) {
		s.Wrong(n, "%q is one name; for a range write %s%s..%s%s, for one component write name: %s in an entry of its own", n.Value, m[1], m[2], m[1], m[4], n.Value)
		return nil
	}
	if strings.Contains(n.Value, ",") {
		s.Wrong(n, "%q is one name; for a list write [%s]", n.Value, strings.Join(strings.Split(n.Value, ","), ", "))
		return nil
	}
	r, isRange := nameset.Parse(n.Value)
	switch {
	case !isRange:
		return []string{n.Value}
	case r.Len() == 0:
		s.Wrong(n, "%q is not a range; write its first and its last name, such as pc1..pc20", n.Value)
		return nil
	case r.Len() > maxComponents-len(s.Components):
		s.Wrong(n, "%q adds more components than the %d that an inventory may have", n.Value, maxComponents)
		return nil
	}
	return slices.AppendSeq(make([]string, 0, r.Len()), r.Names())
}

func (s *site) settings(n *yaml.Node) map[string]string {
	if n.Kind != yaml.MappingNode {
		s.Wrong(n, "settings must be a list of keys and texts")
		return nil
	}
	m := make(map[string]string, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], yamlfile.Deref(n.Content[i+1])
		if !s.Key(k, "settings") {
			continue
		}
		if value.Kind != yaml.ScalarNode {
			s.Wrong(value, "setting %q must be a text", k.Value)
			continue
		}
		m[k.Value] = value.Value
	}
	return m
}

func namesOf[T any](list []T, name func(T) string) []string {
	names := make([]string, len(list))
	for i, x := range list {
		names[i] = name(x)
	}
	return names
}
