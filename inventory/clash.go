package inventory

import (
	"cmp"
	"fmt"
	"slices"

	"patchbay/am"
	"patchbay/inventory/yamlfile"
)

// maxClashes is how many clashes are told.
const maxClashes = 20

// Clash refuses v for file where it would give a machine to two slices: a sliver is
// counted where its component_id is, and its provider knows its machine by the name
// that the component had. So that name, with its provider, must not go to another
// component_id while the sliver is there; nor that of an interface within its node.
// The error is a *yamlfile.Error.
func Clash(v *Inventory, file string, slivers []am.Sliver) error {
	var found []yamlfile.Problem
	more := 0
	told := make(map[string]bool)
	wrong := func(x *am.Sliver, what string, line int, name, id, old string) {
		text := fmt.Sprintf("the %s name %s goes to %s, but it is the machine of a sliver of %s under %s; two could get it. Leave that name where it was until the sliver is gone", what, name, id, x.Slice, old)
		switch {
		case told[text]:
		case len(found) == maxClashes:
			more++
		default:
			found = append(found, yamlfile.Problem{File: file, Line: line, Msg: text})
		}
		told[text] = true
	}
	for i := range slivers {
		x := &slivers[i]
		home, ok := v.Home(x)
		if other, known := v.ComponentNamed(x.ComponentName); ok && known && other != home && other.Provider == x.Provider {
			wrong(x, "component", other.Line, x.ComponentName, other.URN.String(), x.Component.String())
		}
		for n := range x.Interfaces {
			in := &x.Interfaces[n]
			port, ok := v.Port(x, in)
			if !ok || home == nil || port.Component != home {
				continue
			}
			if at := home.port(in.ComponentName); at != nil && at != port {
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

// Renames tells whether v gives a name that was has to another component_id.
// Without that, what was promised while was is in force cannot clash with v.
func (v *Inventory) Renames(was *Inventory) bool {
	return slices.ContainsFunc(v.Components, func(c *Component) bool {
		old, ok := was.ComponentNamed(c.Name)
		if !ok {
			return false
		}
		return !old.URN.Equal(c.URN) || slices.ContainsFunc(c.Interfaces, func(p *Interface) bool {
			o := old.port(p.Name)
			return o != nil && !o.URN.Equal(p.URN)
		})
	})
}
