package rspec

import (
	"strings"

	"patchbay/am/urn"
)

// Machine is the state machine of the operational states of some sliver types.
type Machine struct {
	SliverTypes []string
	// Start is the state right after provisioning.
	Start  string
	States []State
}

// State is one state, the actions possible in it, and its automatic transitions.
type State struct {
	Name, Description string
	Actions           []Action
	Waits             []Wait
}

// Action is an operational action and the state that follows.
type Action struct{ Name, Next, Description string }

// Wait is an automatic transition: an outcome, such as geni_success, and the state that
// follows.
type Wait struct{ Type, Next, Description string }

// write writes nothing if the machine has no sliver types.
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
		inner.WriteString(descriptionElement(s.Description))
		for _, a := range s.Actions {
			writeAround(&inner, "action", descriptionElement(a.Description), "name", a.Name, "next", a.Next)
		}
		for _, w := range s.Waits {
			writeAround(&inner, "wait", descriptionElement(w.Description), "type", w.Type, "next", w.Next)
		}
		b.WriteString("  ")
		writeAround(b, "state", inner.String(), "name", s.Name)
		b.WriteByte('\n')
	}
	b.WriteString(" </rspec_opstate>\n")
}

func descriptionElement(text string) string {
	if text == "" {
		return ""
	}
	return "<description>" + escape(text) + "</description>"
}
