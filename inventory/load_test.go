package inventory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/schemas/yamlfile"
)

const whole = `
provider: rack
default_sliver_type: vm
unknown_image: default
exclusive_on_shared: refuse
cleaning_time: 90s
managers: ["urn:publicid:IDN+old.example.org+authority+am"]
link_types: [lan, vlan]
hardware_types: [small, large]
locations:
  - {name: hall, country: BE, latitude: 51.04, longitude: -3.730}
gateways:
  - {name: door, host: door.example.org, port: 2222, user: gw}
images:
  - {name: debian, os: Linux, version: 12, description: Debian, url: "https://images.example.org/debian"}
  - {name: "urn:publicid:IDN+other.example.org+image+emulab-ops//UBUNTU"}
  - {name: bsd, urn: "urn:publicid:IDN+example.org+image+freebsd"}
sliver_types:
  - name: raw-pc
    images: [debian, bsd]
  - name: vm
    aliases: [default-vm, "emulab-*", "http://?.example.org/*"]
    needs: {cores: 2, memory: 4G, disk: 1TiB}
    images: ["urn:publicid:IDN+other.example.org+image+emulab-ops//UBUNTU", debian]
    default_image: debian
components:
  - name: pc1
    component_id: urn:publicid:IDN+example.org+node+rack-1
    exclusive: true
    sliver_types: [raw-pc, vm]
    hardware_types: small
    location: hall
    gateway: door
    drained: true
    provider: ipmi
    settings: {address: 192.0.2.1, port: 623}
  - names: [host08..host10, spare]
    exclusive: false
    hardware_types: [large]
    capacity: {slots: 3, cores: 16, memory: 65536, disk: 4T}
  - names: [sw1..sw2]
    exclusive: true
    interfaces:
      - {name: eth0, role: control}
      - {name: eth1, link: core}
      - {name: eth2, link: "edge", capacity: 100M}
  - name: router
    exclusive: true
    interfaces:
      - {name: wan, link: core, capacity: 2.5G, role: mixed, public_ipv4: 192.0.2.99, component_id: "urn:publicid:IDN+example.org+interface+border:0"}
links:
  - {name: core, capacity: 10G}
  - {name: edge, type: wireless}
vlans: [100..102, 250]
shared_vlans:
  - {name: exchange, tag: 1750, description: to the others, restricted: true}
link_addresses: 172.16.0.0/16
public_addresses: [192.0.2.10..192.0.2.12, 192.0.2.20]
cross_links: copy
packet_loss_unit: fraction
outbound: no
monitoring:
  type: oml
  doc: https://example.org/oml
  metrics: [{id: cpu.load, description: load, unit: percent}, {id: Free_Mem}]
software:
  - {name: octave, version: 8.4, install: "https://example.org/octave.tar.gz", execute: /opt/octave/setup}
  - {name: octave, version: 9, execute: apt-get install -y octave}
galaxy:
  - {name: alice.web, url: "https://example.org/web.tar.gz"}
clouds:
  - {name: north, manager: "urn:publicid:IDN+north.example.org+authority+cm"}
`

func TestAnyLinkType(t *testing.T) {
	for text, want := range map[string]int{`["*"]`: -1, `[lan, "*"]`: -1, "[]": 0, "lan": 1} {
		v, err := Parse([]byte(strings.Replace(whole, "link_types: [lan, vlan]", "link_types: "+text, 1)), "inventory.yaml", "example.org")
		if err != nil {
			t.Fatal(err)
		}
		if got := len(v.LinkTypes); got != max(want, 0) || (v.LinkTypes == nil) != (want < 0) {
			t.Errorf("link_types: %s gives %#v", text, v.LinkTypes)
		}
	}
}

