package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// changing is a request of the table of changes: nodes on a LAN.
type changing struct {
	nodes    []string // NAME, or NAME=TEXT with the content of its element
	lan      []string
	property string // attributes of the property from the first node of the LAN
	second   []string
}

func (c changing) text() string {
	var b strings.Builder
	b.WriteString(`<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3" xmlns:s="http://patchbay.example.org/rspec/ext/setup/1">` + "\n")
	for _, n := range c.nodes {
		name, inside, _ := strings.Cut(n, "=")
		fmt.Fprintf(&b, "<node client_id=%q exclusive=\"false\">%s", name, inside)
		for i, lan := range [][]string{c.lan, c.second} {
			for _, end := range lan {
				if end == name {
					fmt.Fprintf(&b, `<interface client_id="%s:%d"/>`, name, i)
				}
			}
		}
		b.WriteString("</node>\n")
	}
	for i, lan := range [][]string{c.lan, c.second} {
		if len(lan) == 0 {
			continue
		}
		fmt.Fprintf(&b, `<link client_id="lan%d">`, i)
		for _, end := range lan {
			fmt.Fprintf(&b, `<interface_ref client_id="%s:%d"/>`, end, i)
		}
		if i == 0 && c.property != "" {
			fmt.Fprintf(&b, `<property source_id="%s:0" dest_id="%s:0" %s/>`, lan[0], lan[1], c.property)
		}
		b.WriteString("</link>\n")
	}
	return b.String() + "</rspec>\n"
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
	{"remove a node", changing{nodes: []string{"a=" + steps("1", "3"), "b=" + again}, lan: []string{"a", "b"}}, "a b", []string{"keep    a", "remove  c"}},
	{"change a first step", changing{nodes: []string{"a=" + steps("4", "3"), `b=<sliver_type name="vm"><disk_image name="other"/></sliver_type>` + again}, lan: []string{"a", "b"}}, "b",
		[]string{"replace  a  its first setup changed: execute 1 of 2, echo 4 >> /var/tmp/log"}},
}

// changeInPlace carries out the rows with up. identity returns what a node keeps only if it is not
// replaced, by node.
func changeInPlace(t *testing.T, p *ownSiteUser, identity func(row string) map[string]string) {
	file := filepath.Join(p.dir, "net.xml")
	was := map[string]string{}
	for _, row := range changeRows {
		write(t, file, row.text())
		out := p.runOK([]string{"up", file, "--yes"}, row.texts...)
		now := identity(row.name)
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
		p.runOK([]string{"up", file, "--yes"}, "Nothing to change")
	}
}

// TestUpChangesNodesInPlace: up keeps the slivers of what it can change.
func TestUpChangesNodesInPlace(t *testing.T) {
	p := newOwnSiteUser(t)
	changeInPlace(t, p, func(string) map[string]string {
		ids := map[string]string{}
		id := ""
		for line := range strings.Lines(p.runOK([]string{"call", "Describe", "--slice", "net", "--json"})) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && key == `"geni_client_id"` {
				id = strings.Trim(value, `",`)
			} else if ok && key == `"geni_sliver_urn"` {
				ids[id] = value
			}
		}
		return ids
	})
}
