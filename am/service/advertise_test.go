package service

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/schemas/xmltree"
)

var update = flag.Bool("update", false, "write the advertisements in testdata anew")

// advertise returns the advertisement of an inventory at a fixed time.
func advertise(t interface{ Fatal(...any) }, v *inventory.Inventory, onlyFree bool) string {
	x, err := (&binder.View{Inventory: v}).Availability()
	if err != nil {
		t.Fatal(err)
	}
	ads := newAdvertiser(v, &Config{GeneratedBy: "patchbay"})
	return string(ads.site.Append(nil, rspec.Availability{
		Generated: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Free: x.Free, PublicAddresses: x.FreePublicAddresses(), OnlyFree: onlyFree,
	}))
}

// equipped is an inventory with every key that appears in advertisements.
const equipped = `
provider: rack
link_types: [lan]
hardware_types: [d430, host]
images:
  - {name: debian, os: Linux, version: "12", description: "Debian & friends", url: "https://images.example.org/debian"}
  - {name: small, capabilities: {disk.0.os.flavour: [debian, linux]}}
sliver_types:
  - {name: raw-pc, images: [small, debian], default_image: debian}
  - {name: vm, images: [small], needs: {slots: 1, memory: 1G}, capabilities: {cpu.count: 1..4}}
  - {name: container}
gateways:
  - {name: front, host: gateway.example.org, port: 2222, user: keeper}
locations:
  - {name: basement, country: BE, latitude: 51.04, longitude: 3.73}
  - {name: somewhere, country: BE}
links:
  - {name: core, capacity: 10G}
  - {name: cable, type: fibre, capacity: 100M}
shared_vlans:
  - {name: exchange, tag: 1750, description: to the others}
  - {name: lab, tag: 1751, restricted: true}
public_addresses: [192.0.2.10..192.0.2.12]
monitoring:
  doc: https://example.org/monitoring
  metrics: [{id: cpu.load, description: load, unit: percent}, {id: mem}]
components:
  - names: pc1..pc2
    exclusive: true
    hardware_types: [d430]
    sliver_types: [raw-pc]
    location: basement
    capabilities: {cpu.count: 8, price: 1.5, disk.0.os.version: [11, 12.1]}
    gateway: front
    settings: {address: 198.51.100.7, mac: "02:00:00:00:00:07"}
    interfaces:
      - {name: eth0, role: control}
      - {name: eth1, link: core, capacity: 1G}
      - {name: eth2, link: cable}
  - name: host1
    exclusive: false
    hardware_types: [host]
    sliver_types: [vm, container]
    capacity: {slots: 20, memory: 8G}
    capabilities: {gpu.count: 0..2, memory.size: 8G}
    location: somewhere
    interfaces: [{name: eth0, role: mixed, link: core, public_ipv4: 192.0.2.99}]
  - {name: host2, exclusive: false, sliver_types: [container], capacity: {slots: 3}}
  - {name: old, exclusive: true, drained: true}
`

