package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"patchbay/am/xmlrpc"
)

// printTold writes what this kind of aggregate tells of slivers beside the API's own
// members: how links are made, and what became of services, with their output.
func printTold(w io.Writer, slivers []xmlrpc.Struct) {
	list := func(s xmlrpc.Struct, name string) []xmlrpc.Value {
		v, _ := s.Get(name)
		items, _ := v.([]xmlrpc.Value)
		return items
	}
	var wires, steps [][]string
	var outputs []string
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
			if text := memberText(v, "output"); text != "" {
				outputs = append(outputs, fmt.Sprintf("output of %s, step %s:\n    %s", node, memberText(v, "step"), strings.ReplaceAll(text, "\n", "\n    ")))
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
}
