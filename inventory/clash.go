package inventory

import (
	"cmp"
	"fmt"
	"slices"

	"patchbay/am"
	"patchbay/schemas/yamlfile"
)

const maxClashes = 20

// CheckClash returns a *yamlfile.Error about file if v could give one machine to two
// slices. Patchbay finds a sliver's component by its component_id. The provider finds the
// machine by the component's name at the creation of the sliver. While the sliver exists,
// that name must not move to another component of the same provider. Likewise, the names
// of the sliver's interfaces must not move to other interfaces of the component.
func CheckClash(v *Inventory, file string, slivers []am.Sliver) error {
	var found []yamlfile.Problem
	more := 0
	noted := make(map[string]bool)
	wrong := func(x *am.Sliver, what string, line int, name, id, old string) {
		text := fmt.Sprintf("the %s name %s moves to %s, but a sliver of %s uses that machine under %s, so two slices could get it; keep the name where it was until the sliver is deleted", what, name, id, x.Slice, old)
		switch {
		case noted[text]:
		case len(found) == maxClashes:
			more++
		default:
			found = append(found, yamlfile.Problem{File: file, Line: line, Msg: text})
		}
		noted[text] = true
	}
	for i := range slivers {
		x := &slivers[i]
		home, ok := v.ComponentOf(x)
		if other, known := v.ComponentNamed(x.ComponentName); ok && known && other != home && other.Provider == x.Provider {
			wrong(x, "component", other.Line, x.ComponentName, other.URN.String(), x.Component.String())
		}
		for n := range x.Interfaces {
			in := &x.Interfaces[n]
			port, ok := v.InterfaceOf(x, in)
			if !ok || home == nil || port.Component != home {
				continue
			}
			if at := home.InterfaceNamed(in.ComponentName); at != nil && at != port {
				wrong(x, "interface", home.Line, in.ComponentName, at.URN.String(), in.Component.String())
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	if more > 0 {
		found = append(found, yamlfile.Problem{File: file, Msg: fmt.Sprintf("and %d more slivers like these", more)})
	}
	slices.SortStableFunc(found[:min(len(found), maxClashes)], func(a, b yamlfile.Problem) int { return cmp.Compare(a.Line, b.Line) })
	return &yamlfile.Error{Problems: found}
}

// HasRenamed reports whether a component or interface name has one component_id in v and
// another one in previous. If not, slivers reserved under previous cannot clash with v.
func (v *Inventory) HasRenamed(previous *Inventory) bool {
	return slices.ContainsFunc(v.Components, func(c *Component) bool {
		old, ok := previous.ComponentNamed(c.Name)
		if !ok {
			return false
		}
		return !old.URN.Equal(c.URN) || slices.ContainsFunc(c.Interfaces, func(p *Interface) bool {
			o := old.InterfaceNamed(p.Name)
			return o != nil && !o.URN.Equal(p.URN)
		})
	})
}