func parseInventory(t interface{ Fatal(...any) }, text string) *inventory.Inventory {
	v, err := inventory.Parse([]byte(text), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAdvertisedInventories(t *testing.T) {
	for _, tt := range []struct {
		file     string
		v        *inventory.Inventory
		onlyFree bool
	}{
		{"simulated", testInventory(t), false},
		{"equipped", parseInventory(t, equipped), false},
		{"equipped-free", parseInventory(t, equipped), true},
	} {
		got := advertise(t, tt.v, tt.onlyFree)
		file := "testdata/" + tt.file + ".ad.xml"
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s (-want +got):\n%s", file, d)
		}
		judge(t, got)
		for _, inside := range []string{"gateway.example.org", "2222", "keeper", "198.51.100.7", "02:00:00", "rack"} {
			if strings.Contains(got, inside) {
				t.Errorf("%s has %s, which is internal", file, inside)
			}
		}
	}
}

func judge(t interface{ Fatal(...any) }, ad string) {
	found, err := xmltree.Validate([]byte(ad), "", xmltree.Limits{})
	if err != nil || len(found) > 0 {
		t.Fatal(err, found, ad)
	}
}

func TestAdvertisedExtensions(t *testing.T) {
	simulated := New(Config{Inventory: inForce(testInventory(t))})
	full := New(Config{Inventory: inForce(parseInventory(t, equipped))})
	few, fewAds := simulated.RSpecExtensions()
	all, allAds := full.RSpecExtensions()
	has := func(list []string, words string) bool {
		return slices.ContainsFunc(list, func(x string) bool { return strings.Contains(x, words) })
	}
	for _, offer := range []string{"shared-vlan/1", "f4f_monitoring/1", "ext/monitoring/1"} {
		if has(few, offer) || has(fewAds, offer) || !has(all, offer) || !has(allAds, offer) {
			t.Errorf("%s: %v %v, %v %v", offer, few, fewAds, all, allAds)
		}
	}
	few[0], fewAds[0] = "x", "x"
	if again, againAds := simulated.RSpecExtensions(); again[0] == "x" || againAds[0] == "x" {
		t.Error("a caller can change what others get")
	}
}

// randomInventory is any inventory, as text.
func randomInventory(t *rapid.T) string {
	var b strings.Builder
	b.WriteString("provider: rack\nhardware_types: [fast, slow]\nimages: [{name: debian}, {name: bsd}]\nlinks: [{name: core, capacity: 1G}, {name: edge}]\n" +
		"sliver_types:\n  - {name: raw-pc, images: [debian, bsd]}\n  - {name: vm, images: [bsd]}\n  - {name: container}\n")
	if rapid.Bool().Draw(t, "monitoring") {
		b.WriteString("monitoring: {metrics: [{id: cpu}]}\n")
	}
	b.WriteString("components:\n")
	subset := func(label string, of ...string) string {
		return strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, len(of), rapid.ID).Draw(t, label), ", ")
	}
	name := rapid.StringMatching(`[A-Za-z0-9]([A-Za-z0-9_:&<'é-]{0,5}[a-z0-9])?`)
	for i, n := range rapid.SliceOfNDistinct(name, 1, 6, strings.ToLower).Draw(t, "names") {
		exclusive := rapid.Bool().Draw(t, "exclusive")
		fmt.Fprintf(&b, "  - name: %q\n    exclusive: %v\n    hardware_types: [%s]\n    sliver_types: [%s]\n    drained: %v\n",
			n, exclusive, subset("hardware", "fast", "slow"), subset("types", "raw-pc", "vm", "container"), rapid.Bool().Draw(t, "drained"))
		if !exclusive {
			fmt.Fprintf(&b, "    capacity: {slots: %d}\n", rapid.IntRange(1, 3).Draw(t, "slots"))
		}
		if rapid.Bool().Draw(t, "names itself") {
			fmt.Fprintf(&b, "    component_id: \"urn:publicid:IDN+example.org:lab+node+x%%26%d\"\n", i)
		}
		if rapid.Bool().Draw(t, "wired") {
			b.WriteString("    interfaces: [{name: eth0, role: control}, {name: eth1, link: core}, {name: eth2, link: edge}]\n")
		}
	}
	return b.String()
}

var (
	nodeText      = regexp.MustCompile(` <node .*</node>\n`)
	interfaceText = regexp.MustCompile(`<interface [^>]*>`)
	rootText      = regexp.MustCompile(`<rspec [^>]*>`)
)

// pasted makes a request of nodes copied from an advertisement, as clients do. Each node and each
// interface gets a client_id. Interfaces that are not for control get a link each.
func pasted(ad string, nodes ...string) string {
	root := strings.Replace(rootText.FindString(ad), `type="advertisement"`, `type="request"`, 1)
	links := ""
	for i, n := range nodes {
		port := 0
		n = interfaceText.ReplaceAllStringFunc(n, func(in string) string {
			port++
			if !strings.Contains(in, `role="control"`) {
				links += fmt.Sprintf(`<link client_id="l%d:%d"><interface_ref client_id="n%d:if%d"/></link>`, i, port, i, port)
			}
			return strings.Replace(in, "<interface ", fmt.Sprintf(`<interface client_id="n%d:if%d" `, i, port), 1)
		})
		root += strings.Replace(n, "<node ", fmt.Sprintf(`<node client_id="n%d" `, i), 1)
	}
	return root + links + "</rspec>"
}

// bindFree binds a request in an unused inventory.
func bindFree(r *rspec.Request, v *inventory.Inventory, slice urn.URN) (binder.Binding, error) {
	return binder.Bind(&binder.Request{Request: r, Slice: slice}, time.Time{}, time.Time{}, &binder.View{Inventory: v})
}

