package rspec

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/testkit/require"
	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

func site(n int) Site {
	s := Site{Manager: us, GeneratedBy: "patchbay", Machines: []Machine{{
		SliverTypes: []string{"raw-pc", "vm"}, Start: "geni_notready",
		States: []State{
			{Name: "geni_notready", Actions: []Action{{"geni_start", "geni_configuring", "switch on <&>"}}},
			{Name: "geni_configuring", Description: "booting", Waits: []Wait{{"geni_success", "geni_ready", ""}, {"geni_failure", "geni_failed", "too bad"}}},
			{Name: "geni_ready"}, {Name: "geni_failed"},
		},
	}}}
	raw := []AdSliverType{{Name: "raw-pc", Images: []AdImage{{Name: "urn:publicid:IDN+example.org+image+debian", OS: "Linux", Version: "12", Description: "Debian \"12\" é", Default: true}, {Name: "bare"}}}}
	for i := range n {
		node := AdNode{
			ComponentID: urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+node+pc%d", i)), Name: fmt.Sprintf("pc%d", i), Exclusive: true,
			HardwareTypes: []string{"pc3000", "pc"}, SliverTypes: raw, Location: &Location{"BE", "51.03", "3.73"},
		}
		if i%2 == 1 {
			node.Exclusive, node.SliverTypes, node.Location = false, []AdSliverType{{Name: "vm"}}, &Location{Latitude: "1", Longitude: "2"}
		}
		s.Nodes = append(s.Nodes, node)
	}
	return s
}

// fullSite has every feature: two exclusive nodes on a cable, both on a switch with a shared one,
// and a shared node without a hardware type.
func fullSite() Site {
	s := site(4)
	for i := range 3 {
		for j := range 2 {
			n := &s.Nodes[i]
			n.Interfaces = append(n.Interfaces, AdInterface{ComponentID: adInterface(i, j), Name: fmt.Sprintf("eth%d", j), Role: "experimental"})
		}
	}
	s.Nodes[0].Interfaces = append(s.Nodes[0].Interfaces, AdInterface{ComponentID: adInterface(0, 2), Name: "eth2", Role: "control", PublicIPv4: "192.0.2.7"})
	s.Nodes[1].Interfaces[0].Capacity = 10_000_000
	s.Nodes[3].HardwareTypes = nil
	s.Nodes[3].SliverTypes = []AdSliverType{{Name: "vm", Images: []AdImage{{Name: "urn:publicid:IDN+example.org+image+small"}}}, {Name: "container"}}
	s.Links = []AdLink{
		{ComponentID: urn.MustParse("urn:publicid:IDN+example.org+link+switch"), Name: "switch", Type: "ethernet", Capacity: 1_000_000,
			Interfaces: []urn.URN{adInterface(0, 0), adInterface(1, 0), adInterface(2, 0)}},
		{ComponentID: urn.MustParse("urn:publicid:IDN+example.org+link+cable"), Name: "cable", Type: "ethernet", Capacity: 100_000,
			Interfaces: []urn.URN{adInterface(0, 1), adInterface(2, 1)}},
		{ComponentID: urn.MustParse("urn:publicid:IDN+example.org+link+stub"), Interfaces: []urn.URN{adInterface(1, 1), adInterface(77, 0)}},
		{ComponentID: urn.MustParse("urn:publicid:IDN+example.org+link+elsewhere"), Type: "ethernet", Interfaces: []urn.URN{adInterface(78, 0)}},
	}
	s.SharedVLANs = []AdSharedVLAN{{Name: "mesoscale", Tag: 1750, Description: "between all <sites>"}, {Name: "private", Restricted: true}}
	s.Nodes[0].Capabilities = []AdCapability{{Feature: "cpu.count", Min: "8", Max: "8"}, {Feature: "location.country", Values: []string{"BE"}}}
	s.Nodes[3].Capabilities = []AdCapability{{Feature: "gpu.count", Min: "0", Max: "2", Consumable: true}}
	s.Nodes[3].SliverTypes[0].Capabilities = []AdCapability{{Feature: "memory.size", Min: "1G", Max: "8G", Consumable: true}}
	s.Nodes[3].SliverTypes[0].Images[0].Capabilities = []AdCapability{{Feature: "disk.0.os.flavour", Values: []string{"debian", "linux <&>"}}}
	s.PublicAddresses = 14
	s.Monitoring = &AdMonitoring{Type: "oml", Doc: "https://example.org/metrics", Metrics: []AdMetric{{"cpu_load", "load & idle", "%"}, {ID: "free_ram"}}}
	return s
}

