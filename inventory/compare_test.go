package inventory

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
)

const comparedTop = `provider: rack
hardware_types: [small, large]
images: [{name: debian}]
sliver_types: [{name: raw-pc, images: [debian]}, {name: vm, needs: {slots: 1}}]
gateways: [{name: g, host: g.example.org, user: door}]
locations: [{name: here, country: BE}]
links: [{name: core}]
vlans: [100..101]
shared_vlans: [{name: s, tag: 200}]
public_addresses: [192.0.2.10]
`

const compared = comparedTop + `components:
  - {name: pc1, exclusive: true, hardware_types: [small], interfaces: [{name: eth1, link: core, capacity: 1G}]}
  - {name: h1, exclusive: false, sliver_types: [vm], capacity: {slots: 4}}
`

// otherwise is the inventory of the tables with texts replaced, which must be there.
func otherwise(t *testing.T, pairs ...string) *Inventory {
	t.Helper()
	text := compared
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%q is nowhere", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	v, err := Parse([]byte(text), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		pairs []string
		want  string // of all changes, joined
	}{
		{nil, ""},
		{[]string{"components:\n", "components:\n  - {names: pc5..pc30, exclusive: true}\n"}, "components pc5..pc30: are new"},
		{[]string{"[192.0.2.10]", "[192.0.2.10..192.0.2.12]"}, "public addresses 192.0.2.11, 192.0.2.12: are new"},
		{[]string{"{name: debian}", "{name: debian}, {name: bsd}, {name: plan9}"}, "images bsd, plan9: are new"},
		{[]string{"name: pc1", "name: pc2"}, "component pc2: is new; component pc1: was removed; it is not advertised and accepts no slivers"},
		{[]string{"{name: pc1,", "{name: pc1, drained: true,"}, "component pc1: is drained; it accepts no slivers"},
		{[]string{"{name: pc1,", "{name: pc1, component_id: 'urn:publicid:IDN+example.org+node+x',"}, "component pc1: its component_id was urn:publicid:IDN+example.org+node+pc1 and is urn:publicid:IDN+example.org+node+x"},
		{[]string{"{name: pc1,", "{name: x, component_id: 'urn:publicid:IDN+example.org+node+pc1',"}, "component x: its name was pc1"},
		{[]string{"{name: pc1,", "{name: pc1, provider: other,"}, "component pc1: its provider was rack and is other; each sliver keeps the provider that created it"},
		{[]string{"exclusive: false", "exclusive: true", ", capacity: {slots: 4}", ""}, "component h1: was shared and is exclusive"},
		{[]string{"exclusive: true", "exclusive: false, capacity: {slots: 2}"}, "component pc1: was exclusive and is shared"},
		{[]string{"slots: 4", "slots: 2, memory: 8G"}, "component h1: its capacity was 4 slots and is 2 slots, 8192 MiB of memory"},
		{[]string{"hardware_types: [small],", "hardware_types: [large],"}, "component pc1: its hardware types were small and are large"},
		{[]string{"sliver_types: [vm]", "sliver_types: [vm, raw-pc]"}, "component h1: its sliver types were vm and are vm, raw-pc"},
		{[]string{"{name: pc1,", "{name: pc1, gateway: g,"}, "component pc1: its gateway has changed, also in manifests"},
		{[]string{"{name: pc1,", "{name: pc1, location: here,"}, "component pc1: its location has changed"},
		{[]string{"{name: pc1,", "{name: pc1, settings: {a: b},"}, "component pc1: its settings have changed"},
		{[]string{"capacity: 1G", "capacity: 2G"}, "component pc1: its interfaces have changed"},
		{[]string{"needs: {slots: 1}", "needs: {slots: 2}"}, "sliver type vm: its needs were 1 slot and are 2 slots; existing slivers keep their amounts"},
		{[]string{"{name: pc1,", "{name: pc1, capabilities: {cpu.count: 8},"}, "component pc1: its cpu.count was none and is 8"},
		{[]string{"slots: 4}", "slots: 4}, capabilities: {gpu.count: 0..2}"}, "component h1: its capacity was 4 slots and is 4 slots, 2 GPUs; component h1: its gpu.count was none and is 0..2"},
		{[]string{"needs: {slots: 1}", "capabilities: {cpu.count: 1..4}"}, "sliver type vm: its cpu.count was none and is 1..4"},
		{[]string{"{name: debian}", "{name: debian, capabilities: {disk.0.os.name: linux}}"}, "image debian: has another description"},
		{[]string{"{name: debian}", "{name: debian, os: Linux}"}, "image debian: has another description"},
		{[]string{"{name: debian}", "{name: debian}, {name: bsd}"}, "image bsd: is new"},
		{[]string{"100..101", "101..102"}, "VLAN tag 102: is new; VLAN tag 100: was removed"},
		{[]string{"tag: 200", "tag: 201"}, "shared VLAN s: its tag was 200 and is 201"},
		{[]string{"192.0.2.10", "192.0.2.11"}, "public address 192.0.2.11: is new; public address 192.0.2.10: was removed"},
		{[]string{"links: [{name: core}]", "links: [{name: core, type: fiber}]"}, "link core: has another description"},
		{[]string{"provider: rack", "provider: rack\noutbound: yes\ndefault_sliver_type: vm"}, "the site: default_sliver_type was raw-pc and is vm; component pc1: its sliver types were raw-pc and are vm; the site: outbound was unknown and is yes"},
		{[]string{"provider: rack", "provider: rack\nmonitoring: {type: oml}"}, "the site: monitoring has changed"},
		{[]string{"provider: rack", "provider: rack\nsoftware: [{name: r, version: 4.2, execute: make}]"}, "the site: software has changed"},
		{[]string{"provider: rack", "provider: rack\ngalaxy: [{name: r, url: 'https://example.org/r.tgz'}]"}, "the site: galaxy has changed"},
		{[]string{"provider: rack", "provider: rack\nclouds: [{name: r, manager: 'urn:publicid:IDN+example.org+authority+cm'}]"}, "the site: clouds has changed"},
	} {
		var texts []string
		for _, c := range Compare(otherwise(t), otherwise(t, tt.pairs...)) {
			texts = append(texts, c.String())
		}
		got := strings.Join(texts, "; ")
		if got != tt.want && !sameParts(got, tt.want) {
			t.Errorf("%q:\n%s\nwant\n%s", tt.pairs, got, tt.want)
		}
	}
}

