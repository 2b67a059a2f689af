package rspec

import (
	"fmt"
	"strings"
	"testing"
)

// TestNamesOfNodes checks which client_ids and DNS names are refused, and which get a remark with the name that
// reaches the node.
func TestNamesOfNodes(t *testing.T) {
	many := []string{"1", "2", "3", "4", "5", "6", "7"}
	for _, tt := range []struct {
		rule, dns string
		ids       []string
		refused   string   // in the message; empty if accepted
		remarks   []string // in each remark
	}{
		{"names", "www.example.org", []string{"web", "my_server", "Client", "a.b"}, "", nil},
		{"the node itself", "", []string{"web", "localhost"}, `line 2: node "localhost" has a client_id that is a name of each node itself`, nil},
		{"the node itself, with case and a domain", "", []string{"LocalHost.LocalDomain"}, "a name of each node itself", nil},
		{"an address of the node itself", "", []string{"ip6-loopback"}, "a name of each node itself", nil},
		{"the DNS name of the node itself", "localhost", []string{"a"}, "use another name, since this one is of each node itself", nil},
		{"its domain", "a.localdomain", []string{"a"}, "use another name", nil},
		{"its first part", "Localhost.example.org", []string{"a"}, "use another name", nil},
		{"a number", "", []string{"10.1", "012"}, "", []string{`node "10.1" cannot be reached by its client_id: programs read it as an address; use its name 10-1`, "use its name node-012"}},
		{"long", "", []string{strings.Repeat("l", 64)}, "", []string{"more than 63 characters without a dot, or more than 253; use its name lll"}},
		{"not ASCII", "", []string{"münchen"}, "", []string{"other characters than ASCII letters"}},
		{"equal without case", "", []string{"pc", "PC"}, "", []string{"another one equals it without case, or it is a group of Ansible; use its name pc-2", "use its name pc-3"}},
		{"a group of Ansible", "", []string{"all"}, "", []string{"use its name node-all"}},
		{"many", "", many, "", []string{"node-1", "node-2", "node-3", "node-4", "node-5", `node "6" and perhaps later ones`}},
	} {
		var b strings.Builder
		b.WriteString(`<rspec xmlns="http://www.geni.net/resources/rspec/3" xmlns:net="http://patchbay.example.org/rspec/ext/net/1" type="request">`)
		for i, id := range tt.ids {
			fmt.Fprintf(&b, `<node client_id="%s"><interface client_id="i%d">`, id, i)
			if tt.dns != "" && i == 0 {
				fmt.Fprintf(&b, `<net:dns name="%s"/>`, tt.dns)
			}
			b.WriteString("</interface></node>\n")
		}
		b.WriteString("</rspec>")
		r, err := ParseRequest([]byte(b.String()), ReadOptions{})
		if tt.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%s: %v", tt.rule, err)
			}
			if _, err := ParseRequest([]byte(b.String()), ReadOptions{Stored: true}); err != nil {
				t.Errorf("%s: a stored request is refused: %v", tt.rule, err)
			}
			continue
		}
		if err != nil || len(r.Notices) != len(tt.remarks) {
			t.Errorf("%s: %v, %v", tt.rule, err, r)
			continue
		}
		for i, want := range tt.remarks {
			if got := r.Notices[i].String(); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", tt.rule, got, want)
			}
		}
	}
}