// TestAdvertisedNodesCanBeRequested copies a node from the advertisement of a random inventory
// into a request. If the node was advertised as available, the request gets that component and
// those interfaces. Otherwise it is refused for lack of room only.
func TestAdvertisedNodesCanBeRequested(t *testing.T) {
	slice := urn.MustParse("urn:publicid:IDN+example.org+slice+s")
	rapid.Check(t, func(t *rapid.T) {
		v := parseInventory(t, randomInventory(t))
		ad := advertise(t, v, false)
		judge(t, ad)
		nodes := nodeText.FindAllString(ad, -1)
		if len(nodes) != len(v.Components) {
			t.Fatalf("%d nodes of %d components:\n%s", len(nodes), len(v.Components), ad)
		}
		for i, n := range nodes {
			text := pasted(ad, n)
			r, err := rspec.ParseRequest([]byte(text), rspec.ReadOptions{Managers: []urn.URN{v.Manager}})
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			bound, err := bindFree(r, v, slice)
			switch want := v.Components[i]; {
			case strings.Contains(n, `<available now="true"/>`):
				if err != nil || len(bound.Nodes) != 1 || bound.Nodes[0].Component != want || bound.Nodes[0].SliverType != want.SliverTypes[0] {
					t.Fatalf("%s: %v %+v\n%s", want.Name, err, bound, text)
				}
				for k, in := range bound.Nodes[0].Interfaces {
					if port := want.Interfaces[k]; port.CarriesLinks() && in.Component != port.URN {
						t.Fatalf("%s: interface %d is %+v, want %s\n%s", want.Name, k, in, port.URN, text)
					}
				}
			case !want.Drained || err == nil:
				t.Fatalf("%s: %v\n%s", want.Name, err, text)
			default:
				e, ok := err.(*binder.UnsatisfiedError)
				if !ok || e.Reasons[0].Code != am.TooBig {
					t.Fatalf("%s: %v\n%s", want.Name, err, text)
				}
			}
		}
	})
}

// TestPastedNodesGetAManifest follows nodes from the advertisement to the manifest.
func TestPastedNodesGetAManifest(t *testing.T) {
	v := parseInventory(t, equipped)
	s := &Service{cfg: Config{Inventory: inForce(v)}}
	ad := advertise(t, v, true)
	text := pasted(ad, nodeText.FindAllString(ad, -1)...)
	r, err := rspec.ParseRequest([]byte(text), rspec.ReadOptions{Managers: []urn.URN{v.Manager}})
	if err != nil {
		t.Fatal(err)
	}
	bound, err := bindFree(r, v, urn.MustParse("urn:publicid:IDN+example.org+slice+s"))
	if err != nil {
		t.Fatal(err)
	}
	if image := bound.Nodes[0].Image; image != "debian" {
		t.Errorf("a pasted node gets the image %s, not the default", image)
	}
	part := rspec.Part{Request: r, Nodes: map[string]rspec.NodeFacts{}}
	want := map[string]string{}
	for i, n := range bound.Nodes {
		sliver := am.Sliver{
			URN: urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+sliver+%d", i)), ClientID: n.Node.ClientID, Component: n.Component.URN,
			SliverType: n.SliverType.Name, Image: n.Image, Exclusive: n.Exclusive,
		}
		part.Nodes[n.Node.ClientID] = s.nodeFacts(s.Inventory(), &sliver)
		want[n.Component.URN.String()] = sliver.URN.String()
	}
	manifest, err := rspec.WriteManifest([]rspec.Part{part}, rspec.ManifestOptions{Manager: v.Manager, Generated: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = xmltree.Parse(manifest, xmltree.Limits{}, func(d *xmltree.Doc) error {
		for _, c := range d.Root.Children {
			if n, ok := c.(*xmltree.Element); ok && n.Local == "node" {
				id, _ := n.Attr("", "component_id")
				got[id], _ = n.Attr("", "sliver_id")
			}
		}
		return nil
	})
	if err != nil || len(want) != 4 || !maps.Equal(want, got) {
		t.Errorf("%v: the manifest has %v, want %v\n%s", err, got, want, manifest)
	}
}

// TestAdvertisedMachineIsTheTable compares the advertised state machine with am.Next: exactly the
// advertised actions are accepted.
func TestAdvertisedMachineIsTheTable(t *testing.T) {
	m := stateMachine(testInventory(t))
	if m.Start != string(am.NotReady) || len(m.SliverTypes) != 2 || len(m.States) != len(am.AdvertisedStates) {
		t.Fatalf("machine: %+v", m)
	}
	for _, s := range m.States {
		next := map[string]string{}
		for _, a := range s.Actions {
			if a.Description == "" {
				t.Errorf("action %s in %s is not explained", a.Name, s.Name)
			}
			next[a.Name] = a.Next
		}
		for _, a := range am.Actions {
			to, err := am.Next(am.Status{Allocation: am.Provisioned, Operational: am.OperationalState(s.Name)}, a)
			if want, advertised := next[string(a)]; advertised != (err == nil) || advertised && want != string(to.Operational) {
				t.Errorf("%s in %s: advertised %q (%v), but am.Next says %v, %v", a, s.Name, want, advertised, to, err)
			}
		}
		for _, w := range s.Waits {
			if !strings.HasPrefix(w.Type, "geni_") || w.Next == "" {
				t.Errorf("wait of %s: %+v", s.Name, w)
			}
		}
	}
}
