package draw

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
		{"NoRSpec", "<credential/>", "line 1: the document is a <credential>, not an RSpec; draw a request"},
		{"NoNamespace", "<rspec/>", `line 1: RSpecs of the namespace "" cannot be drawn`},
		{"OtherVersion", `<rspec xmlns="http://www.protogeni.net/resources/rspec/0.2"/>`, "cannot be drawn; give one of GENI version 3"},
		{"TooBig", document("request", strings.Repeat("<node/>", 30)), "too big to draw: "},
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
		got        func(*Picture) any
	}{
		{"NamespacesByName", `<a:rspec xmlns:a="http://www.geni.net/resources/rspec/3" type="request"><a:node client_id="x"/><node client_id="y"/></a:rspec>`,
			"1 x", func(p *Picture) any { return fmt.Sprint(len(p.Nodes), " ", p.Nodes[0].Name) }},
		{"ProtoGENI2", `<rspec xmlns="http://www.protogeni.net/resources/rspec/2" type="advertisement"><node component_id="urn:publicid:IDN+x.org+node+pc1"/></rspec>`,
			"advertisement pc1 x.org", func(p *Picture) any { return fmt.Sprint(p.Kind, " ", p.Nodes[0].Name, " ", p.Managers[0].Name) }},
		{"ManagersByAuthority", document("request", `<node client_id="a" component_manager_id="urn:publicid:IDN+X.org+authority+cm"/><node client_id="b" component_manager_id="urn:publicid:IDN+x.org+authority+am"/><node client_id="c" component_id="urn:publicid:IDN+x.org+node+n"/><node client_id="d"/>`),
			"[{urn:publicid:IDN+X.org+authority+cm X.org}] [0 0 0 0]", func(p *Picture) any {
				var of []int
				for _, n := range p.Nodes {
					of = append(of, n.Manager)
				}
				return fmt.Sprint(p.Managers, " ", of)
			}},
		{"NobodysNodesApartFromSeveralManagers", document("request", `<node client_id="a"/><node client_id="b" component_manager_id="urn:publicid:IDN+x.org+authority+cm"/><node client_id="c" component_id="urn:publicid:IDN+y.org+node+with blank"/>`),
			"[ x.org y.org]", func(p *Picture) any {
				var names []string
				for _, m := range p.Managers {
					names = append(names, m.Name)
				}
				return names
			}},
		{"SpeedsInTypes", document("advertisement", `<link><link_type name="ethernet"/><link_type name="ethernet-1000000"/><link_type name="Ethernet-10000000"/><link_type name="ethernet-fast"/></link>`),
			"[ethernet ethernet-fast] [1 Gbit/s 10 Gbit/s] 1 Gbit/s or 10 Gbit/s", func(p *Picture) any {
				return fmt.Sprint(p.Links[0].Types, " ", p.Links[0].Speeds, " ", p.propertyText(&p.Links[0]))
			}},
		{"Offers", document("advertisement", `<rspec_shared_vlan xmlns="http://www.geni.net/resources/rspec/ext/shared-vlan/1"><available name="lab" localTag="7" restricted="true"/></rspec_shared_vlan><rspec_routable_addresses xmlns="http://www.protogeni.net/resources/rspec/ext/emulab/1" available="2" configured="3"/>`),
			"[{lab 7  true}] 2 of 3 public addresses free", func(p *Picture) any { return fmt.Sprint(p.SharedVLANs, " ", p.Addresses) }},
		{"OffersLeftOpen", document("advertisement", `<rspec_routable_addresses xmlns="http://www.protogeni.net/resources/rspec/ext/emulab/1" available="-4" configured="many"/>`),
			"", func(p *Picture) any { return p.Addresses }},
		{"ExpiresAsGenerated", `<rspec xmlns="http://www.geni.net/resources/rspec/3" generated="t" expires="t"/>`, "", func(p *Picture) any { return p.Expires }},
		{"Exclusive", document("request", `<node client_id="a" exclusive="1"/>`), "true", func(p *Picture) any { return *p.Nodes[0].Exclusive }},
		{"ExclusiveLeftOpen", document("request", `<node client_id="a" exclusive="perhaps"/>`), "<nil>", func(p *Picture) any { return fmt.Sprint(p.Nodes[0].Exclusive) }},
		{"ExclusiveInNoSpellingOfTheSchema", document("request", `<node client_id="a" exclusive="TRUE"/>`), "<nil>", func(p *Picture) any { return fmt.Sprint(p.Nodes[0].Exclusive) }},
		{"ImageByURL", document("request", `<node client_id="a"><sliver_type name="vm"><disk_image url="http://images.example.org/debian12.qcow2"/></sliver_type></node>`),
			"debian12.qcow2", func(p *Picture) any { return p.Nodes[0].Image }},
		{"AccountsOfBothSpellings", document("manifest", `<node client_id="a"><services><services_user xmlns="http://www.geni.net/resources/rspec/ext/user/1" login="new"/><services_user xmlns="http://www.protogeni.net/resources/rspec/ext/user/1" login="old"/><services_user login="none"/></services></node>`),
			"[new old]", func(p *Picture) any { return fmt.Sprint(p.Nodes[0].Accounts) }},
		{"SharedVLANsOfBothSpellings", document("request", `<link client_id="a"><link_shared_vlan xmlns="http://www.geni.net/resources/rspec/ext/shared-vlan/1" name="x" vlantag="7"/></link><link client_id="b"><link_shared_vlan xmlns="http://www.protogeni.net/resources/rspec/ext/shared-vlan/1" name="y"/></link>`),
			"x 7 y", func(p *Picture) any { return p.Links[0].Shared + " " + p.Links[0].VLAN + " " + p.Links[1].Shared }},
		{"MonitoringOfBothSpellings", document("request", `<node client_id="a"><monitoring xmlns="http://schemas.fed4fire.eu/schemas/rspec/ext/monitoring/1" enabled="true"/></node><node client_id="b"><monitoring xmlns="http://schemas.fed4fire.eu/schemas/rspec/ext/f4f_monitoring/1" supported="1"/></node><node client_id="c"><monitoring enabled="true"/></node>`),
			"true true false", func(p *Picture) any {
				return fmt.Sprint(p.Nodes[0].Monitored, " ", p.Nodes[1].Monitored, " ", p.Nodes[2].Monitored)
			}},
		{"EndsByComponentWhereNoClientIDIs", document("advertisement", `<node component_id="urn:publicid:IDN+x+node+n"><interface component_id="urn:publicid:IDN+x+interface+n:0"/></node><link><interface_ref component_id="urn:publicid:IDN+x+interface+n:0"/><interface_ref component_id="urn:publicid:IDN+y+interface+m:0"/></link>`),
			"[{n:0  0 0} {m:0 y -1 -1}]", func(p *Picture) any { return fmt.Sprint(p.Links[0].Ends) }},
		{"ClientIDBeforeSharedComponent", document("manifest", `<node client_id="a"><interface client_id="a0" component_id="urn:publicid:IDN+x+interface+pc:lo0"/></node><node client_id="b"><interface client_id="b0" component_id="urn:publicid:IDN+x+interface+pc:lo0"/></node><link client_id="l"><interface_ref client_id="b0" component_id="urn:publicid:IDN+x+interface+pc:lo0"/></link>`),
			"1", func(p *Picture) any { return p.Links[0].Ends[0].Node }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fmt.Sprint(c.got(read(t, c.text))); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestUnitsAreForPeople(t *testing.T) {
	for _, c := range []struct {
		f        func(string) string
		in, want string
	}{
		{capacity, "100000", "100 Mbit/s"}, {capacity, "1500", "1.5 Mbit/s"}, {capacity, "64", "64 kbit/s"},
		{capacity, "10000000", "10 Gbit/s"}, {capacity, "10000000kbps", "10 Gbit/s"}, {capacity, "0", ""}, {capacity, "", ""},
		{capacity, "fast", "fast"}, {capacity, "-5", "-5"}, {capacity, "NaN", "NaN"}, {capacity, "1e999", "1e999"},
		{latency, "10", "10 ms"}, {latency, "0.25", "250 µs"}, {latency, "2000", "2 s"}, {latency, "0", ""},
		{loss, "1", "1 % loss"}, {loss, "0.05", "0.05 % loss"}, {loss, "2.5", "2.5 % loss"}, {loss, "", ""}, {loss, "some", "some loss"},
	} {
		if got := c.f(c.in); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
}

func TestStatesAreTold(t *testing.T) {
	for word, want := range map[string]condition{
		"geni_ready": ready, "ready": ready, "Active": ready, "geni_notready": idle, "geni_configuring": busy, "geni_stopping": busy,
		"geni_pending_allocation": busy, "geni_failed": failed, "Uncompleted": busy, "": unknown, "odd": unknown,
	} {
		if got := conditionOf(word); got != want {
			t.Errorf("%q: got %d, want %d", word, got, want)
		}
	}
}

func TestLabelsDoNothing(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"Blanks", " a \n\t b ", "a b"},
		{"Override", "user\u202etxt.exe", "user\ufffdtxt.exe"},
		{"Escape", "\x1b[31mred\u009b", "\ufffd[31mred\ufffd"},
		{"ZeroWidth", "pay\u200bpal", "pay\ufffdpal"},
		{"PiledMarks", "e\u0301\u0301\u0301\u0301", "e\u0301\u0301"},
		{"Long", strings.Repeat("x", 300), strings.Repeat("x", maxText) + "…"},
		{"OtherScripts", "节点 узел", "节点 узел"},
		{"BrokenUTF8", "a\xffb", "a\ufffdb"},
	} {
		if got := cleaned(c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
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

// TestNodesBehindAGateway proves that the login of a node is never that of its gateway.
func TestNodesBehindAGateway(t *testing.T) {
	gateway, inside := Login{"gw", "gateway.example.org", "20000"}, Login{"alice", "10.1.2.3", ""}
	proxy := Proxy{"gw@gateway.example.org:20000", "alice@10.1.2.3:22"}
	const through = "ssh -o 'ProxyCommand=ssh -i KEY -W [%h]:%p -p 20000 gw@gateway.example.org' -i KEY alice@10.1.2.3"
	for _, c := range []struct {
		rule        string
		logins      []Login
		proxies     []Proxy
		text, label string
	}{
		{"gateway first", []Login{gateway, inside}, []Proxy{proxy}, through, "ssh -J gw@gateway.example.org:20000 alice@10.1.2.3"},
		{"gateway last", []Login{inside, gateway}, []Proxy{proxy}, through, "ssh -J gw@gateway.example.org:20000 alice@10.1.2.3"},
		{"another login without a gateway", []Login{gateway, inside, {"bob", "pc1", "22"}}, []Proxy{proxy}, through + " (and 1 more login)", "ssh -J gw@gateway.example.org:20000 alice@10.1.2.3"},
		{"no gateway", []Login{inside}, nil, "ssh -i KEY alice@10.1.2.3", "ssh alice@10.1.2.3"},
		{"a hostile gateway", []Login{inside}, []Proxy{{"gw@-oProxyCommand=id:22", "alice@10.1.2.3:22"}}, "ssh -i KEY alice@10.1.2.3", "ssh alice@10.1.2.3"},
		{"none that is safe", []Login{{"a", "h;reboot", "22"}}, nil, "a@h;reboot:22", "a@h;reboot:22"},
	} {
		n := &Node{Name: "n", Logins: c.logins, Proxies: c.proxies}
		if got := new(textWriter).loginCommand(n); got != c.text {
			t.Errorf("%s: text %q, want %q", c.rule, got, c.text)
		}
		if got := n.commands("")[0]; got != c.label {
			t.Errorf("%s: label %q, want %q", c.rule, got, c.label)
		}
	}
}

func TestPromises(t *testing.T) {
	p := &Picture{Nodes: []Node{{Name: "left"}, {Name: "right"}}}
	ends := []End{{Name: "a"}, {Name: "b", Node: 1}}
	both := []Property{{Source: "a", Dest: "b", Capacity: "1 Gbit/s"}, {Source: "b", Dest: "a", Capacity: "1 Gbit/s"}}
	apart := []Property{{Source: "b", Dest: "a", Capacity: "1 Mbit/s"}, {Source: "a", Dest: "b", Capacity: "1 Gbit/s", Latency: "2 ms"}}
	three := append(ends[:2:2], End{Name: "c", Node: 1})
	var all []Property
	for _, x := range three {
		for _, y := range three {
			if x.Name != y.Name {
				all = append(all, Property{Source: x.Name, Dest: y.Name, Capacity: "1 Gbit/s"})
			}
		}
	}
	for _, c := range []struct {
		name string
		link Link
		want string
	}{
		{"None", Link{Ends: ends}, ""},
		{"Empty", Link{Ends: ends, Properties: []Property{{}}}, ""},
		{"BothWays", Link{Ends: ends, Properties: both}, "1 Gbit/s"},
		{"EachWayApart", Link{Ends: ends, Properties: apart}, "left → right 1 Gbit/s, 2 ms; right → left 1 Mbit/s"},
		{"EachWayInOneNode", Link{Ends: []End{{Name: "a", Node: 1}, {Name: "b", Node: 1}}, Properties: apart}, "a → b 1 Gbit/s, 2 ms; b → a 1 Mbit/s"},
		{"OfOtherEnds", Link{Ends: []End{{Name: "c"}, {Name: "d", Node: 1}}, Properties: apart}, "1 Mbit/s–1 Gbit/s, 2 ms, directions differ"},
		{"PairsOfALANDiffer", Link{Ends: three, Properties: []Property{{"a", "b", "5 Mbit/s", "10 ms", "1 % loss"}, {"b", "a", "50 Mbit/s", "900 µs", "0.5 % loss"}, {"c", "a", "7 Mbit/s", "", ""}}},
			"5–50 Mbit/s, 900 µs–10 ms, 0.5–1 % loss, pairs differ"},
		{"OnePairOfALAN", Link{Ends: three, Properties: both}, "1 Gbit/s, pairs differ"},
		{"AllPairsOfALAN", Link{Ends: three, Properties: all}, "1 Gbit/s"},
		{"AllPairsByTheLinksName", Link{Name: "lan", Ends: three, Properties: []Property{{"a", "lan", "5 Mbit/s", "", ""}, {"lan", "a", "5 Mbit/s", "", ""},
			{"b", "c", "5 Mbit/s", "", ""}, {"c", "b", "5 Mbit/s", "", ""}}}, "5 Mbit/s"},
		{"AllButOneByTheLinksName", Link{Name: "lan", Ends: three, Properties: []Property{{"a", "lan", "5 Mbit/s", "", ""}, {"lan", "a", "5 Mbit/s", "", ""},
			{"b", "c", "5 Mbit/s", "", ""}}}, "5 Mbit/s, pairs differ"},
		{"NoQuantities", Link{Ends: three, Properties: []Property{{"a", "b", "much", "", ""}, {"b", "a", "5 Mbit/s", "", ""}}}, "5 Mbit/s and others, pairs differ"},
	} {
		if got := p.propertyText(&c.link); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
