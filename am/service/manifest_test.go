package service

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

func TestSplitDoor(t *testing.T) {
	type door struct {
		user, host string
		port       int
	}
	for in, want := range map[string]door{
		"pc1.example.org:22":         {"", "pc1.example.org", 22},
		"me@10.1.2.3:2022":           {"me", "10.1.2.3", 2022},
		"[2001:db8::1]:22":           {"", "2001:db8::1", 22},
		"a@b@host.example.org:1":     {"a@b", "host.example.org", 1},
		"host":                       {},
		"host:":                      {},
		":22":                        {},
		"host:0":                     {},
		"host:65536":                 {},
		"host:ssh":                   {},
		"":                           {},
		"[]:22":                      {},
		strings.Repeat("x", 9) + ":": {},
	} {
		user, host, port, ok := splitEndpoint(in)
		if got := (door{user, host, port}); ok != (want.port != 0) || ok && got != want {
			t.Errorf("splitEndpoint(%q) = %v, %v; want %v", in, got, ok, want)
		}
	}
}

func testInventory(t *testing.T) *inventory.Inventory {
	t.Helper()
	inv, err := inventory.Parse(inventory.SimulatedText("example.org"), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

// inForce returns the value of Config.Inventory.
func inForce(v *inventory.Inventory) *atomic.Pointer[inventory.Inventory] {
	p := &atomic.Pointer[inventory.Inventory]{}
	p.Store(v)
	return p
}

// TestFactsOfLogins checks the logins, accounts and gateways of a manifest.
func TestFactsOfLogins(t *testing.T) {
	s := &Service{cfg: Config{Inventory: inForce(testInventory(t))}}
	alice := am.Account{Login: "alice", User: urn.MustParse("urn:publicid:IDN+example.org+user+alice"), Keys: []string{"k"}}
	bob := am.Account{Login: "bob", User: urn.MustParse("urn:publicid:IDN+example.org+user+bob"), Keys: []string{"l"}}
	for _, tt := range []struct {
		rule     string
		accounts []am.Account
		seen     am.Observed
		logins   []rspec.Login
		proxies  []rspec.Proxy
	}{
		{"no keys, no login", nil, am.Observed{Logins: []string{"h:22"}}, nil, nil},
		{"no door yet, no login", []am.Account{alice}, am.Observed{}, nil, nil},
		{"one login an account", []am.Account{alice, bob}, am.Observed{Logins: []string{"h:2201"}},
			[]rspec.Login{{Hostname: "h", Port: 2201, Username: "alice"}, {Hostname: "h", Port: 2201, Username: "bob"}}, nil},
		{"a door with its own user", []am.Account{alice}, am.Observed{Logins: []string{"root@h:22"}},
			[]rspec.Login{{Hostname: "h", Port: 22, Username: "root"}}, nil},
		{"a gateway is a login, too, and each proxy names both as the logins do", []am.Account{alice}, am.Observed{Logins: []string{"10.0.0.2:22"}, Proxy: "gw@g:2222"},
			[]rspec.Login{{Hostname: "10.0.0.2", Port: 22, Username: "alice"}, {Hostname: "g", Port: 2222, Username: "gw"}},
			[]rspec.Proxy{{Proxy: "gw@g:2222", For: "alice@10.0.0.2:22"}}},
		{"a door on the gateway's host needs no gateway", []am.Account{alice}, am.Observed{Logins: []string{"G:20001"}, Proxy: "gw@g:2222"},
			[]rspec.Login{{Hostname: "G", Port: 20001, Username: "alice"}}, nil},
		{"a node may have both, the direct door first", []am.Account{alice}, am.Observed{Logins: []string{"g.example.org:20001", "n1:22"}, Proxy: "gw@g.example.org.:2222"},
			[]rspec.Login{{Hostname: "g.example.org", Port: 20001, Username: "alice"}, {Hostname: "n1", Port: 22, Username: "alice"}, {Hostname: "g.example.org.", Port: 2222, Username: "gw"}},
			[]rspec.Proxy{{Proxy: "gw@g.example.org.:2222", For: "alice@n1:22"}}},
		{"one address in two spellings is one host", []am.Account{alice}, am.Observed{Logins: []string{"[2001:db8:0::1]:22"}, Proxy: "gw@[2001:db8::1]:2222"},
			[]rspec.Login{{Hostname: "2001:db8:0::1", Port: 22, Username: "alice"}}, nil},
		{"a gateway to nowhere is not listed", nil, am.Observed{Logins: []string{"h:22"}, Proxy: "gw@g:2222"}, nil, nil},
	} {
		f := s.nodeFacts(s.Inventory(), &am.Sliver{Desired: am.Desired{Accounts: tt.accounts}, Observed: tt.seen})
		if d := cmp.Diff(tt.logins, f.Logins) + cmp.Diff(tt.proxies, f.Proxies); d != "" {
			t.Errorf("%s:\n%s", tt.rule, d)
		}
		if len(f.Users) != len(tt.accounts) {
			t.Errorf("%s: %d users, want %d", tt.rule, len(f.Users), len(tt.accounts))
		}
	}
}

func TestFactsOfHosts(t *testing.T) {
	s := &Service{cfg: Config{Inventory: inForce(testInventory(t))}}
	f := s.nodeFacts(s.Inventory(), &am.Sliver{Hostname: "n", Observed: am.Observed{Addresses: []string{"192.0.2.1", "2001:db8::1", "nonsense"}}})
	if d := cmp.Diff([]rspec.Host{{Name: "n", IPv4: "192.0.2.1"}}, f.Hosts); d != "" {
		t.Error(d)
	}
}

// TestFactsOfInterfaces checks the interfaces of a manifest. A public address is listed alone,
// because it is the address of the node.
func TestFactsOfInterfaces(t *testing.T) {
	s := &Service{cfg: Config{Inventory: inForce(testInventory(t))}}
	nic := urn.MustParse("urn:publicid:IDN+example.org+interface+pc1:eth1")
	x := am.Sliver{
		Hostname:      "n",
		PublicAddress: netip.MustParseAddr("192.0.2.10"),
		Interfaces: []am.Interface{
			{ClientID: "n:0", Link: "l", Component: nic, VLAN: 7, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}},
			{ClientID: "n:1"},
		},
		Observed: am.Observed{Addresses: []string{"192.0.2.10", "10.9.9.9"}, MACs: map[string]string{"n:1": "020000000001"}},
	}
	f := s.nodeFacts(s.Inventory(), &x)
	if d := cmp.Diff([]rspec.Host{{Name: "n", IPv4: "192.0.2.10"}}, f.Hosts); d != "" {
		t.Error(d)
	}
	want := map[string]rspec.InterfaceFacts{
		"n:0": {ComponentID: nic, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}},
		"n:1": {MAC: "020000000001"},
	}
	if d := cmp.Diff(want, f.Interfaces, cmpopts.EquateComparable(netip.Prefix{})); d != "" {
		t.Error(d)
	}
	if f.Sliver != nil || f.VNode != nil {
		t.Error("the manifest has extensions that the site does not enable")
	}
}