func TestCleaningTimeOfProviderComesFirst(t *testing.T) {
	plain, err := Parse([]byte(whole), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	v := plain.WithCleaning(map[string]time.Duration{"rack": 5 * time.Minute, "silent": 0})
	for name, want := range map[string]time.Duration{"rack": 5 * time.Minute, "silent": 90 * time.Second, "unknown": 90 * time.Second} {
		if got := v.Cleaning(&Component{Provider: name}); got != want {
			t.Errorf("a component of %s: %v, want %v", name, got, want)
		}
	}
	if got := plain.Cleaning(&Component{Provider: "rack"}); got != 90*time.Second {
		t.Errorf("WithCleaning has changed the original: %v", got)
	}
}

func TestParse(t *testing.T) {
	v, err := Parse([]byte(whole), "inventory.yaml", "Example.org")
	if err != nil {
		t.Fatal(err)
	}
	if v.Manager.String() != "urn:publicid:IDN+Example.org+authority+cm" || len(v.Managers) != 1 {
		t.Errorf("managers %v, %v", v.Manager, v.Managers)
	}
	if v.UnknownImage != UseDefault || v.ExclusiveOnShared != Refuse || v.CleaningTime != 90*time.Second || v.DefaultSliverType.Name != "vm" {
		t.Errorf("policies %v, %v, %v, %v", v.UnknownImage, v.ExclusiveOnShared, v.CleaningTime, v.DefaultSliverType.Name)
	}
	var names []string
	for i, c := range v.Components {
		names = append(names, c.Name)
		if found, ok := v.Component(urn.URN{Authority: "EXAMPLE.ORG", Type: "node", Name: c.URN.Name}); !ok || found != c || c.Index != i {
			t.Errorf("component %d %s is not found by %s", i, c.Name, c.URN)
		}
	}
	if diff := cmp.Diff([]string{"pc1", "host08", "host09", "host10", "spare", "sw1", "sw2", "router"}, names); diff != "" {
		t.Error(diff)
	}
	pc1 := *v.Components[0]
	if pc1.URN.Name != "rack-1" || !pc1.Exclusive || pc1.Provider != "ipmi" || !pc1.Drained || pc1.Settings["port"] != "623" || pc1.Gateway.Port != 2222 || pc1.Location.Longitude != "-3.730" || pc1.Capacity != (am.Amount{Slots: 1}) || pc1.SliverTypes[1].Name != "vm" {
		t.Errorf("pc1 is %+v", pc1)
	}
	host := v.Components[1]
	if host.Provider != "rack" || host.SliverTypes[0].Name != "vm" || host.Capacity != (am.Amount{Slots: 3, Cores: 16, Memory: 65536, Disk: 4 << 20}) {
		t.Errorf("host08 is %+v", host)
	}
	eth2 := v.Components[5].Interfaces[2]
	if i, ok := v.Interface(urn.MustParse("urn:publicid:IDN+EXAMPLE.org+interface+sw1:eth2")); !ok || i != eth2 || v.Interfaces[i.Index] != i || i.Link.Name != "edge" || i.Capacity != 100_000 || i.Role != experimentalRole || i.Component.Name != "sw1" {
		t.Errorf("eth2 of sw1 is %+v", eth2)
	}
	if eth1 := v.Components[6].Interfaces[1]; eth1.Capacity != 10_000_000 || !eth1.CarriesLinks() || v.Components[6].Interfaces[0].CarriesLinks() {
		t.Errorf("eth1 of sw2 is %+v", eth1)
	}
	if wan := v.Components[7].Interfaces[0]; wan.URN.Name != "border:0" || wan.Capacity != 2_500_000 || wan.PublicIPv4.String() != "192.0.2.99" || wan.Role != mixedRole {
		t.Errorf("the router's interface is %+v", wan)
	}
	if core := v.Links[0]; core.URN.String() != "urn:publicid:IDN+Example.org+link+core" || core.Type != "ethernet" || len(core.Interfaces) != 3 {
		t.Errorf("core is %+v", core)
	}
	if diff := cmp.Diff([]int{100, 101, 102, 250}, v.VLANs); diff != "" {
		t.Error(diff)
	}
	if shared, ok := v.SharedVLAN("exchange"); !ok || *shared != (SharedVLAN{"exchange", 1750, "to the others", true}) {
		t.Errorf("the shared VLAN is %+v", shared)
	}
	if fmt.Sprint(v.LinkAddresses, v.PublicAddresses) != "172.16.0.0/16 [192.0.2.10 192.0.2.11 192.0.2.12 192.0.2.20]" || v.CrossLinks != Copy || v.LossUnit != AsFraction || v.OutsideAccess != No {
		t.Errorf("addresses %v and %v, policies %v, %v and %v", v.LinkAddresses, v.PublicAddresses, v.CrossLinks, v.LossUnit, v.OutsideAccess)
	}
	octave := []Software{{"octave", "8.4", "https://example.org/octave.tar.gz", "/opt/octave/setup"}, {"octave", "9", "", "apt-get install -y octave"}}
	north := map[string]urn.URN{"north": urn.MustParse("urn:publicid:IDN+north.example.org+authority+cm")}
	if diff := cmp.Diff(octave, v.Software) + cmp.Diff(map[string]string{"alice.web": "https://example.org/web.tar.gz"}, v.Galaxy) + cmp.Diff(north, v.Clouds); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&Monitoring{"oml", "https://example.org/oml", []Metric{{"cpu.load", "load", "percent"}, {ID: "Free_Mem"}}}, v.Monitoring); diff != "" {
		t.Error(diff)
	}
	vm := v.SliverTypes[1]
	if vm.Needs != (am.Amount{Slots: 1, Cores: 2, Memory: 4096, Disk: 1 << 20}) || vm.DefaultImage.Name != "debian" || v.SliverTypes[0].DefaultImage.Name != "debian" {
		t.Errorf("vm is %+v", vm)
	}
}

