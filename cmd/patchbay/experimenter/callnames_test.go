package experimenter

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client/experiment"
	"patchbay/am/client/session"
	"patchbay/am/display"
)

func TestArgumentsThatNameNodes(t *testing.T) {
	for line, want := range map[string]string{
		"Delete c":                           "c",
		"Status":                             "",
		"Renew 2h a b":                       "a b",
		"Renew":                              "",
		"PerformOperationalAction restart c": "c",
		"Describe urn:a c":                   "urn:a c",
		"Allocate request.xml":               "",
		"Shutdown c":                         "",
		"Cancel c":                           "",
	} {
		f := strings.Fields(line)
		r := callRequest{api: 3, method: f[0], args: f[1:]}
		before, targets := r.targets()
		if got := strings.Join(targets, " "); got != want {
			t.Errorf("%s: targets %q, want %q", line, got, want)
		}
		if got := strings.Join(append([]string{f[0]}, append(before, targets...)...), " "); got != line {
			t.Errorf("%s: together %q", line, got)
		}
	}
}

func TestNodesAreNamedByTheirManifest(t *testing.T) {
	nodes, err := nodesOf(`<rspec xmlns="http://www.geni.net/resources/rspec/3"><node client_id="web" sliver_id="urn:1"/><node client_id="db" sliver_id="urn:2"/>`+
		`<node client_id="db" sliver_id="urn:3"/><node client_id="elsewhere"/><node client_id="web" sliver_id="urn:1"/></rspec>`, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sliverOf(nodes, "web"); got != "urn:1" || err != nil {
		t.Errorf("web is %q, %v", got, err)
	}
	for name, want := range map[string]string{
		"db":        `several nodes are called "db"; give the URN of one: urn:2, urn:3`,
		"wbe":       `the slice has no node "wbe" here; did you mean web? There are: web, db, db, web`,
		"elsewhere": `the slice has no node "elsewhere" here; there are: web, db, db, web`,
	} {
		if _, err := sliverOf(nodes, name); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	for manifest, isBad := range map[string]bool{"": false, `<rspec xmlns="http://www.geni.net/resources/rspec/3"/>`: false, "<rspec><node": true} {
		if nodes, err := nodesOf(manifest, ""); (err != nil) != isBad || len(nodes) > 0 {
			t.Errorf("%q: %v, %v", manifest, nodes, err)
		}
	}
	if _, err := sliverOf(nil, "web"); err == nil || !strings.Contains(err.Error(), "the slice has no nodes here") {
		t.Errorf("no nodes: %v", err)
	}
}

// TestLoginCommandsWork proves that the port of a node comes before its gateway, and that
// the gateway gets the key too. In a delegated slice, only an account of the caller counts.
func TestLoginCommandsWork(t *testing.T) {
	const proxy = `<p:proxy xmlns:p="http://jfed.iminds.be/proxy/1.0" proxy="gateway@am.example.org:20000" for="alice@n1-f3:22"/>`
	const port = `<login authentication="ssh-keys" hostname="am.example.org" port="20011" username="alice"/>`
	const inside = `<login authentication="ssh-keys" hostname="n1-f3" port="22" username="alice"/>`
	const ofBob = `<login authentication="ssh-keys" hostname="am.example.org" port="20011" username="bob"/>`
	const ofAdmin = `<login authentication="ssh-keys" hostname="am.example.org" port="20011" username="admin2"/>`
	const throughGateway = `ssh -i users/alice/id -o 'ProxyCommand=ssh -i users/alice/id -W '\''[%h]:%p'\'' -p 20000 gateway@am.example.org' alice@n1-f3`
	const ready = `ssh n1`
	for _, tt := range []struct {
		name, services, user, key string
		delegated                 bool
		call, status              string
	}{
		{"both", port + inside + proxy, "alice", "users/alice/id", false, "ssh -i users/alice/id -p 20011 alice@am.example.org", ready},
		{"its gateway only", inside + proxy, "alice", "users/alice/id", false, throughGateway, ready},
		{"no key", port, "alice", "", false, "ssh -p 20011 alice@am.example.org", ready},
		{"none that is safe", `<login authentication="ssh-keys" hostname="-oProxyCommand=id" port="22" username="alice"/>`, "alice", "", false, "", "(not safe to use: alice@-oProxyCommand=id:22)"},
		{"another name at the aggregate", port, "bob", "", false, "ssh -p 20011 alice@am.example.org", ready},
		{"a partner's own", port + ofBob, "Bob", "", true, "ssh -p 20011 bob@am.example.org", ready},
		{"a partner without account", port, "bob", "", true, "(no account of bob on the node)", "(no account of bob on the node)"},
		{"a partner with a reserved name", port + ofAdmin, "admin", "", true, "ssh -p 20011 admin2@am.example.org", ready},
		{"a partner, before there are accounts", "", "bob", "", true, "", ""},
	} {
		manifest := `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="manifest"><node client_id="n1" sliver_id="urn:1"><interface client_id="n1:0"><ip address="10.0.0.1"/></interface><services>` + tt.services +
			`</services></node><link client_id="lan"><interface_ref client_id="n1:0"/></link></rspec>`
		a := answer{nodes: nodesBySliver(manifest, session.AccountOf(tt.user)), key: tt.key}
		if tt.delegated {
			a.account = session.AccountOf(tt.user)
		}
		sliver := xmlrpc.Struct{{Name: "geni_sliver_urn", Value: "urn:1"}}
		if d := cmp.Diff([]string{tt.call, "lan 10.0.0.1"}, []string{a.login(sliver), a.addresses(sliver)}); d != "" {
			t.Errorf("call, %s: %s", tt.name, d)
		}
		s := &opened{Session: &session.Session{Dir: "/users/" + tt.user, Choice: session.Selection{Site: new(session.ChosenSite)}}}
		hosts := experiment.Hosts("s", slices.Collect(maps.Values(a.nodes)))
		if d := cmp.Diff(tt.status, strings.TrimPrefix(s.loginOf(hosts[0], tt.delegated), display.Program+" ")); d != "" {
			t.Errorf("status, %s: %s", tt.name, d)
		}
	}
	if nodes := nodesBySliver("<rspec", "alice"); len(nodes) > 0 {
		t.Errorf("no manifest: %v", nodes)
	}
}