func adInterface(node, number int) urn.URN {
	return urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+interface+pc%d:eth%d", node, number))
}

// at is an advertisement of which node i has free[i] slots left.
func at(onlyFree bool, free ...int) Availability {
	return Availability{Generated: someTime, Free: func(i int) int { return free[i] }, PublicAddresses: 9, OnlyFree: onlyFree}
}

// golden compares with a file of testdata, which -update writes, and validates by the schemas.
func golden(t *testing.T, file, got string) {
	t.Helper()
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
}

// judge validates an advertisement by our schemas, the published ones, and further expectations of
// clients.
func judge(t *testing.T, ad string) {
	t.Helper()
	found, err := xmltree.Validate([]byte(ad), "", xmltree.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
	validate(t, "ad.xsd", ad)
	if !isASCII(ad) || !strings.HasPrefix(ad, "<?xml ") || strings.Count(ad, "\n<rspec xmlns=\""+Namespace+"\"") != 1 {
		t.Errorf("begins with %.100q", ad)
	}
	err = xmltree.Parse([]byte(ad), xmltree.Limits{}, func(d *xmltree.Doc) error {
		for e := range below(d.Root) {
			seen := map[string]bool{}
			for _, a := range e.Attrs {
				name := strings.ToLower(a.Local)
				if seen[name] {
					t.Errorf("line %d: attribute %s occurs twice except for case", e.Line, name)
				}
				seen[name] = true
			}
		}
		dangling(t, d.Root)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// below is e and every element in it.
func below(e *xmltree.Element) func(yield func(*xmltree.Element) bool) {
	var walk func(e *xmltree.Element, yield func(*xmltree.Element) bool) bool
	walk = func(e *xmltree.Element, yield func(*xmltree.Element) bool) bool {
		if !yield(e) {
			return false
		}
		for _, c := range e.Children {
			if child, ok := c.(*xmltree.Element); ok && !walk(child, yield) {
				return false
			}
		}
		return true
	}
	return func(yield func(*xmltree.Element) bool) { walk(e, yield) }
}

// dangling reports references of links to interfaces that no node has.
func dangling(t *testing.T, root *xmltree.Element) {
	t.Helper()
	have := map[string]bool{}
	for _, n := range children(root, "node") {
		for _, i := range children(n, "interface") {
			have[value(i, "component_id")] = true
		}
	}
	for _, l := range children(root, "link") {
		refs := children(l, "interface_ref")
		if len(refs) == 0 {
			t.Errorf("link %s has no interfaces", value(l, "component_name"))
		}
		for _, r := range refs {
			if id := value(r, "component_id"); !have[id] {
				t.Errorf("link %s refers to %s, which no node has", value(l, "component_name"), id)
			}
		}
		for _, p := range children(l, "property") {
			if from, to := value(p, "source_id"), value(p, "dest_id"); !have[from] || !have[to] {
				t.Errorf("link %s has a property from %s to %s", value(l, "component_name"), from, to)
			}
		}
	}
}

func TestAdvertisementOfEverything(t *testing.T) {
	a := NewAdvertiser(fullSite())
	got := string(a.Append([]byte("before"), at(false, 1, 7, 0, 3)))
	rest, ok := strings.CutPrefix(got, "before")
	if !ok {
		t.Fatalf("%.20q: the earlier content is removed", got)
	}
	golden(t, "testdata/full.ad.xml", rest)
	if a.size < len(rest) {
		t.Errorf("room for %d bytes is made, but it takes %d", a.size, len(rest))
	}
	want := []string{opstateSpace, emulabSpace, sharedVLANSpace, monitoringSpace, oldMonitoringSpace, matchSpace}
	if d := cmp.Diff(want, a.Extensions()); d != "" {
		t.Error(d)
	}
}

func TestAdvertisementOfFreeNodes(t *testing.T) {
	a := NewAdvertiser(fullSite())
	golden(t, "testdata/free.ad.xml", string(a.Append(nil, at(true, 0, 7, 1, -1))))
	for free := range 16 {
		text := string(a.Append(nil, at(true, free&1, free&2, free&4, free&8)))
		judge(t, text)
		if strings.Contains(text, `now="false"`) {
			t.Errorf("%b: a node that is not free", free)
		}
		for i := range 4 {
			if has := strings.Contains(text, fmt.Sprintf("component_name=\"pc%d\"", i)); has != (free&(1<<i) != 0) {
				t.Errorf("%b: node %d is listed: %v", free, i, has)
			}
		}
	}
}

// TestAdvertisementOfAWindow has nodes 0 and 2 taken for one time, and node 0 for another.
func TestAdvertisementOfAWindow(t *testing.T) {
	s := fullSite()
	s.Leases, s.AdLeases = true, true
	a := NewAdvertiser(s)
	now := at(false, 0, 7, 0, 3)
	hour := func(n time.Duration) time.Time { return someTime.Add(n * time.Hour) }
	now.Window = &AdWindow{From: hour(1), Until: hour(9), Leases: []AdLease{{hour(1), hour(2), []int{0, 2}}, {hour(3), hour(9), []int{0}}}}
	golden(t, "testdata/window.ad.xml", string(a.Append(nil, now)))
	now.OnlyFree, now.Window.Leases = true, nil
	if text := string(a.Append(nil, now)); strings.Count(text, "<schedule ") != 1 || strings.Contains(text, nitosSpace) {
		t.Errorf("without leases: %s", text)
	}
	if got := a.Extensions(); !slices.Contains(got, scheduleSpace) || !slices.Contains(got, nitosSpace) || !slices.Contains(s.RequestExtensions(), nitosSpace) {
		t.Errorf("extensions %v, in requests %v", got, s.RequestExtensions())
	}
}

// TestMonitoringIsInBothNamespaces (S8): the federation's text and its documents have different
// namespaces for monitoring. Each node that offers it says so in both, with the same content.
func TestMonitoringIsInBothNamespaces(t *testing.T) {
	s := site(2)
	s.Monitoring = &AdMonitoring{Type: "oml", Doc: "https://example.org/metrics", Metrics: []AdMetric{{"cpu", "load", "%"}, {ID: "ram"}}}
	ad := NewAdvertiser(s).Append(nil, at(false, 1, 1))
	judge(t, string(ad))
	err := xmltree.Parse(ad, xmltree.Limits{}, func(d *xmltree.Doc) error {
		nodes := children(d.Root, "node")
		for _, n := range nodes {
			offers := map[string]string{}
			for c := range childElements(n) {
				if isMonitoring(c) {
					offers[c.Space] += value(c, "supported") + " " + value(c, "type") + " " + value(c, "doc")
					for m := range childElements(c) {
						offers[c.Space] += fmt.Sprintf(" %t:%s:%s:%s", m.Space == c.Space, value(m, "id"), value(m, "description"), value(m, "unit"))
					}
				}
			}
			const want = "true oml https://example.org/metrics true:cpu:load:% true:ram::"
			if diff := cmp.Diff(map[string]string{monitoringSpace: want, oldMonitoringSpace: want}, offers); diff != "" {
				t.Error(diff)
			}
		}
		if len(nodes) != 2 {
			t.Errorf("%d nodes", len(nodes))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestOnlyUsedExtensionsAreDeclared checks that a document declares exactly the extensions that it uses.
func TestOnlyUsedExtensionsAreDeclared(t *testing.T) {
	exclusive, shared := site(1), site(2)
	shared.Nodes = shared.Nodes[1:]
	exclusive.Nodes[0].HardwareTypes = nil
	for _, tt := range []struct {
		rule   string
		site   Site
		change func(*Site)
		want   []string
		prefix string
	}{
		{"nothing", Site{Manager: us}, func(*Site) {}, nil, ""},
		{"exclusive nodes without hardware types need opstate only", exclusive, func(*Site) {}, []string{opstateSpace}, ""},
		{"exclusive nodes with hardware types have slots", site(1), func(*Site) {}, []string{opstateSpace, emulabSpace}, "emulab"},
		{"a machine without sliver types is none", exclusive, func(s *Site) { s.Machines = []Machine{{Start: "geni_notready"}} }, nil, ""},
		{"shared nodes count slots", shared, func(*Site) {}, []string{opstateSpace, emulabSpace}, "emulab"},
		{"public addresses need no prefix", exclusive, func(s *Site) { s.PublicAddresses = 1 }, []string{opstateSpace, emulabSpace}, ""},
		{"shared VLANs", exclusive, func(s *Site) { s.SharedVLANs = []AdSharedVLAN{{Name: "v"}} }, []string{opstateSpace, sharedVLANSpace}, ""},
		{"monitoring", exclusive, func(s *Site) { s.Monitoring = &AdMonitoring{} }, []string{opstateSpace, monitoringSpace, oldMonitoringSpace}, "f4f"},
		{"monitoring of no nodes", Site{Manager: us}, func(s *Site) { s.Monitoring = &AdMonitoring{} }, nil, ""},
	} {
		s := tt.site
		tt.change(&s)
		a := NewAdvertiser(s)
		text := string(a.Append(nil, at(false, 1)))
		judge(t, text)
		if d := cmp.Diff(tt.want, a.Extensions()); d != "" {
			t.Errorf("%s:\n%s", tt.rule, d)
		}
		root, _, _ := strings.Cut(text[strings.Index(text, "<rspec"):], ">")
		for _, prefix := range []string{"emulab", "f4f"} {
			if strings.Contains(root, "xmlns:"+prefix+"=") != (tt.prefix == prefix) {
				t.Errorf("%s: prefix %s: %s", tt.rule, prefix, root)
			}
		}
		for _, x := range []string{opstateSpace, emulabSpace, sharedVLANSpace, monitoringSpace, oldMonitoringSpace} {
			used := 0
			for _, want := range tt.want {
				if x == want {
					used = 1
				}
			}
			if n := strings.Count(root, x+" "+x+"/"); n != used {
				t.Errorf("%s: %d schemas of %s: %s", tt.rule, n, x, root)
			}
		}
	}
}

// TestExclusiveNodesAdvertiseANodeTypeWithOneSlot checks the element node_type of Emulab, without
// which geni-lib ignores hardware types. Its number of slots is constant; the element available
// shows whether the node is free.
func TestExclusiveNodesAdvertiseANodeTypeWithOneSlot(t *testing.T) {
	s := site(1)
	s.Nodes[0].HardwareTypes = []string{"pc3000", "pc"}
	a := NewAdvertiser(s)
	for _, free := range []int{0, 1} {
		text := string(a.Append(nil, at(false, free)))
		judge(t, text)
		for _, name := range s.Nodes[0].HardwareTypes {
			if !strings.Contains(text, `<hardware_type name="`+name+`"><emulab:node_type type_slots="1"/></hardware_type>`) {
				t.Errorf("hardware type %s has no node_type while %d are free: %s", name, free, text)
			}
		}
		if !strings.Contains(text, fmt.Sprintf(`<available now="%t"/>`, free == 1)) {
			t.Errorf("%d are free: %s", free, text)
		}
	}
}

func TestLocationNeedsCountryAndCoordinates(t *testing.T) {
	for _, tt := range []struct {
		location *Location
		told     bool
	}{
		{nil, false}, {&Location{Country: "BE"}, false}, {&Location{"BE", "51.03", ""}, false}, {&Location{"", "51.03", "3.73"}, false}, {&Location{"BE", "51.03", "3.73"}, true},
	} {
		s := site(1)
		s.Nodes[0].Location = tt.location
		if text := string(NewAdvertiser(s).Append(nil, at(false, 1))); strings.Contains(text, "<location") != tt.told {
			t.Errorf("%+v: %s", tt.location, text)
		}
	}
}

func TestRequestExtensions(t *testing.T) {
	s := Site{Manager: us}
	always := s.RequestExtensions()
	if d := cmp.Diff([]string{userSpace, proxySpace, emulabSpace, matchSpace, netSpace, originSpace, setupSpace, toscaSpace, toscaBase}, always); d != "" {
		t.Error(d)
	}
	s.SliverInfo = true
	if d := cmp.Diff([]string{userSpace, proxySpace, emulabSpace, matchSpace, netSpace, originSpace, setupSpace, toscaSpace, toscaBase, sliverSpace}, s.RequestExtensions()); d != "" {
		t.Errorf("of a site whose manifests have sliver-info: %s", d)
	}
	s = fullSite()
	if d := cmp.Diff(append(always, sharedVLANSpace, oldSharedVLANSpace, monitoringSpace, oldMonitoringSpace), s.RequestExtensions()); d != "" {
		t.Error(d)
	}
}

// TestAdvertisementsByThePublishedExtensions validates by the published schemas of all extensions
// together, except that of monitoring, which cannot be compiled.
func TestAdvertisementsByThePublishedExtensions(t *testing.T) {
	dir, xmllint := require.Shared(t, "schemas"), require.Tool(t, "xmllint")
	schema := `<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">`
	for space, file := range map[string]string{
		Namespace:       "geni.net_resources_rspec_3/ad.xsd",
		opstateSpace:    "geni.net_resources_rspec_ext_opstate_1/ad.xsd",
		sharedVLANSpace: "geni.net_resources_rspec_ext_shared-vlan_1/ad-vlan.omnlib.xsd",
		emulabSpace:     "protogeni.net_resources_rspec_ext_emulab_1/ptop_extension.xsd",
		nitosSpace:      "nitlab.inf.uth.gr_schema_sfa_rspec_1/ad-reservation.omnlib.xsd",
	} {
		schema += fmt.Sprintf("\n<xs:import namespace=%q schemaLocation=%q/>", space, filepath.Join(dir, file))
	}
	all := filepath.Join(t.TempDir(), "all.xsd")
	if err := os.WriteFile(all, []byte(schema+"\n</xs:schema>"), 0o600); err != nil {
		t.Fatal(err)
	}
	ads, err := filepath.Glob("testdata/*.ad.xml")
	if err != nil || len(ads) == 0 {
		t.Fatal(err, ads)
	}
	out, err := exec.Command(xmllint, append([]string{"--nonet", "--noout", "--schema", all}, ads...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// The schemas must refuse an invalid document.
	ad, err := os.ReadFile(ads[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range [][2]string{{`<sliver_type name="raw-pc"/>`, `<sliver_type/>`}, {`type_slots=`, `slots=`}, {`localTag="1750"`, `localTag="a"`}, {`exclusive="true"`, ``}} {
		file := filepath.Join(t.TempDir(), "wrong.xml")
		if err := os.WriteFile(file, []byte(strings.Replace(string(ad), wrong[0], wrong[1], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(xmllint, "--nonet", "--noout", "--schema", all, file).CombinedOutput(); err == nil {
			t.Errorf("%s instead of %s is accepted: %s", wrong[1], wrong[0], out)
		}
	}
}

func TestAdvertisementIsASCIIAndWellFormed(t *testing.T) {
	s := fullSite()
	const nasty = "<&>\"'é\n\x01]]>"
	s.GeneratedBy = nasty
	n := &s.Nodes[1]
	n.Name, n.HardwareTypes = nasty, []string{nasty}
	n.SliverTypes = []AdSliverType{{Name: nasty, Images: []AdImage{{Name: nasty, OS: nasty, Version: nasty, Description: nasty, Default: true}}}}
	n.Location = &Location{nasty, nasty, nasty}
	s.Machines[0].SliverTypes = []string{nasty}
	s.Machines[0].States[0] = State{nasty, nasty, []Action{{nasty, nasty, nasty}}, []Wait{{nasty, nasty, nasty}}}
	n.Interfaces[0].Name, n.Interfaces[0].Role, n.Interfaces[0].PublicIPv4 = nasty, nasty, nasty
	s.Links[0].Name, s.Links[0].Type = nasty, nasty
	s.SharedVLANs[0] = AdSharedVLAN{Name: nasty, Description: nasty}
	s.Monitoring = &AdMonitoring{nasty, nasty, []AdMetric{{nasty, nasty, nasty}}}
	got := string(NewAdvertiser(s).Append(nil, at(false, 1, 1, 1, 1)))
	if !isASCII(got) {
		t.Error("not ASCII")
	}
	err := xmltree.Parse([]byte(got), xmltree.Limits{}, func(d *xmltree.Doc) error {
		node := children(d.Root, "node")[1]
		if name := value(node, "component_name"); name != strings.ReplaceAll(nasty, "\x01", "\uFFFD") {
			t.Errorf("the name reads %q", name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
