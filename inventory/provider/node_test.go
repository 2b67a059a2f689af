package provider

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/urn"
)

const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"

func TestDesiredNode(t *testing.T) {
	user := urn.MustParse("urn:publicid:IDN+example.org+user+alice")
	s := &am.Sliver{
		URN:        urn.MustParse("urn:publicid:IDN+example.org+sliver+0b1c"),
		SliverType: "vm",
		Image:      "debian-12",
		Desired: am.Desired{Present: true, On: true, RestartSerial: 2, Accounts: []am.Account{
			{Login: "bob"}, {Login: "alice", User: user, Keys: []string{"ssh-ed25519 A<&>"}},
		}},
	}
	want := Resource{
		"name": "0b1c", "ensure": "present", "power": "on", "restart_serial": "2", "component": "pc1",
		"sliver_type": "vm", "image": "debian-12", "hostname": "web",
		"users": []string{
			`{"login":"alice","urn":"urn:publicid:IDN+example.org+user+alice","keys":["ssh-ed25519 A<&>"]}`,
			`{"login":"bob","keys":[]}`,
		},
	}
	got := DesiredNode(s, "pc1", "web")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("DesiredNode (-want +got):\n%s", diff)
	}
	// What was asked for, reported back, reads as what was promised.
	if !PowerOn(got) || RestartSerial(got) != 2 || Gone(got) {
		t.Errorf("power %v, serial %d, gone %v", PowerOn(got), RestartSerial(got), Gone(got))
	}
	accounts := []am.Account{{Login: "alice", User: user, Keys: []string{"ssh-ed25519 A<&>"}}, {Login: "bob"}}
	if diff := cmp.Diff(accounts, ObservedNode(got).Accounts); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}

	s.Desired.Present = false
	if diff := cmp.Diff(Resource{"name": "0b1c", "ensure": "absent"}, DesiredNode(s, "pc1", "web")); diff != "" {
		t.Errorf("absent (-want +got):\n%s", diff)
	}
}

func TestObservedNode(t *testing.T) {
	r := Resource{
		"name": "x", "ensure": "present", "state": "failed", "message": "disk\x07 full\n" + strings.Repeat("é", maxMessage),
		"addresses": []string{"192.0.2.1", "2001:db8::1", "not an address", "fe80::1%eth0"},
		"login":     []string{"pc1.example.org:22", "al@[2001:db8::1]:2022", "pc1", "pc1:0", "pc1:99999", "a b@pc1:22", "-o@pc1:22", "pc1.example.org:+22", "<x>:22"},
		"proxy":     "gw@gate.example.org:22",
		"host_keys": []string{hostKey, hostKey + " comment", "ssh-rsa" + strings.TrimPrefix(hostKey, "ssh-ed25519"), "ssh-ed25519 !", hostKey + "\nx"},
		"users":     []string{`{"login":"a","keys":["k","","k\nx"]}`, `{"login":"../a"}`, `["x"]`, ``},
	}
	got := ObservedNode(r)
	if !strings.HasPrefix(got.Message, "disk  full ééé") || len(got.Message) > maxMessage+3 {
		t.Errorf("message %q", got.Message)
	}
	got.Message = ""
	want := am.Observed{
		State:     StateFailed,
		Addresses: []string{"192.0.2.1", "2001:db8::1"},
		Logins:    []string{"pc1.example.org:22", "al@[2001:db8::1]:2022"},
		Proxy:     "gw@gate.example.org:22",
		HostKeys:  []string{hostKey, hostKey + " comment"},
		Accounts:  []am.Account{{Login: "a", Keys: []string{"k"}}},
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

func TestRestartSerial(t *testing.T) {
	for text, want := range map[string]int{"": 0, "3": 3, "-3": 0, "x": 0} {
		if got := RestartSerial(Resource{"restart_serial": text}); got != want {
			t.Errorf("RestartSerial(%q) = %d, want %d", text, got, want)
		}
	}
}
