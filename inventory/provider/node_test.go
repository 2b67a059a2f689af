package provider

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/rspec/step"
)

const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"

func TestDesiredNode(t *testing.T) {
	user := urn.MustParse("urn:publicid:IDN+example.org+user+alice")
	s := &am.Sliver{
		URN:        urn.MustParse("urn:publicid:IDN+example.org+sliver+0b1c"),
		Slice:      urn.MustParse("urn:publicid:IDN+example.org:lab+slice+web"),
		ClientID:   "Web <&> 1",
		SliverType: "vm",
		Image:      "debian-12",
		Desired: am.Desired{Present: true, On: true, RestartSerial: 2, Accounts: []am.Account{
			{Login: "bob"}, {Login: "alice", User: user, Keys: []string{"ssh-ed25519 A<&>"}},
		}},
	}
	want := Resource{
		"name": "0b1c", "ensure": "present", "power": "on", "restart_serial": "2", "component": "pc1",
		"sliver_type": "vm", "image": "debian-12", "hostname": "web", "interfaces": []string{},
		"client_id": "Web <&> 1", "slice_urn": "urn:publicid:IDN+example.org:lab+slice+web", "sliver_urn": "urn:publicid:IDN+example.org+sliver+0b1c",
		"users": []string{
			`{"login":"alice","urn":"urn:publicid:IDN+example.org+user+alice","keys":["ssh-ed25519 A<&>"]}`,
			`{"login":"bob","keys":[]}`,
		},
	}
	got := DesiredNode(s, "pc1", "web", nil)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("DesiredNode (-want +got):\n%s", diff)
	}
	// The requested state, reported back, equals the desired state.
	if !PowerOn(got) || Gone(got) {
		t.Errorf("power %v, gone %v", PowerOn(got), Gone(got))
	}
	accounts := []am.Account{{Login: "alice", User: user, Keys: []string{"ssh-ed25519 A<&>"}}, {Login: "bob"}}
	if diff := cmp.Diff(accounts, ObservedNode(got).Accounts); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}

	s.Desired.Present = false
	if diff := cmp.Diff(Resource{"name": "0b1c", "ensure": "absent"}, DesiredNode(s, "pc1", "web", nil)); diff != "" {
		t.Errorf("absent (-want +got):\n%s", diff)
	}
}

func TestStageOfADesiredNode(t *testing.T) {
	steps := []step.Step{{Kind: step.Execute, Shell: "sh", Command: "true"}}
	farewell := append(steps, step.Step{Kind: step.Execute, Operation: step.Uninstall, Shell: "sh", Command: "true"})
	for _, tt := range []struct {
		rule string
		s    am.Sliver
		want any
	}{
		{"no steps", am.Sliver{Desired: am.Desired{Present: true}}, nil},
		{"steps", am.Sliver{Setup: steps, Desired: am.Desired{Present: true, Stage: 2}}, "2"},
		{"a shut down slice runs nothing", am.Sliver{Setup: steps, Frozen: true, Desired: am.Desired{Present: true, Stage: 2}}, "-1"},
		{"removed", am.Sliver{Setup: steps}, nil},
		{"deleted with a step for that", am.Sliver{Setup: farewell, Desired: am.Desired{Uninstall: true}}, nil},
		{"expired with a step for deletion", am.Sliver{Setup: farewell}, "-1"},
	} {
		if got := DesiredNode(&tt.s, "pc1", "web", nil)[AttrSetupStage]; got != tt.want {
			t.Errorf("%s: setup_stage %v, want %v", tt.rule, got, tt.want)
		}
	}
	if got := ObservedNode(Resource{AttrEnsure: Present, AttrSetupStage: "3"}).Stage; got != 3 {
		t.Errorf("the observed stage is %d", got)
	}
}