func TestSliverType(t *testing.T) {
	v, err := Parse([]byte(whole), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"vm": "vm", "raw-pc": "raw-pc", "default-vm": "vm", "emulab-xen": "vm", "emulab-": "vm", "emulab-a/b\nc": "vm",
		"http://x.example.org/large": "vm", "http://xy.example.org/large": "", "http://xaexample.org/": "",
		"VM": "", "an-emulab-xen": "", "": "", "default-vm2": "",
	} {
		got, ok := v.SliverType(name)
		if ok != (want != "") || ok && got.Name != want {
			t.Errorf("SliverType(%q) = %v, %v; want %q", name, got, ok, want)
		}
	}
}

func TestImage(t *testing.T) {
	v, err := Parse([]byte(whole), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	vm, _ := v.SliverType("vm")
	for _, tt := range []struct {
		rule, name   string
		ofSite, ofVM bool
	}{
		{"by name", "debian", true, true},
		{"by the URN made of its name", "urn:publicid:IDN+EXAMPLE.org+image+debian", true, true},
		{"by URL", "https://images.example.org/debian", true, true},
		{"named by a URN", "urn:publicid:IDN+other.example.org+image+emulab-ops//UBUNTU", true, true},
		{"image names keep their case", "urn:publicid:IDN+other.example.org+image+emulab-ops//ubuntu", false, false},
		{"by its own URN", "urn:publicid:IDN+example.org+image+freebsd", true, false},
		{"its own URN replaces the made one", "urn:publicid:IDN+example.org+image+bsd", false, false},
		{"of another type", "bsd", true, false},
		{"no name", "", false, false},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			_, site := v.Image(tt.name)
			_, ofVM := vm.Image(tt.name)
			if site != tt.ofSite || ofVM != tt.ofVM {
				t.Errorf("Image(%q): site %v, vm %v", tt.name, site, ofVM)
			}
		})
	}
}

