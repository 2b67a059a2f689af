package rspec

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
	raw := []AdSliverType{{"raw-pc", []AdImage{{Name: "urn:publicid:IDN+example.org+image+debian", OS: "Linux", Version: "12", Description: "Debian \"12\" é", Default: true}, {Name: "bare"}}}}
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

func TestAdvertisement(t *testing.T) {
	s := site(3)
	s.Nodes[2].HardwareTypes, s.Nodes[2].Location = nil, &Location{Country: "DE", Latitude: "1"}
	s.Lifetime = time.Minute
	free := []int{1, 7, 0}
	got := string(NewAdvertiser(s).Append([]byte("before"), someTime, func(i int) int { return free[i] }, false))
	want := `before<?xml version="1.0" encoding="UTF-8"?>
<rspec xmlns="http://www.geni.net/resources/rspec/3" xmlns:emulab="http://www.protogeni.net/resources/rspec/ext/emulab/1" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://www.geni.net/resources/rspec/3 http://www.geni.net/resources/rspec/3/ad.xsd http://www.geni.net/resources/rspec/ext/opstate/1 http://www.geni.net/resources/rspec/ext/opstate/1/ad.xsd http://www.protogeni.net/resources/rspec/ext/emulab/1 http://www.protogeni.net/resources/rspec/ext/emulab/1/ptop_extension.xsd" type="advertisement" generated_by="patchbay" generated="2030-01-02T03:04:05Z" expires="2030-01-02T03:05:05Z">
 <rspec_opstate xmlns="http://www.geni.net/resources/rspec/ext/opstate/1" aggregate_manager_id="urn:publicid:IDN+example.org+authority+cm" start="geni_notready">
  <sliver_type name="raw-pc"/>
  <sliver_type name="vm"/>
  <state name="geni_notready"><action name="geni_start" next="geni_configuring"><description>switch on &lt;&amp;&gt;</description></action></state>
  <state name="geni_configuring"><description>booting</description><wait type="geni_success" next="geni_ready"></wait><wait type="geni_failure" next="geni_failed"><description>too bad</description></wait></state>
  <state name="geni_ready"></state>
  <state name="geni_failed"></state>
 </rspec_opstate>
 <node component_id="urn:publicid:IDN+example.org+node+pc0" component_manager_id="urn:publicid:IDN+example.org+authority+cm" component_name="pc0" exclusive="true"><sliver_type name="raw-pc"><disk_image name="urn:publicid:IDN+example.org+image+debian" os="Linux" version="12" description="Debian &quot;12&quot; &#xE9;" default="true"/><disk_image name="bare"/></sliver_type><hardware_type name="pc3000"/><hardware_type name="pc"/><location country="BE" latitude="51.03" longitude="3.73"/><available now="true"/></node>
 <node component_id="urn:publicid:IDN+example.org+node+pc1" component_manager_id="urn:publicid:IDN+example.org+authority+cm" component_name="pc1" exclusive="false"><sliver_type name="vm"/><hardware_type name="pc3000"><emulab:node_type type_slots="7"/></hardware_type><hardware_type name="pc"><emulab:node_type type_slots="7"/></hardware_type><available now="true"/></node>
 <node component_id="urn:publicid:IDN+example.org+node+pc2" component_manager_id="urn:publicid:IDN+example.org+authority+cm" component_name="pc2" exclusive="true"><sliver_type name="raw-pc"><disk_image name="urn:publicid:IDN+example.org+image+debian" os="Linux" version="12" description="Debian &quot;12&quot; &#xE9;" default="true"/><disk_image name="bare"/></sliver_type><location country="DE"/><available now="false"/></node>
</rspec>
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	validate(t, "ad.xsd", got)
}

func TestOnlyFreeNodes(t *testing.T) {
	free := []int{0, 2, -1, 0}
	a := NewAdvertiser(site(4))
	got := string(a.Append(nil, someTime, func(i int) int { return free[i] }, true))
	if strings.Count(got, "<node ") != 1 || !strings.Contains(got, `component_name="pc1"`) || strings.Contains(got, `now="false"`) {
		t.Error(got)
	}
	all := string(a.Append(nil, someTime, func(i int) int { return free[i] }, false))
	if strings.Count(all, "<node ") != 4 || strings.Count(all, `now="false"`) != 3 || strings.Contains(all, `"-1"`) || strings.Contains(all, "expires=") {
		t.Error(all)
	}
}

func TestEmptySite(t *testing.T) {
	got := string(NewAdvertiser(Site{Manager: us}).Append(nil, someTime, nil, false))
	if !strings.HasPrefix(got, "<?xml") || !strings.HasSuffix(got, "</rspec>\n") {
		t.Error(got)
	}
	validate(t, "ad.xsd", got)
}

func TestAdvertisementIsASCIIAndWellFormed(t *testing.T) {
	s := site(2)
	const nasty = "<&>\"'é\n\x01]]>"
	s.GeneratedBy = nasty
	n := &s.Nodes[1]
	n.Name, n.HardwareTypes = nasty, []string{nasty}
	n.SliverTypes = []AdSliverType{{nasty, []AdImage{{nasty, nasty, nasty, nasty, nasty, true}}}}
	n.Location = &Location{nasty, nasty, nasty}
	s.Machines[0].SliverTypes = []string{nasty}
	s.Machines[0].States[0] = State{nasty, nasty, []Action{{nasty, nasty, nasty}}, []Wait{{nasty, nasty, nasty}}}
	got := string(NewAdvertiser(s).Append(nil, someTime, func(int) int { return 1 }, false))
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

func BenchmarkAdvertisement(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := NewAdvertiser(site(n))
			var text []byte
			b.ReportAllocs()
			for b.Loop() {
				text = a.Append(text[:0], someTime, func(i int) int { return i % 3 }, false)
			}
			b.SetBytes(int64(len(text)))
		})
	}
}

func BenchmarkNewAdvertiser(b *testing.B) {
	s := site(10_000)
	b.ReportAllocs()
	for b.Loop() {
		NewAdvertiser(s)
	}
}
