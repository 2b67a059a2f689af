package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
)

var (
	slotsIn = regexp.MustCompile(`capacity: {slots: ([0-9]+)`)
	portsIn = regexp.MustCompile(`\nports: [0-9-]+`)
)

var lineNumbers = regexp.MustCompile(`:[0-9]+`)

// TestSettingsThatMustAgreeAreCompared proves that check warns where the inventory offers
// what the local testbed is not configured to provide.
func TestSettingsThatMustAgreeAreCompared(t *testing.T) {
	dir, _ := initLocal(t)
	inv, settings := filepath.Join(dir, "inventory.yaml"), filepath.Join(dir, "providers", "local.yaml")
	warnings := func() string {
		_, out := runCommand(t, "check", "--config", dir)
		var lines []string
		for line := range strings.Lines(out) {
			if strings.Contains(line, "outbound") || strings.Contains(line, "shared VLAN") || strings.Contains(line, "ports for their logins") {
				lines = append(lines, strings.ReplaceAll(line, dir+"/", ""))
			}
		}
		return strings.Join(lines, "")
	}
	if got := warnings(); got != "" {
		t.Errorf("a new site: %s", got)
	}
	program.Edit(t, inv, "\nshared_vlans:", "\noutbound: yes\nshared_vlans:")
	program.Edit(t, inv, "\nshared_vlans: []", "\nshared_vlans: [{name: one, tag: 7}, {name: mine, tag: 8, restricted: true}, {name: both, tag: 9}]")
	program.Edit(t, settings, "\nshared_vlans: []", "\nshared_vlans:\n  - both\n  - two")
	out := lineNumbers.ReplaceAllString(warnings(), ":N")
	program.WantTexts(t, out, "warning  inventory.yaml:N: outbound is yes, but providers/local.yaml:N says no, and nodes of local get the latter; write no here, or yes there\n",
		"warning  inventory.yaml:N: it offers the shared VLAN one, which shared_vlans of providers/local.yaml:N does not name, so links of nodes of local that join it are refused; add it there, or write restricted: true here\n",
		"warning  providers/local.yaml:N: it allows the shared VLAN two, which shared_vlans of inventory.yaml:N does not offer, so no request can use it; add it there with a tag, or remove it here\n")
	if n := strings.Count(out, "warning"); n != 3 {
		t.Errorf("%d warnings, want 3:\n%s", n, out)
	}
	const slots = 120
	program.Edit(t, inv, "capacity: {slots: "+slotsIn.FindStringSubmatch(program.ReadFile(t, inv))[1], "capacity: {slots: 120")
	for ports, most := range map[string]int{"20000-20119": 119, "20000-20120": 0, "20000-20050": 50} {
		program.Edit(t, settings, portsIn.FindString(program.ReadFile(t, settings)), "\nports: "+ports)
		want := fmt.Sprintf("have room for %d nodes, but ports at providers/local.yaml:N has %d ports for their logins", slots, most)
		if out := lineNumbers.ReplaceAllString(warnings(), ":N"); strings.Contains(out, want) != (most > 0) {
			t.Errorf("with the ports %s: %s", ports, out)
		}
	}
	program.Edit(t, settings, "\npublish: both", "\npublish: gateway")
	if out := warnings(); strings.Contains(out, "ports for") {
		t.Errorf("no node needs a port: %s", out)
	}
	program.Edit(t, settings, "\noutbound: no", "\noutbound: yes")
	if out := warnings(); strings.Contains(out, "outbound is") {
		t.Errorf("they agree: %s", out)
	}
}