// TestMistakes changes one line of a good file and expects one complaint, on
// that line or the one its entry begins on.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ rule, old, new, want string }{
		{"unknown key", "unknown_image:", "unknown_images:", `4: an inventory has no key "unknown_images"; did you mean "unknown_image"?`},
		{"unknown key, nothing near", "    drained: true", "    colour: red", `34: a component has no key "colour"; there are name,`},
		{"key twice", "exclusive_on_shared: refuse", "provider: twice", `5: an inventory has the key "provider" twice`},
		{"policy", "exclusive_on_shared: refuse", "exclusive_on_shared: maybe", "5: exclusive_on_shared must be grant, share or refuse"},
		{"policy of another question", "unknown_image: default", "unknown_image: grant", "4: unknown_image must be refuse or default"},
		{"time", "90s", "soon", "6: cleaning_time must be a duration such as 30s"},
		{"manager", "authority+am\"", "node+am\"", "7: "},
		{"hardware type twice", "[small, large]", "[small, large, small]", `9: the hardware type "small" is listed twice`},
		{"hardware type unknown", "hardware_types: small", "hardware_types: smal", `31: there is no hardware type "smal"; did you mean "small"?`},
		{"latitude alone", ", longitude: -3.730", "", "11: location hall has only one of latitude and longitude"},
		{"latitude off the earth", "latitude: 51.04", "latitude: 91", "11: latitude must be decimal degrees from -90 to 90"},
		{"longitude is no number", "-3.730", "NaN", "11: longitude must be"},
		{"country", "country: BE", "country: Belgium", "11: country must be two capital letters"},
		{"location unknown", "location: hall", "location: hell", `32: there is no location "hell"; did you mean "hall"?`},
		{"gateway unknown", "gateway: door", "gateway: window", `33: there is no gateway "window"; there are door`},
		{"gateway port", "port: 2222", "port: 70000", "13: port must be from 1 to 65535"},
		{"gateway host", "host: door.example.org, ", "", "13: gateway door has no host"},
		{"image twice", "{name: bsd, urn: \"urn:publicid:IDN+example.org+image+freebsd\"}", "{name: debian}", "17: image debian is also image debian"},
		{"image by another's URN", "+image+freebsd", "+image+debian", "17: image bsd is also image debian"},
		{"image URN of a node", "+image+freebsd", "+node+freebsd", "17: "},
		{"image unknown", "images: [debian, bsd]", "images: [debina, bsd]", `20: there is no image "debina"; did you mean "debian"?`},
		{"default image not offered", "default_image: debian", "default_image: bsd", `25: default_image "bsd" is not among the images of vm`},
		{"two types", "name: vm", "name: raw-pc", `21: there are two sliver types "raw-pc"`},
		{"alias twice", "[default-vm,", "[default-vm, default-vm,", `22: the alias "default-vm" is listed twice`},
		{"alias of a name", "[default-vm,", "[raw-pc,", `22: alias "raw-pc" of vm is the name of a sliver type`},
		{"size", "memory: 4G", "memory: 4X", "23: memory must be a size such as 512M"},
		{"negative size", "memory: 4G", "memory: -4G", "23: memory must be a size"},
		{"size beyond all bounds", "memory: 4G", "memory: 99999999999T", "23: memory must be a size"},
		{"negative count", "cores: 2", "cores: -2", "23: cores must be a whole number"},
		{"default type unknown", "default_sliver_type: vm", "default_sliver_type: default-vm", `3: there is no sliver type "default-vm"`},
		{"component type unknown", "[raw-pc, vm]", "[raw-pc, xen]", `30: there is no sliver type "xen"`},
		{"not said whether exclusive", "    exclusive: false\n", "", "37: component host08 does not say whether it is exclusive"},
		{"exclusive is no flag", "exclusive: false", "exclusive: no", "38: exclusive must be true or false"},
		{"capacity of an exclusive component", "    drained: true", "    capacity: {slots: 2}", "34: component pc1 is exclusive"},
		{"too small", "memory: 65536", "memory: 4095", "37: component host08 is too small for one vm"},
		{"no limit", "    capacity: {slots: 3, cores: 16, memory: 65536, disk: 4T}\n", "", "37: component host08 is shared and has no limit"},
		{"no name", "name: pc1\n    component_id", "component_id", "27: a component has no name"},
		{"same component twice", "spare]", "host09]", `37: there are two components urn:publicid:IDN+example.org+node+host09`},
		{"same name, other URN", "spare]", "pc1]", `37: there are two components "pc1"`},
		{"component id for many", "  - names: [host08..host10, spare]", "  - names: [host08..host10, spare]\n    component_id: urn:publicid:IDN+example.org+node+h", "38: component_id is for one component; this entry creates 4"},
		{"component id no URN", "urn:publicid:IDN+example.org+node+rack-1", "rack-1", "28: "},
		{"range backwards", "host08..host10", "host10..host08", `37: "host10..host08" is not a range`},
		{"range of nothing", "host08..host10", "..", `37: ".." is not a range`},
		{"range too long", "host08..host10", "host1..host99999999", "37: "},
		{"settings", "{address: 192.0.2.1, port: 623}", "[a]", "36: settings must be"},
		{"no provider", "provider: rack\n", "", "36: component host08 has no provider"},
		{"name of control characters", "name: pc1", `name: "pc\u00011"`, "27: name must be one line"},
		{"hyphen for a range", "[host08..host10, spare]", "host08-host10", `37: "host08-host10" is one name; for a range write host08..host10, for one component write name: host08-host10`},
		{"hyphen for a range in a list", "host08..host10", "host08-host10", `37: "host08-host10" is one name; for a range write host08..host10`},
		{"short range", "[host08..host10, spare]", "host08-10", `37: "host08-10" is one name; for a range write host08..host10`},
		{"three dots", "host08..host10", "host08...host10", `37: "host08...host10" is one name; for a range write host08..host10`},
		{"list in one text", "[host08..host10, spare]", "host08,host09", `37: "host08,host09" is one name; for a list write [host08, host09]`},
		{"range under name", "name: pc1", "name: pc1..pc3", `27: name "pc1..pc3" is one component; for a range write names: pc1..pc3`},
		{"name with a blank", "name: pc1", "name: pc 1", `27: name "pc 1" must not have blanks; write "pc-1"`},
		{"one of the names with a blank", "spare]", "spare pc]", `37: names "spare pc" must not have blanks; write "spare-pc"`},
		{"link type with a blank", "[lan, vlan]", "[lan, gre tunnel]", `8: link_types "gre tunnel" must not have blanks; write "gre-tunnel"`},
		{"image with a blank", "name: bsd,", "name: free bsd,", `17: name "free bsd" must not have blanks; write "free-bsd"`},
		{"sliver type with a blank", "name: raw-pc", `name: "raw pc "`, `19: name "raw pc " must not have blanks; write "raw-pc"`},
		{"control character in the only one", "hardware_types: small", `hardware_types: "a\u0001"`, "31: hardware_types must be one line"},
		{"misindented late in the file", "    settings:", "   settings:", "36: at or after line 36 this is not YAML: "},
		{"bracket not closed", "[raw-pc, vm]", "[raw-pc, vm", "30: at or after line 30 this is not YAML: "},
		{"tab", "    drained: true", "\tdrained: true", "34: at or after line 34 this is not YAML: "},
		{"capacity of a link", "capacity: 10G", "capacity: 10Gbit", "52: capacity must be a number of kbit/s, or of bits per second such as"},
		{"capacity of nothing", "capacity: 10G", "capacity: 0", "52: capacity must be"},
		{"capacity less than can be counted", "capacity: 10G", "capacity: 0.4", "52: capacity must be"},
		{"capacity beyond all bounds", "capacity: 10G", "capacity: 1e300", "52: capacity must be"},
		{"link without name", "{name: core, ", "{", "52: a link has no name"},
		{"link twice", "name: edge, type", "name: core, type", `53: there are two links "core"`},
		{"key of a link", "type: wireless", "typ: wireless", `53: a link has no key "typ"; did you mean "type"?`},
		{"link unknown", "link: core}", "link: cord}", `45: there is no link "cord"; did you mean "core"?`},
		{"interface without name", "{name: eth0, ", "{", "44: an interface has no name"},
		{"interface twice", "name: eth0", "name: eth1", `45: there are two interfaces "eth1"`},
		{"interfaces of two components with one URN", "border:0", "sw2:eth1", "50: there are two interfaces urn:publicid:IDN+example.org+interface+sw2:eth1"},
		{"role", "role: control", "role: boss", "44: role must be control, experimental or mixed"},
		{"public address of a range", "role: control", "public_ipv4: 192.0.2.98", "44: public_ipv4 is for one interface; this entry creates 2"},
		{"interface id of a range", "role: control", `component_id: "urn:publicid:IDN+example.org+interface+x"`, "44: component_id is for one interface; this entry creates 2"},
		{"interface id of a node", "+interface+border:0", "+node+border", "50: "},
		{"public address of an interface", "192.0.2.99", "2001:db8::1", "50: public_ipv4 must be an IPv4 address"},
		{"public address of an interface and of the pool", "192.0.2.99", "192.0.2.11", "50: public_ipv4 192.0.2.11 is also in public_addresses"},
		{"tag too great", "250]", "4095]", `54: vlans: "4095" is neither a tag from 1 to 4094`},
		{"tags backwards", "100..102", "102..100", `54: vlans: "102..100" is neither a tag`},
		{"tags with a hyphen", "100..102", "100-102", `54: vlans: "100-102" is neither a tag from 1 to 4094 nor a range of tags; write 250 or 100..199, for example`},
		{"tag twice", "250]", "101]", "54: vlans: the tag 101 is listed twice"},
		{"shared VLAN without name", "{name: exchange, ", "{", "56: a shared VLAN has no name"},
		{"shared VLAN without tag", "tag: 1750, ", "", "56: shared VLAN exchange has no tag"},
		{"shared VLAN with a tag of links", "tag: 1750", "tag: 250", "56: shared VLAN exchange has the tag 250, which is also in vlans"},
		{"shared VLAN with a reserved tag", "tag: 1750", "tag: 4095", "56: tag must be from 1 to 4094"},
		{"shared VLANs twice", "restricted: true}", "restricted: true}\n  - {name: exchange, tag: 3}", `57: there are two shared VLANs "exchange"`},
		{"shared VLANs of one tag", "restricted: true}", "restricted: true}\n  - {name: other, tag: 1750}", "57: shared VLANs exchange and other have the same tag 1750"},
		{"link addresses", "172.16.0.0/16", "172.16.0.0", "57: link_addresses must be an IPv4 network"},
		{"link addresses of IPv6", "172.16.0.0/16", "fd00::/48", "57: link_addresses must be an IPv4 network"},
		{"link addresses not at the border", "172.16.0.0/16", "172.16.1.0/16", "57: link_addresses 172.16.1.0/16 is an address in a network; write the network, 172.16.0.0/16"},
		{"link addresses too small", "172.16.0.0/16", "172.16.0.0/25", "57: link_addresses 172.16.0.0/25 is too small"},
		{"link addresses that are others'", "172.16.0.0/16", "172.0.0.0/8", "57: link_addresses 172.0.0.0/8 has public addresses"},
		{"public addresses", "192.0.2.20]", "192.0.2.0/24]", `58: public_addresses: "192.0.2.0/24" is neither an IPv4 address nor a range`},
		{"public addresses backwards", "192.0.2.10..192.0.2.12", "192.0.2.12..192.0.2.10", "58: public_addresses: "},
		{"public address twice", "192.0.2.20]", "192.0.2.11]", "58: public_addresses: 192.0.2.11 is listed twice"},
		{"too many public addresses", "192.0.2.20]", "11.0.0.0..11.255.255.255]", "58: public_addresses: "},
		{"public address of no host", "192.0.2.20]", "0.0.0.0]", "58: public_addresses: 0.0.0.0 is in 0.0.0.0/8, whose addresses cannot reach a node; remove it"},
		{"public address of a group", "192.0.2.20]", "224.0.0.1]", "58: public_addresses: 224.0.0.1 is in 224.0.0.0/3"},
		{"public address to all", "192.0.2.20]", "255.255.255.255]", "58: public_addresses: 255.255.255.255 is in 224.0.0.0/3"},
		{"public address of the host itself", "192.0.2.20]", "127.0.0.1]", "58: public_addresses: 127.0.0.1 is in 127.0.0.0/8"},
		{"public address among those of links", "192.0.2.20]", "172.16.9.1]", "58: public_addresses: 172.16.9.1 is in 172.16.0.0/16, the range for addresses of links; remove it, or set link_addresses"},
		{"public address of an interface among those of links", "192.0.2.99", "172.16.9.1", "50: public_ipv4 172.16.9.1 is in 172.16.0.0/16, the range for addresses of links"},
		{"public address of two interfaces", "public_ipv4: 192.0.2.99, component_id: \"urn:publicid:IDN+example.org+interface+border:0\"}", "public_ipv4: 192.0.2.99}\n      - {name: wan2, public_ipv4: 192.0.2.99}", "51: public_ipv4 192.0.2.99 is that of another interface; give each its own"},
		{"links of one URN", "name: edge, type", "name: \"urn:publicid:IDN+EXAMPLE.org+link+core\", type", "53: there are two links urn:publicid:IDN+EXAMPLE.org+link+core; rename one"},
		{"cross links", "cross_links: copy", "cross_links: stitch", "59: cross_links must be refuse or copy"},
		{"unit of loss", "packet_loss_unit: fraction", "packet_loss_unit: ratio", "60: packet_loss_unit must be percent or fraction"},
		{"way outside", "outbound: no", "outbound: maybe", "61: outbound must be unknown, yes or no"},
		{"monitoring page", "https://example.org/oml", "example.org", "64: doc must be a URL"},
		{"metric without id", "{id: Free_Mem}", "{unit: x}", "65: a metric has no id"},
		{"metric id", "Free_Mem", "free memory", "65: id must be 2 to 50 letters"},
		{"metric twice", "Free_Mem", "CPU.load", `65: there are two metrics "CPU.load"`},
		{"software twice", "version: 9", "version: 8.4.0", "68: software octave 8.4.0 is listed twice"},
		{"software without version", "version: 9, ", "", "68: software octave has no version"},
		{"software without name", "{name: octave, version: 9", "{version: 9", "68: software has no name"},
		{"version of software", "version: 9,", "version: nine,", `68: software: software.octave: "nine" is not a version`},
		{"name of software", "{name: octave, version: 9", "{name: 9/octave, version: 9", `68: software: "software.9/octave" is not the name of a feature`},
		{"software that does nothing", ", execute: apt-get install -y octave", "", "68: software octave has neither install nor execute"},
		{"archive of software", "https://example.org/octave.tar.gz", "/srv/octave.tar.gz", "67: install must be the name of a file in the folder catalogue"},
		{"key of software", "execute: apt", "excute: apt", `68: software has no key "excute"; did you mean "execute"?`},
		{"archive of a role", "https://example.org/web.tar.gz", "ftp://example.org/web", "70: url must be the name of a file in the folder catalogue"},
		{"role without archive", ", url: \"https://example.org/web.tar.gz\"", "", "70: galaxy entry alice.web has no url"},
		{"role twice", "clouds:", "  - {name: alice.web, url: \"https://example.org/2\"}\nclouds:", `71: galaxy lists the name "alice.web" twice`},
		{"cloud without name", "{name: north, ", "{", "72: a cloud has no name"},
		{"manager of a cloud", "+north.example.org+authority+cm", "+north.example.org+node+cm", "72: "},
		{"not YAML", "link_types: [lan, vlan]", "link_types: [lan, vlan", "this is not YAML"},
		{"second document", "components:", "---\ncomponents:", "a second YAML document begins here"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if strings.Count(whole, tt.old) < 1 {
				t.Fatalf("%q is not in the file", tt.old)
			}
			text := strings.Replace(whole, tt.old, tt.new, 1)
			_, err := Parse([]byte(text), "inventory.yaml", "example.org")
			var e *yamlfile.Error
			if !errors.As(err, &e) {
				t.Fatalf("error is %v", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is\n%v\nwant %s", err, tt.want)
			}
		})
	}
}