// TestStateWordsOfSliverInfo checks the words for states. GENI's readyToLogin.py
// --readyonly shows a node only if its state is "ready".
func TestStateWordsOfSliverInfo(t *testing.T) {
	s := &Service{cfg: Config{Inventory: inForce(testInventory(t)), ManifestExtensions: []string{SliverInfo}}}
	for operational, want := range map[am.OperationalState]string{am.Ready: "ready", am.NotReady: "notready", am.PendingAllocation: "pending_allocation", am.Failed: "failed"} {
		if f := s.nodeFacts(s.Inventory(), &am.Sliver{Status: am.Status{Allocation: am.Provisioned, Operational: operational}}); f.Sliver.State != want {
			t.Errorf("%s is %q, want %q", operational, f.Sliver.State, want)
		}
	}
}

func TestFactsOfExtensions(t *testing.T) {
	s := &Service{cfg: Config{Inventory: inForce(testInventory(t)), ManifestExtensions: []string{SliverInfo, VNode}}}
	made := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	alice := urn.MustParse("urn:publicid:IDN+example.org+user+alice")
	f := s.nodeFacts(s.Inventory(), &am.Sliver{
		Component: urn.MustParse("urn:publicid:IDN+example.org+node+pc13"), Creator: alice, Created: made, Expires: made.Add(time.Hour),
		Status: am.Status{Allocation: am.Provisioned, Operational: am.Ready}, Error: "an install failed",
	})
	if d := cmp.Diff(&rspec.SliverInfo{Creator: alice, Created: made, Expires: made.Add(time.Hour), State: "ready", Error: "an install failed", ResourceID: "pc13"}, f.Sliver); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&rspec.VNode{Name: "pc13", HardwareType: "pc-large"}, f.VNode); d != "" {
		t.Error(d)
	}
}

