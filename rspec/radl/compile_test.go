package radl_test

import (
	"strings"
	"testing"

	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/rspec/radl"
)

func text(name, value string) radl.Feature {
	return radl.Feature{Name: name, Op: radl.Equal, Value: radl.Value{Kind: radl.Text, Text: value}}
}

// TestCompile compiles two nodes on one network, without a site.
func TestCompile(t *testing.T) {
	d := &radl.Document{
		Networks: []radl.Block{{ID: "net", Features: []radl.Feature{text("outbound", "yes"), text("cidr", "10.0.*.0/24")}}},
		Systems: []radl.Block{{ID: "node", Features: []radl.Feature{
			{Name: "memory.size", Op: radl.AtLeast, Value: radl.Value{Kind: radl.Number, Number: "512", Unit: "M"}},
			text("net_interface.0.connection", "net"), text("net_interface.0.dns_name", "n#N#"), text("disk.0.os.credentials.password", "sesame"),
		}}},
		Recipes: []radl.Recipe{{ID: "node", Text: "- tasks:\n  - debug:\n"}},
		Deploys: []radl.Deploy{{System: "node", Count: 2}},
	}
	r, problems := radl.Compile(d, radl.Options{Nodes: []string{"node-3"}})
	if r == nil || len(problems) != 1 || !problems[0].IsRemark() {
		t.Fatalf("problems %v", problems)
	}
	written := string(r.Write())
	if strings.Contains(written, "sesame") {
		t.Errorf("the password is in the request:\n%s", written)
	}
	if step := r.Nodes[1].Steps[0]; step.Language != "ansible" || step.Stage != 1 || string(step.Body) != "- hosts: all\n  become: yes\n  tasks:\n  - debug:\n" {
		t.Errorf("step %+v, body %q", step, step.Body)
	}
	for i := range r.Nodes {
		r.Nodes[i].Steps = nil
	}
	read, refused := rspec.Check(r.Write(), rspec.ReadOptions{CheckSchemas: true})
	if read == nil || len(read.Findings) > 0 {
		t.Fatalf("refused %v, findings %v", refused, read.Findings)
	}
	n := read.Nodes[1]
	if n.ClientID != "node-5" || !n.RoutableIP || len(n.Require) != 1 || n.Require[0].String() != "memory.size >= 512M" {
		t.Errorf("%+v", n)
	}
	if a := n.Interfaces[0].Addresses; len(a) != 1 || a[0].String() != "10.0.0.2/24" {
		t.Errorf("addresses %v", a)
	}
	if len(read.Links) != 1 || len(read.Links[0].Interfaces) != 2 {
		t.Errorf("links %+v", read.Links)
	}
	if got := r.Nodes[1].Interfaces[0].DNSNames; len(got) != 1 || got[0] != "n5" {
		t.Errorf("DNS names %q", got)
	}
	if want := (generate.Origin{ID: "node", Ordinal: 5}); r.Nodes[1].Origin.ID != want.ID || r.Nodes[1].Origin.Ordinal != want.Ordinal {
		t.Errorf("origin %+v", r.Nodes[1].Origin)
	}
}
