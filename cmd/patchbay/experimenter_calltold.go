package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/xmlrpc"
)

// printTold writes what this kind of aggregate tells of slivers beside the API's own
// members: how links are made, and what became of services, with the output of
// those that failed, or of all.
func printTold(w io.Writer, slivers []xmlrpc.Struct, logs bool) {
	list := func(s xmlrpc.Struct, name string) []xmlrpc.Value {
		v, _ := s.Get(name)
		items, _ := v.([]xmlrpc.Value)
		return items
	}
	var wires, steps [][]string
	var outputs []string
	quiet := 0 // outputs that are not shown
	for _, s := range slivers {
		node := cmp.Or(memberText(s, "geni_client_id"), memberText(s, "geni_sliver_urn"), memberText(s, "geni_urn"))
		for _, v := range list(s, "patchbay_interfaces") {
			if mac, emulator := memberText(v, "mac"), memberText(v, "emulator"); mac+emulator != "" {
				wires = append(wires, []string{node, memberText(v, "client_id"), memberText(v, "link"), mac, emulator})
			}
		}
		for _, v := range list(s, "patchbay_services") {
			state := memberText(v, "state")
			if exit := memberText(v, "exit"); exit != "" && exit != "0" {
				state += " (" + exit + ")"
			}
			steps = append(steps, []string{node, memberText(v, "step"), memberText(v, "kind"), memberText(v, "what"), state, memberText(v, "message")})
			switch text := memberText(v, "output"); {
			case text == "":
			case logs || memberText(v, "state") == string(am.StepFailed):
				outputs = append(outputs, outputOf(node, v, text))
			default:
				quiet++
			}
		}
	}
	if len(wires) > 0 {
		fmt.Fprintln(w)
		printTable(w, []string{"NODE", "INTERFACE", "LINK", "MAC", "MADE BY"}, wires)
	}
	if len(steps) > 0 {
		fmt.Fprintln(w)
		printTable(w, []string{"NODE", "STEP", "KIND", "WHAT", "STATE", "MESSAGE"}, steps)
	}
	for _, text := range outputs {
		fmt.Fprintln(w)
		fmt.Fprintln(w, text)
	}
	if quiet > 0 {
		fmt.Fprintf(w, "\nWhat %s wrote is shown with --logs.\n", display.Count(quiet, "other step"))
	}
}

// outputShown is how many lines of a step's output are shown, the last ones.
const outputShown = 20

// outputOf is what a step wrote.
func outputOf(node string, step xmlrpc.Value, text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	number := memberText(step, "step")
	head := fmt.Sprintf("output of %s, step %s:", node, number)
	if before := len(lines) - outputShown; before > 0 {
		lines = lines[before:]
		head = fmt.Sprintf("output of %s, step %s, without %s before these; all of it is in the node where the site keeps it, as the local testbed does: /var/log/patchbay/%s-%s.log",
			node, number, display.Count(before, "line"), number, memberText(step, "kind"))
	}
	return head + "\n    " + strings.Join(lines, "\n    ")
}