// TestSlipsAreBounded makes one mistake very often, and more interfaces than
// there may be.
func TestSlipsAreBounded(t *testing.T) {
	many := "sliver_types: [{name: vm}]\nprovider: rack\ncomponents:\n" + strings.Repeat("  - {names: a1..a1000, exclusive: true}\n", 2)
	_, err := Parse([]byte(many), "inv.yaml", "example.org")
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 101 || lines[100] != "inv.yaml: and 900 more mistakes; fix these first" {
		t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
	}
	wide := "sliver_types: [{name: vm}]\nprovider: rack\ncomponents:\n  - {name: b, exclusive: true, interfaces: [{name: e}]}\n" +
		"  - {names: a1..a700000, exclusive: true, interfaces: [{name: e}, {name: f}, {name: g}]}\n"
	_, err = Parse([]byte(wide), "inv.yaml", "example.org")
	if want := "inv.yaml:5: 3 interfaces on each of 700000 components are too many, since an inventory may have 2000000 in all; list fewer"; err == nil || err.Error() != want {
		t.Errorf("error is %v", err)
	}
}

func TestAllMistakesAtOnceInOrder(t *testing.T) {
	text := "sliver_types: [{name: vm, imagse: []}]\ncomponents:\n  - name: a\n    exclusive: yes\n  - nam: b\nunknown_image: x\n"
	_, err := Parse([]byte(text), "inv.yaml", "example.org")
	var e *yamlfile.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	var lines []int
	for _, p := range e.Problems {
		lines = append(lines, p.Line)
	}
	if diff := cmp.Diff([]int{1, 4, 5, 6}, lines); diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if !strings.HasPrefix(err.Error(), "inv.yaml:1: ") {
		t.Errorf("no file and line: %v", err)
	}
}