func TestDesiredInterfaces(t *testing.T) {
	named := func(name string) urn.URN { return urn.URN{Authority: "example.org", Type: urn.Interface, Name: name} }
	s := &am.Sliver{
		URN: urn.MustParse("urn:publicid:IDN+example.org+sliver+0b1c"), Slice: urn.MustParse("urn:publicid:IDN+example.org+slice+s"),
		Interfaces: []am.Interface{
			{ClientID: "b:<&>", Link: "lan", Component: named("pc1:eth1"), Out: 5, VLAN: 101, Addresses: []netip.Prefix{netip.MustParsePrefix("10.128.0.1/24"), netip.MustParsePrefix("fd00::1/64")}},
			{ClientID: "a"},
			{ClientID: "c", Component: named("port-77")},
		},
		PublicAddress: netip.MustParseAddr("192.0.2.10"),
		Desired:       am.Desired{Present: true},
	}
	inventory := func(u urn.URN) string {
		if u.Name == "port-77" {
			return "eth2"
		}
		return ""
	}
	want := []string{
		`{"client_id":"b:<&>","link":"lan","slice":"urn:publicid:IDN+example.org+slice+s","component":"eth1","vlan":101,"addresses":["10.128.0.1/24","fd00::1/64"]}`,
		`{"client_id":"a"}`,
		`{"client_id":"c","component":"eth2"}`,
		`{"role":"control","public_address":"192.0.2.10"}`,
	}
	if diff := cmp.Diff(want, DesiredNode(s, "pc1", "web", inventory).List(AttrInterfaces)); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
	want[2] = `{"client_id":"c","component":"port-77"}`
	got := DesiredNode(s, "pc1", "web", nil)
	if diff := cmp.Diff(want, got.List(AttrInterfaces)); diff != "" {
		t.Errorf("by their URNs (-want +got):\n%s", diff)
	}
	// Each key that is written is also compared.
	for _, item := range want {
		var m map[string]any
		if err := json.Unmarshal([]byte(item), &m); err != nil {
			t.Fatal(err)
		}
		for key := range m {
			m[key] = "other"
			other, _ := json.Marshal(m)
			is := Resource{AttrInterfaces: append([]string{string(other)}, slices.DeleteFunc(slices.Clone(want), func(s string) bool { return s == item })...)}
			if len(Diff(is, Resource{AttrInterfaces: want})) == 0 {
				t.Errorf("another %s of %s is no difference", key, item)
			}
		}
	}
}

func TestInterfacesHavePropertiesAndSharedVLANs(t *testing.T) {
	s := &am.Sliver{
		URN: urn.MustParse("urn:publicid:IDN+example.org+sliver+0b1c"), Slice: urn.MustParse("urn:publicid:IDN+example.org+slice+s"), Desired: am.Desired{Present: true},
		Interfaces: []am.Interface{
			{ClientID: "a:0", Link: "lan", Properties: []am.Property{
				{Capacity: 10000, Latency: 12500 * time.Microsecond, Loss: 1.5}, {To: []string{"b:0", "c <&> 0"}, Latency: time.Nanosecond}, {To: []string{"d:0"}, Capacity: 1e12, Latency: time.Hour, Loss: 100},
			}},
			{ClientID: "a:1", Link: "wan", VLAN: 1750, SharedVLAN: "exchange", Properties: []am.Property{{Loss: 0.1}}},
		},
	}
	want := []string{
		`{"client_id":"a:0","link":"lan","slice":"urn:publicid:IDN+example.org+slice+s","properties":[{"capacity":10000,"latency":12.5,"packet_loss":1.5},{"to":["b:0","c <&> 0"],"latency":0.000001},{"to":["d:0"],"capacity":1000000000000,"latency":3600000,"packet_loss":100}]}`,
		`{"client_id":"a:1","link":"wan","slice":"urn:publicid:IDN+example.org+slice+s","vlan":1750,"shared_vlan":"exchange","properties":[{"packet_loss":0.1}]}`,
	}
	got := DesiredNode(s, "host1", "a", nil)
	if diff := cmp.Diff(want, got.List(AttrInterfaces)); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
	for rule, is := range map[string][]string{
		"told back": {
			`{"client_id":"a:0","link":"lan","slice":"urn:publicid:IDN+example.org+slice+s","properties":[{"packet_loss":1.50,"capacity":1e4,"latency":12.5}],"mac":"02:00:00:00:00:01","emulator":"tbf+vswitch","rx_packets":7}`,
			want[1],
		},
		"not told back": {
			`{"client_id":"a:0","link":"lan","slice":"urn:publicid:IDN+example.org+slice+s"}`,
			`{"client_id":"a:1","link":"wan","slice":"urn:publicid:IDN+example.org+slice+s","vlan":1750}`,
		},
		"nonsense": {
			`{"client_id":"a:0","link":"lan","slice":"urn:publicid:IDN+example.org+slice+s","properties":"none","shared_vlan":["x"]}`,
			want[1],
		},
	} {
		if d := Diff(Resource{AttrInterfaces: is}, Resource{AttrInterfaces: got.List(AttrInterfaces)}); len(d) > 0 {
			t.Errorf("%s: %v is a difference", rule, d)
		}
	}
}

