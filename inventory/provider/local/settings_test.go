package local

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"patchbay/inventory/provider"
)

var comparePlain = cmp.Options{cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty()}

func TestSettings(t *testing.T) {
	got, err := parseSettings(SettingsFor(Site{}), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(defaults(), got, comparePlain); diff != "" {
		t.Errorf("the written settings are not the defaults (-default +written):\n%s", diff)
	}
	got, err = parseSettings(SettingsFor(Site{Instance: "lab-2", PublicHost: "host.example.org", Component: "host1", Listen: "127.0.0.1"}), "x.yaml")
	if err != nil || got.Instance != "lab-2" || got.PublicHost != "host.example.org" || got.Component != "host1" {
		t.Errorf("settings of a site: %+v, %v", got, err)
	}
	if got, err = parseSettings(SettingsFor(Site{Outbound: true}), "x.yaml"); err != nil || !got.Outbound {
		t.Errorf("a site with outbound: %+v, %v", got, err)
	}
	got, err = parseSettings([]byte(`
listen: 192.0.2.1
ports: 1024 - 65535
port_rest: 0s
publish: gateway
gateway_port: 22022
sliver_types:
- {name: small, cpus: 0.5, memory: 64M, pids: 100, disk: 1G}
- {name: big}
forward_to: [10.1.2.3/8, "fd00::/8"]
emulator: vswitch
shared_vlans: [office, lab-2]
outbound: yes
outbound_block: [203.0.113.9/24]
outbound_addresses: [198.51.100.7]
dns: [192.0.2.53, "::1"]
`), "x.yaml")
	want := defaults()
	want.Listen, want.FirstPort, want.LastPort, want.PortRest = netip.MustParseAddr("192.0.2.1"), 1024, 65535, 0
	want.Publish, want.GatewayPort = Gateway, 22022
	want.SliverTypes = []SliverType{{"small", 0.5, 64 << 20, 100, 1 << 30}, {"big", 1, 512 << 20, 1000, 4 << 30}}
	want.ForwardTo = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	want.Emulator, want.SharedVLANs = VSwitch, []string{"office", "lab-2"}
	want.Outbound, want.OutboundBlock = true, []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	want.OutboundAddresses = []netip.Addr{netip.MustParseAddr("198.51.100.7")}
	want.DNS = []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.IPv6Loopback()}
	if diff := cmp.Diff(want, got, comparePlain); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestFileOfSettings(t *testing.T) {
	dir := t.TempDir()
	s, err := ReadSettings(filepath.Join(dir, "providers", "local.yaml"))
	if err != nil || s.ManifestSocket != filepath.Join(dir, "admin.sock") || s.PortRest != 10*time.Minute {
		t.Errorf("no file: %+v, %v", s, err)
	}
	path := filepath.Join(dir, "x.yaml")
	for _, tt := range []struct{ rule, text, want string }{
		{"absolute socket stays", "manifest_socket: /run/a.sock", ""},
		{"mistake", "listem: ''", `x.yaml:1: the file has no key "listem"; did you mean "listen"?`},
		{"too large", strings.Repeat("#", maxSettings+1), "x.yaml: cannot be read: it is larger than 1048576 bytes"},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSettings(path)
		if err != nil && err.Error() != tt.want || err == nil && (tt.want != "" || s.ManifestSocket != "/run/a.sock") {
			t.Errorf("%s: %v, want %q", tt.rule, err, tt.want)
		}
	}
	if _, err := ReadSettings(dir); err == nil {
		t.Error("a folder was read as settings")
	}
}

func TestMistakesInSettings(t *testing.T) {
	for _, tt := range []struct{ rule, text, want string }{
		{"unknown key", "\npublic_hots: a", `x.yaml:2: the file has no key "public_hots"; did you mean "public_host"?`},
		{"site's configuration", "authority: example.org\nlisten: :8443\n", "x.yaml:1: this is the site's configuration; the settings of a testbed are in the file beside its provider, such as providers/local.yaml"},
		{"inventory", "sliver_types: []\ncomponents: []\n", "x.yaml:1: this is an inventory; the settings of a testbed are in the file beside its provider, such as providers/local.yaml"},
		{"another provider", "instance: local\nprovider: {attributes: {name: {type: string}}}\nmachines: [a]\n", "x.yaml:1: this is the file of another provider; the settings of a testbed are in the file beside its provider, such as providers/local.yaml"},
		{"instance with a slash", "instance: ../x", `x.yaml:1: instance is "../x" and must be 1 to 16 lower-case letters, digits and hyphens; the first must not be a hyphen`},
		{"empty instance", "instance: ''", "x.yaml:1: instance must be a text"},
		{"component with blanks", "component: a b", `x.yaml:1: component is "a b" and must be the name of a component in the inventory`},
		{"public host with a port", "public_host: h:22", `x.yaml:1: public_host is "h:22" and must be a host name or an address, without a port`},
		{"listen at a name", "listen: localhost", `x.yaml:1: listen is "localhost" and must be an address of this host, or empty for all`},
		{"one port", "ports: 20000", `x.yaml:1: ports is "20000" and must be a range from 1024 to 65535, such as 20000-29999`},
		{"gateway at a service's port", "gateway_port: 22", "x.yaml:1: gateway_port is 22 and must be 0, or at least 1024"},
		{"gateway port too high", "gateway_port: 70000", `x.yaml:1: gateway_port is "70000" and must be a whole number from 0 to 65535`},
		{"time without a unit", "port_rest: 10", `x.yaml:1: port_rest is "10" and must be a time up to 24h; write it like 10m or 30s`},
		{"executes that hold up too long", "services_wait: 16m", "x.yaml:1: services_wait is 16m and must be at most 15m, because the manager waits at most an hour until a node is ready"},
		{"publish", "publish: gatway", `x.yaml:1: publish is "gatway"; did you mean "gateway"?`},
		{"sliver type without a name", "sliver_types:\n- cpus: 2", "x.yaml:2: a sliver type has no name; add one, such as name: container"},
		{"key of a sliver type", "sliver_types: [{name: a, cpu: 1}]", `x.yaml:1: a sliver type has no key "cpu"; did you mean "cpus"?`},
		{"cpus", "sliver_types: [{name: a, cpus: 0}]", `x.yaml:1: cpus is "0" and must be a number from 0.01 to 4096`},
		{"memory too small", "sliver_types: [{name: a, memory: 1M}]", `x.yaml:1: memory is "1M" and must be a size from 16M to 16T; write it like 512M or 4G`},
		{"size of another unit", "sliver_types: [{name: a, disk: 4GB}]", `x.yaml:1: disk is "4GB" and must be a size from 16M to 16T; write it like 512M or 4G`},
		{"pids", "sliver_types: [{name: a, pids: 1}]", `x.yaml:1: pids is "1" and must be a whole number from 32 to 4194304`},
		{"network", "forward_to: [10.0.0.1]", `x.yaml:1: forward_to has "10.0.0.1", which is no network such as 10.0.0.0/8`},
		{"shared VLAN with a blank", "shared_vlans: [the office]", `x.yaml:1: shared_vlans has "the office", which cannot be a name in the inventory's shared_vlans`},
		{"shared VLAN twice", "shared_vlans:\n- a\n- a", `x.yaml:3: shared_vlans has "a", which is listed twice; remove one`},
		{"outbound", "outbound: maybe", `x.yaml:1: outbound is "maybe" and must be yes or no`},
		{"address outside", "outbound_addresses: [2001:db8::1]", `x.yaml:1: outbound_addresses has "2001:db8::1", which cannot be a public IPv4 address of nodes`},
		{"blocked network of IPv6", "outbound_block: ['fd00::/8']", "x.yaml:1: outbound_block has fd00::/8, but nodes cannot reach outside networks over IPv6 anyway; remove it"},
		{"nobody's name server", "dns: [0.0.0.0]", `x.yaml:1: dns has "0.0.0.0", which cannot be the address of a name server`},
		{"too many name servers", "dns: [192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4]", "x.yaml:1: dns has 4 entries; at most 3 are allowed"},
		{"all at once, in order of lines", "publish: x\nlisten: y", `x.yaml:1: publish is "x"; there are both, direct, gateway` + "\n" + `x.yaml:2: listen is "y" and must be an address of this host, or empty for all`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s, err := parseSettings([]byte(tt.text), "x.yaml")
			if err == nil {
				t.Fatalf("%q was accepted: %+v", tt.text, s)
			}
			if got := err.Error(); got != tt.want {
				t.Errorf("the error is\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestWhereTheGatewayMayForward(t *testing.T) {
	s, listed := defaults(), defaults()
	listed.ForwardTo = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("0.0.0.0/30")}
	for _, tt := range []struct {
		address    string
		any, lists bool
	}{
		{"10.1.2.3", true, true}, {"192.0.2.1", true, false}, {"fd00::1", true, false}, {"::ffff:10.0.0.1", true, true},
		{"127.0.0.1", false, false}, {"::1", false, false}, {"::ffff:127.0.0.1", false, false}, {"169.254.169.254", false, false},
		{"fe80::1", false, false}, {"0.0.0.0", false, false}, {"::", false, false}, {"224.0.0.1", false, false}, {"255.255.255.255", false, false},
	} {
		a := netip.MustParseAddr(tt.address)
		if got := s.MayForward(a); got != tt.any {
			t.Errorf("%s without a list: %v", a, got)
		}
		if got := listed.MayForward(a); got != tt.lists {
			t.Errorf("%s with a list: %v", a, got)
		}
	}
}

func TestSettingsThatDoNotGoTogether(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"outbound: yes\noutbound_block: [203.0.113.0/24]\ndns: [192.0.2.1]\n", ""},
		{"dns: [192.0.2.1]\n", "dns: no effect while outbound is no"},
		{"outbound_block: [203.0.113.0/24]\ndns: [192.0.2.1]\n", "outbound_block and dns: no effect"},
		{"listen: 127.0.0.1\n", ""},
		{"listen: 127.0.0.1\npublic_host: lab.example.org\n", "so no user can connect to public_host lab.example.org"},
		{"listen: 192.0.2.1\n", "set public_host: 192.0.2.1"},
		{"listen: 192.0.2.1\npublic_host: 127.0.0.2\n", "set public_host: 192.0.2.1"},
		{"listen: 192.0.2.1\npublic_host: lab.example.org\n", ""},
		{"publish: direct\ngateway_port: 20000\n", "publish: both"},
		{"publish: gateway\ngateway_port: 20000\n", ""},
	} {
		s, err := parseSettings([]byte(tt.text), "x.yaml")
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(s.Conflicts(), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestProviderLoads(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string][]byte{"it's.prov": Script("/opt/my bin/patchbay-local", "it's"), "it's.yaml": SettingsFor(Site{})} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if want := "#!/bin/sh\nexec '/opt/my bin/patchbay-local' local --name 'it'\\''s' \"$@\"\n"; string(Script("/opt/my bin/patchbay-local", "it's")) != want {
		t.Errorf("script %q", Script("/opt/my bin/patchbay-local", "it's"))
	}
	if err := os.Rename(filepath.Join(dir, "it's.prov"), filepath.Join(dir, "local.prov")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "it's.yaml"), filepath.Join(dir, "local.yaml")); err != nil {
		t.Fatal(err)
	}
	p, err := provider.Open(filepath.Join(dir, "local.prov"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{provider.AttrUsers, provider.AttrLogin, provider.AttrProxy, provider.AttrHostKeys, provider.AttrInterfaces, "client_id", "slice_urn", "sliver_urn"} {
		if !p.Has(a) {
			t.Errorf("%s is not declared", a)
		}
	}
	if p.Parallel != 4 || !p.Probe {
		t.Errorf("%+v", p)
	}
}

func FuzzSettings(f *testing.F) {
	f.Add(SettingsFor(Site{}))
	f.Add([]byte("sliver_types: &a [*a]\n"))
	f.Add([]byte("ports: -1-2\nforward_to: [::/0]\n---\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseSettings(text, "x.yaml")
		if err != nil {
			if strings.ContainsRune(err.Error(), '\n') || !strings.HasPrefix(err.Error(), "x.yaml:") {
				t.Fatalf("%q is no line about a file", err)
			}
			return
		}
		if !IsInstance(s.Instance) || s.FirstPort < 1024 || s.LastPort < s.FirstPort || len(s.SliverTypes) == 0 {
			t.Fatalf("accepted %+v", s)
		}
	})
}
