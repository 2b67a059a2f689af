package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
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
	{"change the latency", changing{nodes: []string{"a=" + steps("1", "2"), "b=" + again, "c"}, lan: []string{"a", "b", "c"}, property: `capacity="50000" latency="20"`}, "a b c",
		[]string{"change  a  the link lan0 changed: latency"}},
	{"change the loss", changing{nodes: []string{"a=" + steps("1", "2"), "b=" + again, "c"}, lan: []string{"a", "b", "c"}, property: `capacity="50000" latency="20" packet_loss="1"`}, "a b c",
		[]string{"change  a  the link lan0 changed: packet loss"}},
	{"add a second LAN", changing{nodes: []string{"a=" + steps("1", "2"), "b=" + again, "c"}, lan: []string{"a", "b", "c"}, second: []string{"a", "c"}}, "a b c",
		[]string{"it joins the link lan1"}},
	{"change a later step", changing{nodes: []string{"a=" + steps("1", "3"), "b=" + again, "c"}, lan: []string{"a", "b", "c"}, second: []string{"a", "c"}}, "a b c",
		[]string{"change  a  execute 2 of 2, echo 3 >> /var/tmp/log, changed and runs again\n"}},
	{"rename a node", changing{nodes: []string{"a=" + steps("1", "3"), "b=" + again, "d"}, lan: []string{"a", "b", "d"}, second: []string{"a", "d"}}, "a b",
		[]string{"keep    a", "add     d", "remove  c  it is no longer in the request"}},
	{"remove a node from a LAN", changing{nodes: []string{"a=" + steps("1", "3"), "b=" + again}, lan: []string{"a", "b"}}, "a b",
		[]string{"change  a  it leaves the link lan1", "remove  d"}},
	{"change the image", changing{nodes: []string{"a=" + steps("1", "3"), `b=<sliver_type name="vm"><disk_image name="other"/></sliver_type>` + again}, lan: []string{"a", "b"}}, "a",
		[]string{"keep     a", "replace  b  its sliver type changed: any → vm"}},
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

const scaledRADL = `network net (cidr = '10.9.0.0/24' and outports = '80/tcp')
system front (net_interface.0.connection = 'net')
system wn (net_interface.0.connection = 'net')
configure front (
@begin
- tasks:
  - shell: echo "{{ groups['wn'] | join(' ') }}" >>/var/tmp/workers
@end
)
configure wn (
@begin
- tasks:
  - shell: echo once >>/var/tmp/log
@end
)
contextualize (
  system wn configure wn step 1
  system front configure front step 2
)
deploy wn @input.Workers@
deploy front 1
`

const scaledBlueprint = `name: shop
components:
  web:
    type: tier
    initialSize: %s
    requires:
      run: {type: ShellScript, content: web.sh}
      loadbalancer: {fulfillment: balancer, publicPort: 8080, membersPort: 80}
  balancer:
    type: loadbalancer
`

// TestUpScalesSources: with one worker more, the nodes of RADL and of blueprints stay, with the login of
// a partner, and those that learn of the new one run a step again.
func TestUpScalesSources(t *testing.T) { scaleSources(t, newOwnSiteUser(t), func(_, _ string) {}) }

// scaleSources calls look with a slice and its number of workers after each up.
func scaleSources(t *testing.T, p *ownSiteUser, look func(slice, n string)) {
	radl, blueprint := filepath.Join(p.dir, "cluster.radl"), filepath.Join(p.dir, "heat.yaml")
	site := p.state()
	if p.sudo {
		site = p.rootsSite()
	}
	write(t, radl, scaledRADL)
	write(t, filepath.Join(p.dir, "web.sh"), page)
	up := map[string]func(n string, texts ...string){
		"cluster": func(n string, texts ...string) {
			p.runOK([]string{"up", radl, "--set", "Workers=" + n, "--yes"}, texts...)
		},
		"heat": func(n string, texts ...string) {
			write(t, blueprint, fmt.Sprintf(scaledBlueprint, n))
			p.runOK([]string{"up", blueprint, "--yes"}, texts...)
		},
	}
	// nodes returns the sliver of each node, with when its steps began.
	nodes := func(slice string) map[string]string {
		var answer struct {
			Value struct {
				Slivers []struct {
					Node     string `json:"geni_client_id"`
					URN      string `json:"geni_sliver_urn"`
					Services []struct{ What, Began, State string }
				} `json:"geni_slivers"`
			}
		}
		out := strings.ReplaceAll(p.runOK([]string{"call", "Status", "--json", "--slice", slice}), "patchbay_services", "services")
		if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &answer); err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, n := range answer.Value.Slivers {
			all[n.Node] = n.URN
			for _, s := range n.Services {
				all[n.Node] += " " + s.What + " " + s.State + " " + s.Began
			}
		}
		return all
	}
	for _, tt := range []struct {
		slice, again string   // again is the node that runs a step again
		kept         []string // the others that stay
		plan         []string
	}{
		{"cluster", "front-0", []string{"wn-0", "wn-1"}, []string{"change  front-0  a step, configure front, runs again, because the nodes change", "keep    wn-0", "keep    wn-1", "add     wn-2"}},
		{"heat", "balancer", []string{"web-0", "web-1"}, []string{"change  balancer", "keep    web-0", "keep    web-1", "add     web-2"}},
	} {
		up[tt.slice]("2")
		p.run("user", "bob", "--config", site) // exists in the second round
		p.runOK([]string{"share", tt.slice, "bob"})
		look(tt.slice, "2")
		was := nodes(tt.slice)
		up[tt.slice]("3", tt.plan...)
		now := nodes(tt.slice)
		look(tt.slice, "3")
		for _, n := range tt.kept {
			if was[n] != now[n] || now[n] == "" {
				t.Errorf("%s: %s was %s, and is %s", tt.slice, n, was[n], now[n])
			}
		}
		before, _, _ := strings.Cut(was[tt.again], " ")
		after, _, _ := strings.Cut(now[tt.again], " ")
		if before != after || was[tt.again] == now[tt.again] {
			t.Errorf("%s: %s was %s, and is %s", tt.slice, tt.again, was[tt.again], now[tt.again])
		}
		manifest := p.runOK([]string{"call", "Describe", "--slice", tt.slice, "-o", "-"})
		nodes := strings.Split(manifest, "<node ")
		nodes = slices.DeleteFunc(nodes, func(n string) bool { return !strings.Contains(n, `username="bob"`) })
		if n := len(nodes); n != 3 {
			t.Errorf("%s: bob has a login on %d nodes, want the 3 that stay", tt.slice, n)
		}
		up[tt.slice]("3", "Nothing to change")
		up[tt.slice]("2", "keep    "+tt.kept[0], "remove  ")
	}
}