// sameParts reports whether two texts have the same parts in another order.
func sameParts(a, b string) bool {
	count := map[string]int{}
	for p := range strings.SplitSeq(a, "; ") {
		count[p]++
	}
	for p := range strings.SplitSeq(b, "; ") {
		count[p]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// reservedOn returns a sliver that was reserved with the inventory of the tables.
func reservedOn(component string) am.Sliver {
	x := am.Sliver{
		Slice: urn.MustParse("urn:publicid:IDN+example.org+slice+s"), Component: urn.URN{Authority: "example.org", Type: urn.Node, Name: component},
		ComponentName: component, Provider: "rack", SliverType: "vm", Amount: am.Amount{Slots: 1},
		Status: am.Status{Allocation: am.Provisioned, Operational: am.Ready}, Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	if component == "pc1" {
		x.SliverType, x.Image, x.HardwareType, x.Exclusive = "raw-pc", "debian", "small", true
		x.Interfaces = []am.Interface{{ClientID: "i", Component: urn.URN{Authority: "example.org", Type: urn.Interface, Name: "pc1:eth1"}, ComponentName: "eth1", Out: 500_000, In: 5, VLAN: 100}}
		x.PublicAddress = netip.MustParseAddr("192.0.2.10")
	}
	return x
}

// on returns equal slivers on components.
func on(names ...string) (list []am.Sliver) {
	for _, name := range names {
		x := reservedOn(name)
		x.Exclusive = true
		list = append(list, x)
	}
	return list
}

// later is x reserved for a month, from January or so many months later.
func later(x am.Sliver, months int) am.Sliver {
	x.URN.Name += strconv.Itoa(months)
	x.Begins = x.Expires.AddDate(0, months+1, 0)
	x.Ends = x.Begins.AddDate(0, 1, 0)
	x.Expires = x.Begins.Add(time.Hour)
	return x
}

func TestConsequences(t *testing.T) {
	onPC, onHost := reservedOn("pc1"), reservedOn("h1")
	leaving, frozen := reservedOn("h1"), reservedOn("h1")
	leaving.Status.Allocation, frozen.Frozen = am.Unallocated, true
	old := reservedOn("pc1")
	old.Provider, old.ComponentName = "", ""
	shared := reservedOn("pc1")
	shared.Interfaces[0].VLAN, shared.Interfaces[0].SharedVLAN = 200, "s"
	const of, one = " (1 sliver of urn:publicid:IDN+example.org+slice+s", ", until 2030-01-02T03:04:05Z)"
	for _, tt := range []struct {
		what    string
		pairs   []string
		slivers []am.Sliver
		want    []string // "!" before a warning, and its line
	}{
		{"nothing", nil, []am.Sliver{onPC, onHost, shared}[:2], nil},
		{"removed", []string{"name: pc1", "name: pc2"}, []am.Sliver{onPC},
			[]string{"!0 pc1: it is not in the inventory, and rack manages its slivers until they are deleted; if it was only renamed, drain the new one until then" + of + one}},
		{"removed, and no provider is known", []string{"name: pc1", "name: pc2"}, []am.Sliver{old},
			[]string{"!0 pc1: it is not in the inventory and its provider is unknown, so its slivers cannot be removed: add it again with drained: true" + of + one}},
		{"drained", []string{"exclusive: false", "exclusive: false, drained: true"}, []am.Sliver{onHost, leaving, frozen},
			[]string{" 13 h1: it is drained (3 slivers of urn:publicid:IDN+example.org+slice+s, 1 being removed, 1 frozen" + one}},
		{"another URN", []string{"{name: pc1,", "{name: pc1, component_id: 'urn:publicid:IDN+example.org+node+x',"}, []am.Sliver{onPC},
			[]string{" 12 pc1: its component_id has changed; manifests keep the old one" + of + one}},
		{"another name", []string{"{name: pc1,", "{name: x, component_id: 'urn:publicid:IDN+example.org+node+pc1',"}, []am.Sliver{onPC},
			[]string{" 12 x: its name has changed; its provider still gets the old one" + of + one}},
		{"another provider", []string{"{name: pc1,", "{name: pc1, provider: other,"}, []am.Sliver{onPC},
			[]string{"!12 pc1: its provider is other, and rack, which must stay in the folder of providers, manages its slivers until they are deleted" + of + one}},
		{"another gateway", []string{"{name: pc1,", "{name: pc1, gateway: g,"}, []am.Sliver{onPC},
			[]string{" 12 pc1: its gateway is now door@g.example.org:22, also in manifests" + of + one}},
		{"several reasons in one line", []string{"exclusive: false, sliver_types: [vm], capacity: {slots: 4}", "exclusive: true, drained: true"}, []am.Sliver{onHost, onHost, onHost},
			[]string{"!13 h1: it is drained; it no longer offers vm; it is exclusive, and accepts no slivers until its 3 slivers are deleted (3 slivers of urn:publicid:IDN+example.org+slice+s" + one}},
		{"components of which the same is said in one line", []string{"components:\n", "components:\n  - {names: pc5..pc9, drained: true, exclusive: true}\n"}, on("pc5", "pc6", "pc7", "pc9"),
			[]string{" 12 pc5..pc7, pc9: it is drained; it no longer offers vm (4 slivers of urn:publicid:IDN+example.org+slice+s" + one}},
		{"exclusive with several", []string{"exclusive: false", "exclusive: true", ", capacity: {slots: 4}", ""}, []am.Sliver{onHost, leaving, frozen},
			[]string{"!13 h1: it is exclusive, and accepts no slivers until its 3 slivers are deleted (3 slivers of urn:publicid:IDN+example.org+slice+s, 1 being removed, 1 frozen" + one}},
		{"exclusive with one", []string{"exclusive: false", "exclusive: true", ", capacity: {slots: 4}", ""}, []am.Sliver{onHost},
			[]string{" 13 h1: it is exclusive now" + of + one}},
		{"reservations one after the other", []string{"exclusive: false", "exclusive: true", ", capacity: {slots: 4}", ""}, []am.Sliver{onHost, later(onHost, 0), later(onHost, 1)},
			[]string{" 13 h1: it is exclusive now (3 slivers of urn:publicid:IDN+example.org+slice+s, 2 reserved from 2030-02-02T03:04:05Z, until 2030-04-02T03:04:05Z)"}},
		{"shared", []string{"exclusive: true", "exclusive: false, capacity: {slots: 2}"}, []am.Sliver{onPC},
			[]string{" 12 pc1: it is shared now, and the slice keeps exclusive use" + of + one}},
		{"too small", []string{"slots: 4", "slots: 1"}, []am.Sliver{onHost, onHost},
			[]string{"!13 h1: its slivers use 2 slots of 1 slot, so it accepts no slivers until they fit (2 slivers of urn:publicid:IDN+example.org+slice+s" + one}},
		{"other sliver types", []string{"sliver_types: [vm]", "sliver_types: [raw-pc]"}, []am.Sliver{onHost},
			[]string{" 13 h1: it no longer offers vm" + of + one}},
		{"other hardware", []string{"hardware_types: [small],", "hardware_types: [large],"}, []am.Sliver{onPC},
			[]string{" 12 pc1: it is no longer small, which manifests still name" + of + one}},
		{"no image", []string{"images: [{name: debian}]", "images: [{name: bsd}]", "images: [debian]", "images: [bsd]"}, []am.Sliver{onPC},
			[]string{" 0 image debian: it is no longer offered; manifests keep it, and its provider may be unable to make a node from it" + of + one}},
		{"no interface", []string{"name: eth1", "name: eth2"}, []am.Sliver{onPC},
			[]string{"!12 pc1 eth1: the interface is not in the inventory, so the capacity that its links use is not counted; restore it under its name until the links are deleted" + of + one}},
		{"a slower interface", []string{"capacity: 1G", "capacity: 100M"}, []am.Sliver{onPC},
			[]string{"!12 pc1 eth1: its links use 500000 kbit/s out and 5 in, of 100000; they stay, and no link can be added until they fit" + of + one}},
		{"another tag", []string{"100..101", "101..102"}, []am.Sliver{onPC},
			[]string{" 0 VLAN 100: it is no longer offered; its link keeps it, and it is not assigned again" + of + one}},
		{"a tag that is shared", []string{"100..101", "101", "tag: 200", "tag: 100"}, []am.Sliver{onPC},
			[]string{"!0 VLAN 100: it is the tag of the shared VLAN s, and a private link uses it; no link can join until the private link is deleted" + of + one}},
		{"a shared VLAN with another tag", []string{"tag: 200", "tag: 201"}, []am.Sliver{shared},
			[]string{"!0 shared VLAN s: its tag is 201; existing links stay on 200 and do not reach new ones" + of + one}},
		{"no shared VLAN", []string{"name: s,", "name: t,"}, []am.Sliver{shared},
			[]string{"!0 shared VLAN s: it is no longer offered; its links stay" + of + one}},
		{"another public address", []string{"192.0.2.10", "192.0.2.11"}, []am.Sliver{onPC},
			[]string{" 0 public address 192.0.2.10: it is no longer offered; its node keeps it, and it is not assigned again" + of + one}},
	} {
		var got []string
		for _, c := range Consequences(otherwise(t, tt.pairs...), tt.slivers) {
			mark := " "
			if c.Warning {
				mark = "!"
			}
			got = append(got, fmt.Sprint(mark, c.Line, " ", c))
		}
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", tt.what, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}