func TestGrantedFeaturesAreInTheManifest(t *testing.T) {
	s := &Service{cfg: Config{Inventory: inForce(testInventory(t))}}
	f := s.nodeFacts(s.Inventory(), &am.Sliver{Features: []am.Feature{{Feature: "cpu.count", Value: "4"}, {Feature: "location.country", Value: "BE"}}})
	if d := cmp.Diff([]rspec.Granted{{Feature: "cpu.count", Value: "4"}, {Feature: "location.country", Value: "BE"}}, f.Granted); d != "" {
		t.Error(d)
	}
}

// TestRemarksAreBounded checks that the answer to a large request stays short.
func TestRemarksAreBounded(t *testing.T) {
	var r remarks
	for i := range 1000 {
		r.add("node", fmt.Sprint("n", i), "", "says the same")
		r.add("link", fmt.Sprint("l", i), "", "says %d", i)
	}
	r.add("the request", "", "", "is not named")
	got := r.texts()
	if len(got) != maxRemarks || got[0] != `nodes "n0", "n1", "n2", "n3", "n4" and 995 more: says the same` || got[1] != `link "l0": says 0` {
		t.Errorf("%d remarks: %q", len(got), got)
	}
	var one remarks
	one.add("the request", "", "", "is not named")
	if got := one.texts(); len(got) != 1 || got[0] != "the request: is not named" {
		t.Errorf("%q", got)
	}
}

// TestFactsOfTheComponentsGateway checks that a node has the gateway of the inventory if its
// provider reports none.
func TestFactsOfTheComponentsGateway(t *testing.T) {
	for _, tt := range []struct {
		rule, gateway, told string
		logins              []rspec.Login
		proxies             []rspec.Proxy
	}{
		{"a user of its own", "{name: door, host: g, user: gw}", "",
			[]rspec.Login{{Hostname: "h", Port: 22, Username: "alice"}, {Hostname: "h", Port: 22, Username: "bob"}, {Hostname: "g", Port: 22, Username: "gw"}},
			[]rspec.Proxy{{Proxy: "gw@g:22", For: "alice@h:22"}, {Proxy: "gw@g:22", For: "bob@h:22"}}},
		{"everybody as himself", "{name: door, host: g, port: 2222}", "",
			[]rspec.Login{{Hostname: "h", Port: 22, Username: "alice"}, {Hostname: "h", Port: 22, Username: "bob"}, {Hostname: "g", Port: 2222, Username: "alice"}, {Hostname: "g", Port: 2222, Username: "bob"}},
			[]rspec.Proxy{{Proxy: "alice@g:2222", For: "alice@h:22"}, {Proxy: "bob@g:2222", For: "bob@h:22"}}},
		{"the provider knows better", "{name: door, host: g, user: gw}", "x@p:1",
			[]rspec.Login{{Hostname: "h", Port: 22, Username: "alice"}, {Hostname: "h", Port: 22, Username: "bob"}, {Hostname: "p", Port: 1, Username: "x"}},
			[]rspec.Proxy{{Proxy: "x@p:1", For: "alice@h:22"}, {Proxy: "x@p:1", For: "bob@h:22"}}},
		{"a door on its host needs it not", "{name: door, host: h, user: gw}", "",
			[]rspec.Login{{Hostname: "h", Port: 22, Username: "alice"}, {Hostname: "h", Port: 22, Username: "bob"}}, nil},
	} {
		inv, err := inventory.Parse([]byte("provider: rack\nsliver_types: [{name: vm}]\ngateways: ["+tt.gateway+"]\ncomponents: [{name: pc, exclusive: true, gateway: door}]"), "inventory.yaml", "example.org")
		if err != nil {
			t.Fatal(err)
		}
		s := &Service{cfg: Config{Inventory: inForce(inv)}}
		f := s.nodeFacts(s.Inventory(), &am.Sliver{
			Component: inv.Components[0].URN,
			Desired:   am.Desired{Accounts: []am.Account{{Login: "alice"}, {Login: "bob"}}},
			Observed:  am.Observed{Logins: []string{"h:22"}, Proxy: tt.told},
		})
		if d := cmp.Diff(tt.logins, f.Logins) + cmp.Diff(tt.proxies, f.Proxies); d != "" {
			t.Errorf("%s:\n%s", tt.rule, d)
		}
	}
}
