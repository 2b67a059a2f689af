package rspec

import (
	"strings"

	"patchbay/am/urn"
)

// Machine is the operational states that slivers of some types go through.
type Machine struct {
	SliverTypes []string
	// Start is the state right after provisioning.
	Start  string
	States []State
}

// State is one state, what may be asked for in it, and what it leads to by itself.
type State struct {
	Name, Description string
	Actions           []Action
	Waits             []Wait
}

// Action is an operational action and the state it leads to.
type Action struct{ Name, Next, Description string }

// Wait is an outcome, such as geni_success, and the state it leads to.
type Wait struct{ Type, Next, Description string }

// write writes the machine as the opstate extension has it; one without sliver
// types is no machine.
func (m *Machine) write(b *strings.Builder, manager urn.URN) {
	if len(m.SliverTypes) == 0 {
		return
	}
	b.WriteString(" " + openTag(opstateSpace, "rspec_opstate", "aggregate_manager_id", manager.String(), "start", m.Start) + ">\n")
	for _, t := range m.SliverTypes {
		b.WriteString("  " + openTag(inherited, "sliver_type", "name", t) + "/>\n")
	}
	for _, s := range m.States {
		var inner strings.Builder
		inner.WriteString(described(s.Description))
		for _, a := range s.Actions {
			writeAround(&inner, "action", described(a.Description), "name", a.Name, "next", a.Next)
		}
		for _, w := range s.Waits {
			writeAround(&inner, "wait", described(w.Description), "type", w.Type, "next", w.Next)
		}
		b.WriteString("  ")
		writeAround(b, "state", inner.String(), "name", s.Name)
		b.WriteByte('\n')
	}
	b.WriteString(" </rspec_opstate>\n")
}

// described is a description as an element; nothing if there is none.
func described(text string) string {
	if text == "" {
		return ""
	}
	return "<description>" + escape(text) + "</description>"
}
