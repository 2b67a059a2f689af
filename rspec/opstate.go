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
	b.WriteString(` <rspec_opstate xmlns="` + opstateSpace + `" aggregate_manager_id="` + escape(manager.String()) + `" start="` + escape(m.Start) + "\">\n")
	for _, t := range m.SliverTypes {
		b.WriteString(`  <sliver_type name="` + escape(t) + "\"/>\n")
	}
	for _, s := range m.States {
		var inner strings.Builder
		if s.Description != "" {
			inner.WriteString("<description>" + escape(s.Description) + "</description>")
		}
		for _, a := range s.Actions {
			writeStep(&inner, "action", "name", a.Name, a.Next, a.Description)
		}
		for _, w := range s.Waits {
			writeStep(&inner, "wait", "type", w.Type, w.Next, w.Description)
		}
		b.WriteString("  ")
		writeAround(b, `state name="`+escape(s.Name)+`"`, "state", inner.String())
		b.WriteByte('\n')
	}
	b.WriteString(" </rspec_opstate>\n")
}

// writeStep writes what leads from one state to the next.
func writeStep(b *strings.Builder, element, key, name, next, description string) {
	inner := ""
	if description != "" {
		inner = "<description>" + escape(description) + "</description>"
	}
	writeAround(b, element+` `+key+`="`+escape(name)+`" next="`+escape(next)+`"`, element, inner)
}

// writeAround writes an element, given as its start tag and its name, around
// what is inside.
func writeAround(b *strings.Builder, tag, element, inner string) {
	if inner == "" {
		b.WriteString("<" + tag + "/>")
		return
	}
	b.WriteString("<" + tag + ">" + inner + "</" + element + ">")
}
