package view

import (
	"fmt"
	"strings"
	"testing"

	"patchbay/schemas/xmltree"
)

func document(kind, body string) string {
	return `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="` + kind + `">` + body + `</rspec>`
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"NoXML", "nodes: 3", "cannot read the document"},
		{"NoRSpec", "<credential/>", "line 1: the document is a <credential>, not an RSpec; give a request"},
		{"NoNamespace", "<rspec/>", `line 1: RSpecs of the namespace "" cannot be read`},
		{"OtherVersion", `<rspec xmlns="http://www.protogeni.net/resources/rspec/0.2"/>`, "cannot be read; give one of GENI version 3"},
		{"TooBig", document("request", strings.Repeat("<node/>", 30)), "the document is too big: "},
		{"Doctype", `<!DOCTYPE rspec><rspec/>`, "cannot read the document"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read([]byte(c.text), xmltree.Limits{Elements: 20})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error\n got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestReadUnderstands(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       string
		got        func(*Document) any
	}{
		{"NamespacesByName", `<a:rspec xmlns:a="http://www.geni.net/resources/rspec/3" type="request"><a:node client_id="x"/><node client_id="y"/></a:rspec>`,
			"1 x", func(d *Document) any { return fmt.Sprint(len(d.Nodes), " ", d.Nodes[0].Name) }},
		{"ProtoGENI2", `<rspec xmlns="http://www.protogeni.net/resources/rspec/2" type="advertisement"><node component_id="urn:publicid:IDN+x.org+node+pc1"/></rspec>`,
			"advertisement pc1 x.org", func(d *Document) any { return fmt.Sprint(d.Kind, " ", d.Nodes[0].Name, " ", d.Managers[0].Name) }},
		{"ManagersByAuthority", document("request", `<node client_id="a" component_manager_id="urn:publicid:IDN+X.org+authority+cm"/><node client_id="b" component_manager_id="urn:publicid:IDN+x.org+authority+am"/><node client_id="c" component_id="urn:publicid:IDN+x.org+node+n"/><node client_id="d"/>`),
			"[{urn:publicid:IDN+X.org+authority+cm X.org}] [0 0 0 0]", func(d *Document) any {
				var of []int
				for _, n := range d.Nodes {
					of = append(of, n.Manager)
				}
				return fmt.Sprint(d.Managers, " ", of)
			}},
		{"NobodysNodesApartFromSeveralManagers", document("request", `<node client_id="a"/><node client_id="b" component_manager_id="urn:publicid:IDN+x.org+authority+cm"/><node client_id="c" component_id="urn:publicid:IDN+y.org+node+with blank"/>`),
			"[ x.org y.org]", func(d *Document) any {
				var names []string
				for _, m := range d.Managers {
					names = append(names, m.Name)
				}
				return names
			}},
		{"SpeedsInTypes", document("advertisement", `<link><link_type name="ethernet"/><link_type name="ethernet-1000000"/><link_type name="Ethernet-10000000"/><link_type name="ethernet-fast"/></link>`),
			"[ethernet ethernet-fast] [1000000 10000000]", func(d *Document) any {
				return fmt.Sprint(d.Links[0].Types, " ", d.Links[0].Speeds)
			}},
		{"Offers", document("advertisement", `<rspec_shared_vlan xmlns="http://www.geni.net/resources/rspec/ext/shared-vlan/1"><available name="lab" localTag="7" restricted="true"/></rspec_shared_vlan><rspec_routable_addresses xmlns="http://www.protogeni.net/resources/rspec/ext/emulab/1" available="2" configured="3"/>`),
			"[{lab 7  true}] {2 3}", func(d *Document) any { return fmt.Sprint(d.SharedVLANs, " ", *d.Addresses) }},
		{"OffersLeftOpen", document("advertisement", `<rspec_routable_addresses xmlns="http://www.protogeni.net/resources/rspec/ext/emulab/1" available="-4" configured="many"/>`),
			"{-1 -1}", func(d *Document) any { return *d.Addresses }},
		{"ExpiresAsGenerated", `<rspec xmlns="http://www.geni.net/resources/rspec/3" generated="t" expires="t"/>`, "", func(d *Document) any { return d.Expires }},
		{"Exclusive", document("request", `<node client_id="a" exclusive="1"/>`), "true", func(d *Document) any { return *d.Nodes[0].Exclusive }},
		{"ExclusiveLeftOpen", document("request", `<node client_id="a" exclusive="perhaps"/>`), "<nil>", func(d *Document) any { return fmt.Sprint(d.Nodes[0].Exclusive) }},
		{"ExclusiveInNoSpellingOfTheSchema", document("request", `<node client_id="a" exclusive="TRUE"/>`), "<nil>", func(d *Document) any { return fmt.Sprint(d.Nodes[0].Exclusive) }},
		{"ImageByURL", document("request", `<node client_id="a"><sliver_type name="vm"><disk_image url="http://images.example.org/debian12.qcow2"/></sliver_type></node>`),
			"debian12.qcow2", func(d *Document) any { return d.Nodes[0].Image }},
		{"AccountsOfBothSpellings", document("manifest", `<node client_id="a"><services><services_user xmlns="http://www.geni.net/resources/rspec/ext/user/1" login="new"/><services_user xmlns="http://www.protogeni.net/resources/rspec/ext/user/1" login="old"/><services_user login="none"/></services></node>`),
			"[new old]", func(d *Document) any { return fmt.Sprint(d.Nodes[0].Accounts) }},
		{"SharedVLANsOfBothSpellings", document("request", `<link client_id="a"><link_shared_vlan xmlns="http://www.geni.net/resources/rspec/ext/shared-vlan/1" name="x" vlantag="7"/></link><link client_id="b"><link_shared_vlan xmlns="http://www.protogeni.net/resources/rspec/ext/shared-vlan/1" name="y"/></link>`),
			"x 7 y", func(d *Document) any { return d.Links[0].Shared + " " + d.Links[0].VLAN + " " + d.Links[1].Shared }},
		{"MonitoringOfBothSpellings", document("request", `<node client_id="a"><monitoring xmlns="http://schemas.fed4fire.eu/schemas/rspec/ext/monitoring/1" enabled="true"/></node><node client_id="b"><monitoring xmlns="http://schemas.fed4fire.eu/schemas/rspec/ext/f4f_monitoring/1" supported="1"/></node><node client_id="c"><monitoring enabled="true"/></node>`),
			"true true false", func(d *Document) any {
				return fmt.Sprint(d.Nodes[0].Monitored, " ", d.Nodes[1].Monitored, " ", d.Nodes[2].Monitored)
			}},
		{"EndsByComponentWhereNoClientIDIs", document("advertisement", `<node component_id="urn:publicid:IDN+x+node+n"><interface component_id="urn:publicid:IDN+x+interface+n:0"/></node><link><interface_ref component_id="urn:publicid:IDN+x+interface+n:0"/><interface_ref component_id="urn:publicid:IDN+y+interface+m:0"/></link>`),
			"[{n:0  0 0} {m:0 y -1 -1}]", func(d *Document) any { return fmt.Sprint(d.Links[0].Ends) }},
		{"ClientIDBeforeSharedComponent", document("manifest", `<node client_id="a"><interface client_id="a0" component_id="urn:publicid:IDN+x+interface+pc:lo0"/></node><node client_id="b"><interface client_id="b0" component_id="urn:publicid:IDN+x+interface+pc:lo0"/></node><link client_id="l"><interface_ref client_id="b0" component_id="urn:publicid:IDN+x+interface+pc:lo0"/></link>`),
			"1", func(d *Document) any { return d.Links[0].Ends[0].Node }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Read([]byte(c.text), xmltree.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(c.got(d)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestStatesAreRead(t *testing.T) {
	for word, want := range map[string]Condition{
		"geni_ready": Ready, "ready": Ready, "Active": Ready, "geni_notready": Idle, "geni_configuring": Busy, "geni_stopping": Busy,
		"geni_pending_allocation": Busy, "geni_failed": Failed, "Uncompleted": Busy, "": Unknown, "odd": Unknown,
	} {
		if got := ConditionOf(word); got != want {
			t.Errorf("%q: got %d, want %d", word, got, want)
		}
	}
}

func TestLoginsAreCommandsOnlyWhereTheyAreSafe(t *testing.T) {
	for _, c := range []struct {
		login Login
		want  string
	}{
		{Login{"alice", "gw.example.org", "22"}, "ssh alice@gw.example.org"},
		{Login{"alice", "gw.example.org", "2022"}, "ssh -p 2022 alice@gw.example.org"},
		{Login{"", "2001:db8::1", ""}, "ssh 2001:db8::1"},
		{Login{"-oProxyCommand=x", "h", "22"}, "-oProxyCommand=x@h:22"},
		{Login{"a", "h;reboot", "22"}, "a@h;reboot:22"},
		{Login{"a", "h", "22 x"}, "a@h:22 x"},
	} {
		if got := c.login.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
