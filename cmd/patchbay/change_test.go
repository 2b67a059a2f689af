package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
)

// changing is a request of the table of changes: nodes on a LAN.
type changing struct {
	nodes    []string // NAME, or NAME=TEXT with the content of its element
	lan      []string
	property string // attributes of the property from the first node of the LAN
}

func (c changing) text() string {
	var nodes, ends strings.Builder
	for _, n := range c.nodes {
		name, inside, _ := strings.Cut(n, "=")
		fmt.Fprintf(&nodes, "<node client_id=%q exclusive=\"false\">%s", name, inside)
		if slices.Contains(c.lan, name) {
			fmt.Fprintf(&nodes, `<interface client_id="%s:0"/>`, name)
			fmt.Fprintf(&ends, `<interface_ref client_id="%s:0"/>`, name)
		}
		nodes.WriteString("</node>\n")
	}
	if c.property != "" {
		fmt.Fprintf(&ends, `<property source_id="%s:0" dest_id="%s:0" %s/>`, c.lan[0], c.lan[1], c.property)
	}
	return `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3" xmlns:s="http://patchbay.example.org/rspec/ext/setup/1">
` + nodes.String() + `<link client_id="lan0">` + ends.String() + "</link></rspec>\n"
}

// steps are the services of node a: a first step, and a later one.
func steps(first, later string) string {
	return fmt.Sprintf(`<services><execute shell="sh" command="echo %s >> /var/tmp/log"/><execute shell="sh" command="echo %s >> /var/tmp/log" s:order="1"/></services>`, first, later)
}

const again = `<services><execute shell="sh" command="echo $SLICE_NODES >> /var/tmp/log" s:order="2" s:again="true"/></services>`

// changeRows are kinds of change by up, in their order. Each begins with the request of the one
// before.
var changeRows = []struct {
	name string
	changing
	kept  string   // the nodes with the same identity as before
	texts []string // what up prints
}{
	{"first", changing{nodes: []string{"a=" + steps("1", "2"), "b=" + again}, lan: []string{"a", "b"}}, "", nil},
	{"add a node to a LAN", changing{nodes: []string{"a=" + steps("1", "2"), "b=" + again, "c"}, lan: []string{"a", "b", "c"}}, "a b",
		[]string{"keep    a", "change  b  a step, echo $SLICE_NODES >> /var/tmp/log, runs again, because the nodes change", "add     c"}},
	{"change the capacity", changing{nodes: []string{"a=" + steps("1", "2"), "b=" + again, "c"}, lan: []string{"a", "b", "c"}, property: `capacity="50000"`}, "a b c",
		[]string{"change  a  the link lan0 changed: capacity"}},
	{"change a later step", changing{nodes: []string{"a=" + steps("1", "3"), "b=" + again, "c"}, lan: []string{"a", "b", "c"}, property: `capacity="50000"`}, "a b c",
		[]string{"change  a  execute 2 of 2, echo 3 >> /var/tmp/log, changed and runs again\n"}},
	{"remove a node", changing{nodes: []string{"a=" + steps("1", "3"), "b=" + again}, lan: []string{"a", "b"}}, "a b", []string{"remove  c"}},
	{"change a first step", changing{nodes: []string{"a=" + steps("4", "3"), "b=" + again}, lan: []string{"a", "b"}}, "b",
		[]string{"replace  a  its first setup changed: execute 1 of 2, echo 4 >> /var/tmp/log"}},
}

// TestUpChangesNodesInPlace carries out the rows: up keeps the slivers of what it can change.
func TestUpChangesNodesInPlace(t *testing.T) {
	t.Parallel()
	dir := program.NewSite(t, []string{"user", "alice"})
	program.RemoveSimulatedDelays(t, dir)
	s := serve(t, dir)
	ok := func(args []string, texts ...string) string {
		t.Helper()
		code, out := runCommand(t, append(args, "--url", s.url, "--config", dir)...)
		if code != 0 {
			t.Fatalf("%q: exit status %d:\n%s", args, code, out)
		}
		program.WantTexts(t, out, texts...)
		return out
	}
	identity := func() map[string]string {
		ids := map[string]string{}
		id := ""
		for line := range strings.Lines(ok([]string{"call", "Describe", "--slice", "net", "--json"})) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && key == `"geni_client_id"` {
				id = strings.Trim(value, `",`)
			} else if ok && key == `"geni_sliver_urn"` {
				ids[id] = value
			}
		}
		return ids
	}
	file := filepath.Join(t.TempDir(), "net.xml")
	was := map[string]string{}
	for _, row := range changeRows {
		program.Write(t, file, row.text())
		out := ok([]string{"up", file, "--yes"}, row.texts...)
		now := identity()
		var kept []string
		for _, n := range row.nodes {
			name, _, _ := strings.Cut(n, "=")
			switch {
			case now[name] == "":
				t.Errorf("%s: %s does not exist", row.name, name)
			case was[name] == now[name]:
				kept = append(kept, name)
			}
		}
		if got := strings.Join(kept, " "); got != row.kept {
			t.Errorf("%s: kept %q, want %q:\n%s", row.name, got, row.kept, out)
		}
		t.Logf("%s: %v → %v", row.name, was, now)
		was = now
		ok([]string{"up", file, "--yes"}, "Nothing to change")
	}
}
