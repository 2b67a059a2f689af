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

func (m *Machine) write(b *strings.Builder, manager urn.URN) {
	b.WriteString(` <rspec_opstate xmlns="` + opstateSpace + `" aggregate_manager_id="` + escape(manager.String()) + `" start="` + escape(m.Start) + "\">\n")
	for _, t := range m.SliverTypes {
		b.WriteString(`  <sliver_type name="` + escape(t) + "\"/>\n")
	}
	for _, s := range m.States {
		b.WriteString(`  <state name="` + escape(s.Name) + `">`)
		writeDescription(b, s.Description)
		for _, a := range s.Actions {
			b.WriteString(`<action name="` + escape(a.Name) + `" next="` + escape(a.Next) + `">`)
			writeDescription(b, a.Description)
			b.WriteString("</action>")
		}
		for _, w := range s.Waits {
			b.WriteString(`<wait type="` + escape(w.Type) + `" next="` + escape(w.Next) + `">`)
			writeDescription(b, w.Description)
			b.WriteString("</wait>")
		}
		b.WriteString("</state>\n")
	}
	b.WriteString(" </rspec_opstate>\n")
}

func writeDescription(b *strings.Builder, s string) {
	if s != "" {
		b.WriteString("<description>" + escape(s) + "</description>")
	}
}
