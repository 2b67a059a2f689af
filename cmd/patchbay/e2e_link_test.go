package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/testkit/wait"
)

const wiredInventory = `
provider: simulated
default_sliver_type: raw-pc
sliver_types: [{name: raw-pc}]
links: [{name: core, capacity: 1G}]
vlans: [101..109]
link_addresses: 10.128.0.0/16
public_addresses: [192.0.2.10..192.0.2.11]
components:
  - {name: pc1, exclusive: true, interfaces: [{name: eth1, link: core, component_id: "urn:publicid:IDN+testbed.example.org+interface+port-7"}]}
  - {name: pc2, exclusive: true, interfaces: [{name: eth2, link: core}]}
`

const wiredRequest = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">
  <node client_id="server"><e:routable_control_ip xmlns:e="http://www.protogeni.net/resources/rspec/ext/emulab/1"/>
    <interface client_id="server:0"/></node>
  <node client_id="client"><interface client_id="client:0"/></node>
  <link client_id="lan"><interface_ref client_id="server:0"/><interface_ref client_id="client:0"/>
    <property source_id="server:0" dest_id="lan" capacity="100000"/></link>
</rspec>`

// TestOutsideLinks takes two linked nodes through the served program and its
// simulated provider, which is told what their interfaces get, and whose
// hardware addresses are in the manifest, before and after a restart.
func TestOutsideLinks(t *testing.T) {
	f := newFederation(t, "fed.example.org")
	root := f.issue(f.urn("authority", "sa"), true, nil)
	user := f.issue(f.urn("user", "flooby"), false, root)
	slice := f.issue(f.urn("slice", "wired"), false, root)
	cred := signed(f.sign(statement{owner: user, target: slice, privileges: []string{"*"}}, root))
	s := newServed(t, "testbed.example.org", f, root)
	s.settings("timing: {make: 50ms, start: 50ms, stop: 20ms, restart: 20ms, users: 20ms, remove: 20ms}\n")
	if err := os.WriteFile(filepath.Join(s.dir, "inventory.yaml"), []byte(wiredInventory), 0o644); err != nil {
		t.Fatal(err)
	}
	s.start()
	c := s.as(user, false)
	a, r, err := c.Allocate(t.Context(), slice.urn, cred, wiredRequest, client.Options{})
	if err != nil || r.Code != am.Success {
		t.Fatal(r.Output, err)
	}
	if strings.Contains(a.RSpec, "mac_address") {
		t.Errorf("hardware addresses before there are nodes:\n%s", a.RSpec)
	}
	if _, r, _ = c.Provision(t.Context(), []string{slice.urn}, cred, client.Options{}); r.Code != am.Success {
		t.Fatal(r.Output)
	}
	all := func(state string) bool {
		a, _, _ := c.Status(t.Context(), []string{slice.urn}, cred, client.Options{})
		for _, x := range a.Slivers {
			if x.Operational != state {
				return false
			}
		}
		return len(a.Slivers) == 2
	}
	wait.Until(t, "made", func() bool { return all("geni_notready") })
	if _, r, _ = c.PerformOperationalAction(t.Context(), []string{slice.urn}, cred, "geni_start", client.Options{}); r.Code != am.Success {
		t.Fatal(r.Output)
	}
	wait.Until(t, "ready", func() bool { return all("geni_ready") })

	describe := func() string {
		t.Helper()
		a, r, err := c.Describe(t.Context(), []string{slice.urn}, cred, client.Options{})
		if err != nil || r.Code != am.Success {
			t.Fatal(r.Output, err)
		}
		return a.RSpec
	}
	manifest := describe()
	macs := regexp.MustCompile(`<interface client_id="(server|client):0" mac_address="(02:[0-9a-f:]{14})"`).FindAllStringSubmatch(manifest, -1)
	if len(macs) != 2 || macs[0][2] == macs[1][2] {
		t.Errorf("hardware addresses %q", macs)
	}
	for _, want := range []string{
		`component_id="urn:publicid:IDN+testbed.example.org+interface+port-7"`, `component_id="urn:publicid:IDN+testbed.example.org+interface+pc2:eth2"`,
		`address="10.128.0.1" netmask="255.255.255.0" type="ipv4"`, `address="10.128.0.2" netmask="255.255.255.0" type="ipv4"`,
		`vlantag="101"`, `ipv4="192.0.2.10"`,
	} {
		if !strings.Contains(manifest, want) {
			t.Errorf("the manifest lacks %s:\n%s", want, manifest)
		}
	}
	// What the provider was told is in its log, as JSON in JSON.
	told := readFile(t, filepath.Join(s.dir, "providers", "simulated.state", "log"))
	for _, want := range []string{
		`{"client_id":"server:0","link":"lan","slice":"` + slice.urn + `","component":"eth1","vlan":101,"addresses":["10.128.0.1/24"],"properties":[{"capacity":100000}]}`,
		`{"client_id":"client:0","link":"lan","slice":"` + slice.urn + `","component":"eth2","vlan":101,"addresses":["10.128.0.2/24"]}`,
		`{"role":"control","public_address":"192.0.2.10"}`,
	} {
		if !strings.Contains(strings.ReplaceAll(told, `\"`, `"`), want) {
			t.Errorf("the provider was not told %s:\n%s", want, told)
		}
	}

	s.stop()
	s.start()
	c = s.as(user, false)
	after := describe()
	stamp := regexp.MustCompile(` generated="[^"]*"`)
	if before, after := stamp.ReplaceAllString(manifest, ""), stamp.ReplaceAllString(after, ""); before != after {
		t.Errorf("before the restart:\n%s\nafter it:\n%s", before, after)
	}
}
