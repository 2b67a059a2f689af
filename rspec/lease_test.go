package rspec

import (
	"fmt"
	"strings"
	"testing"
)

// TestLeases checks which times the nodes of a request get from NITOS' leases, which leases are refused, and what
// is only copied.
func TestLeases(t *testing.T) {
	const (
		l1    = `<ol:lease leaseID="l1" valid_from="2030-01-01T10:00:00Z" valid_until="2030-01-01T12:00:00+01:00"/>`
		from1 = "10:00-11:00 "
		a1    = `<node client_id="a"><ol:lease_ref id_ref="l1"/></node>`
		b     = `<node client_id="b"/>`
		other = `<node client_id="o" component_manager_id="urn:publicid:IDN+other.org+authority+cm"><ol:lease_ref id_ref="l1"/></node>`
	)
	lease := func(attrs string) string { return `<ol:lease ` + attrs + `/>` }
	times := ` valid_from="2030-01-01T10:00:00Z" valid_until="2030-01-01T11:00:00Z"`
	for _, tt := range []struct{ rule, in, want string }{
		{"no lease", b, "- "},
		{"a node that refers to a lease", l1 + a1, from1},
		{"another node does not", l1 + a1 + b, from1 + "- "},
		{"the lease may follow", a1 + l1, from1},
		{"a lease named by client_id", lease(`client_id="l1"`+times) + a1, from1},
		{"by id", lease(`id="l1"`+times) + a1, from1},
		{"by both leaseID and id", lease(`id="l1" leaseID="x"`+times) + a1, from1},
		{"leaseREF", l1 + `<node client_id="a"><ol:leaseREF leaseIDRef="l1"/></node>`, from1},
		{"two references to one lease", l1 + `<node client_id="a"><ol:lease_ref id_ref="l1"/><ol:lease_ref leaseREF="l1"/></node>`, from1},
		{"no offset is UTC, fractions are cut", lease(`leaseID="l1" valid_from="2030-01-01T10:00:00.9" valid_until="2030-01-01T11:00:00"`) + a1, from1},
		{"a node of another aggregate", l1 + other + b, "- "},
		{"a mistake in a lease of another aggregate", lease(`leaseID="l1" valid_from="soon"`) + other + b, "- "},
		{"an unknown lease", "\n" + a1, `! line 2: node "a" refers to the lease "l1", which the request does not have`},
		{"no name", "\n" + `<node client_id="a"><ol:lease_ref/></node>`, `! line 2: node "a" refers to the lease ""`},
		{"two leases", l1 + lease(`leaseID="l2"`+times) + `<node client_id="a"><ol:lease_ref id_ref="l1"/><ol:lease_ref id_ref="l2"/></node>`, `! line 1: node "a" refers to two leases, "l1" and "l2"; write a node for each`},
		{"no time", "\n" + lease(`leaseID="l1" valid_from="tomorrow" valid_until="2030-01-01T11:00:00Z"`) + a1, `! line 2: the lease "l1" has valid_from="tomorrow"; write a time such as`},
		{"no end", lease(`leaseID="l1" valid_from="2030-01-01T11:00:00Z"`) + a1, `! line 1: the lease "l1" has valid_until=""`},
		{"the end at the start", lease(`leaseID="l1" valid_from="2030-01-01T11:00:00Z" valid_until="2030-01-01T12:00:00+01:00"`) + a1, `! line 1: the lease "l1" does not end after it begins`},
		{"a lease without a node", l1 + b, `- line 1: no node refers to the lease "l1"; refer to it by <lease_ref id_ref> in nodes; it is ignored, but copied to the manifest`},
		{"a channel", l1 + a1 + `<ol:channel component_name="2"/>`, from1 + "line 1: the request asks for a channel, which this aggregate does not offer; it is ignored, but copied to the manifest"},
		{"a lease in another namespace", b + `<lease xmlns="http://schema.mytestbed.net/sfa/rspec/1" leaseID="x"/>`, `- line 1: the request has a lease in the namespace "http://schema.mytestbed.net/sfa/rspec/1", which is not read here`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			text := []byte(strings.Replace(string(request(tt.in)), "<rspec ", `<rspec xmlns:ol="`+nitosSpace+`" `, 1))
			r, err := ParseRequest(text, ours())
			got := ""
			if err != nil {
				got = "! " + err.Error()
			} else {
				for _, n := range r.Nodes {
					if n.Lease == nil {
						got += "- "
						continue
					}
					got += fmt.Sprintf("%s-%s ", n.Lease.From.Format("15:04"), n.Lease.Until.Format("15:04"))
				}
				got += strings.Join(Lines(r.Notices), "; ")
			}
			if got != tt.want && (!strings.HasPrefix(got, tt.want) || strings.HasSuffix(tt.want, " ")) {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
			stored := ours()
			stored.Stored = true
			if _, err := ParseRequest(text, stored); err != nil {
				t.Errorf("stored: %v", err)
			}
		})
	}
}