func TestHardwareAddresses(t *testing.T) {
	many := make([]string, MaxItems)
	for i := range many {
		many[i] = fmt.Sprintf(`{"client_id":"x%d","mac":"02:00:00:00:%02x:%02x"}`, i, i>>8, i&255)
	}
	if got := ObservedNode(Resource{AttrInterfaces: many}).MACs; len(got) != MaxItems {
		t.Errorf("%d of %d", len(got), MaxItems)
	}
	for _, tt := range []struct{ rule, item, want string }{
		{"usual", `{"client_id":"a","mac":"02:00:00:00:00:0a","link":"l"}`, "02:00:00:00:00:0a"},
		{"another spelling", `{"client_id":"a","mac":"02-00-00-00-00-0A"}`, "02:00:00:00:00:0a"},
		{"with dots", `{"client_id":"a","mac":"0200.0000.000a"}`, "02:00:00:00:00:0a"},
		{"no interface", `{"mac":"02:00:00:00:00:0a"}`, ""},
		{"none", `{"client_id":"a"}`, ""},
		{"not text", `{"client_id":"a","mac":2}`, ""},
		{"not an object", `["a"]`, ""},
		{"not JSON", `{"client_id":"a","mac":"02:00:00:00:00:0a"`, ""},
		{"markup", `{"client_id":"a","mac":"\"/><x y=\""}`, ""},
		{"control characters", `{"client_id":"a","mac":"02:00:00:00:00:0\u0007"}`, ""},
		{"long", `{"client_id":"a","mac":"` + strings.Repeat("02:", 10000) + `02"}`, ""},
		{"64 bits", `{"client_id":"a","mac":"02:00:00:00:00:00:00:0a"}`, ""},
		{"of a group", `{"client_id":"a","mac":"01:00:5e:00:00:01"}`, ""},
		{"of everybody", `{"client_id":"a","mac":"ff:ff:ff:ff:ff:ff"}`, ""},
		{"zero", `{"client_id":"a","mac":"00:00:00:00:00:00"}`, ""},
	} {
		got := ObservedNode(Resource{AttrInterfaces: []string{tt.item, `{"client_id":"b","mac":"02:00:00:00:00:0b"}`}}).MACs
		if got["a"] != tt.want || got["b"] != "02:00:00:00:00:0b" {
			t.Errorf("%s: %v, want %q", tt.rule, got, tt.want)
		}
	}
	twice := []string{`{"client_id":"a","mac":"?"}`, `{"client_id":"a","mac":"02:00:00:00:00:01"}`, `{"client_id":"a","mac":"02:00:00:00:00:02"}`}
	if got := ObservedNode(Resource{AttrInterfaces: twice}).MACs["a"]; got != "02:00:00:00:00:01" {
		t.Errorf("of two reports with one client_id: %q", got)
	}
}

func TestObservedNode(t *testing.T) {
	r := Resource{
		"name": "x", "ensure": "present", "state": "failed", "message": "disk\x07 full\n" + strings.Repeat("é", maxMessage),
		"addresses": []string{"192.0.2.1", "2001:db8::1", "not an address", "fe80::1%eth0"},
		"outside": []string{"198.51.100.7:40000-40127", "198.51.100.7", "[2001:db8::7]:1-65535", "198.51.100.7:9-9", "198.51.100.7:9-8", "198.51.100.7:0-8",
			"198.51.100.7:40000", "198.51.100.7:1-65536", "198.51.100.7:1-+2", "host:1-2", "2001:db8::7:1-2", "[fe80::1%eth0]:1-2", "198.51.100.7:1-2-3", ""},
		"login":     []string{"pc1.example.org:22", "al@[2001:db8::1]:2022", "pc1", "pc1:0", "pc1:99999", "a b@pc1:22", "-o@pc1:22", "pc1.example.org:+22", "<x>:22"},
		"proxy":     "gw@gate.example.org:22",
		"host_keys": []string{hostKey, hostKey + " comment", "ssh-rsa" + strings.TrimPrefix(hostKey, "ssh-ed25519"), "ssh-ed25519 !", hostKey + "\nx"},
		"users":     []string{`{"login":"a","keys":["k","","k\nx"]}`, `{"login":"../a"}`, `["x"]`, ``},

		"capabilities": []string{"memory.size=64G", "cpu.count=1..8", "cpu.count=many", "gpu"},
	}
	got := ObservedNode(r)
	if !strings.HasPrefix(got.Message, "disk  full ééé") || len(got.Message) > maxMessage+3 {
		t.Errorf("message %q", got.Message)
	}
	got.Message = ""
	want := am.Observed{
		State:     StateFailed,
		Addresses: []string{"192.0.2.1", "2001:db8::1"},
		Outside:   []string{"198.51.100.7:40000-40127", "198.51.100.7", "[2001:db8::7]:1-65535", "198.51.100.7:9-9"},
		Logins:    []string{"pc1.example.org:22", "al@[2001:db8::1]:2022"},
		Proxy:     "gw@gate.example.org:22",
		HostKeys:  []string{hostKey, hostKey + " comment"},
		Accounts:  []am.Account{{Login: "a", Keys: []string{"k"}}},

		Capabilities: []string{"cpu.count=1..8", "memory.size=64G"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ObservedNode (-want +got):\n%s", diff)
	}
	for rule, r := range map[string]Resource{"nothing": nil, "absent": {"ensure": "absent", "state": "ready"}} {
		if diff := cmp.Diff(am.Observed{}, ObservedNode(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", rule, diff)
		}
	}
	if got := ObservedNode(Resource{"name": "x"}); got.State != StateReady {
		t.Errorf("state %q of a provider that reports none, want ready", got.State)
	}
	if got := ObservedNode(Resource{"name": "x", "proxy": "gate.example.org:22"}); got.Proxy != "" {
		t.Errorf("proxy %q without a user", got.Proxy)
	}
}