func TestParseNothing(t *testing.T) {
	for _, text := range []string{"", "# only a comment\n", "components: []\n", "[]", "7", "sliver_types: []\n"} {
		v, err := Parse([]byte(text), "f", "example.org")
		if err == nil && v.DefaultSliverType == nil && len(v.Components) > 0 {
			t.Errorf("%q: components without a sliver type", text)
		}
		if err == nil {
			t.Errorf("%q is accepted as an inventory", text)
		}
	}
	for _, text := range []string{"", "\n\n", "# only a comment\n", "---\n", "~"} {
		if _, err := Parse([]byte(text), "f", "example.org"); err == nil || !strings.HasPrefix(err.Error(), "f: the inventory is empty; ") {
			t.Errorf("%q: %v, want that it is empty", text, err)
		}
	}
	if v, err := Parse([]byte(strings.Replace(whole, "spare]", "rack1-12]", 1)), "f", "example.org"); err != nil || v.Components[4].Name != "rack1-12" {
		t.Errorf("a name with a hyphen in a list: %v", err)
	}
	if _, err := Parse([]byte(whole), "f", "not an authority"); err == nil {
		t.Error("an authority with blanks is accepted")
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "inventory.yaml")
	if _, err := Load(file, "example.org"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file gives %v", err)
	}
	if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := Load(file, "example.org"); err != nil || len(v.Components) != 8 {
		t.Errorf("Load gives %v, %v", v, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add(SimulatedText("example.org"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("sliver_types: &x\n - name: *x\n"))
	many := regexp.MustCompile(`\.\.[^\n]*[0-9]{4}`) // right, but slow to make so often
	f.Fuzz(func(t *testing.T, text []byte) {
		if many.Match(text) {
			t.Skip("a large range takes too long to make so often")
		}
		v, err := Parse(text, "f", "example.org")
		if err != nil {
			return
		}
		for i, c := range v.Components {
			if found, ok := v.Component(c.URN); !ok || found != c || c.Index != i || len(c.SliverTypes) == 0 {
				t.Fatalf("component %d %+v", i, c)
			}
		}
	})
}

// Each new site knows the names of clients of other testbeds for our kinds of nodes: geni-lib's
// RawPC and POWDER's profiles write raw, Emulab's write emulab-docker.
func TestNewSitesKnowForeignNames(t *testing.T) {
	for file, want := range map[string]map[string]string{
		"local.yaml":     {"raw": "container", "raw-pc": "container", "emulab-docker": "container"},
		"simulated.yaml": {"raw": "raw-pc", "emulab-docker": "vm"},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, kind := range want {
			_, list, _ := strings.Cut(string(text), "- name: "+kind+"\n")
			_, list, _ = strings.Cut(list, "aliases: [")
			list, _, _ = strings.Cut(list, "]")
			if !slices.Contains(strings.Split(list, ", "), name) {
				t.Errorf("%s: %s is no alias of %s, which has %s", file, name, kind, list)
			}
		}
	}
}
