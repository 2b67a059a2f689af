package api

import (
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service"
	"patchbay/am/service/binder"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/rspec"
)

const switched = `
provider: rack
link_types: [lan]
links: [{name: core, capacity: 1G}]
vlans: [100..199]
public_addresses: [192.0.2.10]
monitoring: {type: oml, metrics: [{id: cpu.load}]}
sliver_types: [{name: vm}]
components:
  - {names: h1..h2, exclusive: false, capacity: {slots: 9}, interfaces: [{name: nic, link: core}]}
`

// across is a request of one link between both hosts.
func across(capacity string) string {
	return request(
		`<node client_id="a" component_id="urn:publicid:IDN+`+authority+`+node+h1"><interface client_id="a:0"/><routable_control_ip xmlns="http://www.protogeni.net/resources/rspec/ext/emulab/1"/></node>`,
		`<node client_id="b" component_id="urn:publicid:IDN+`+authority+`+node+h2"><interface client_id="b:0"><ip address="10.5.0.2" netmask="255.255.255.0"/></interface></node>`,
		`<link client_id="l"><interface_ref client_id="a:0"/><interface_ref client_id="b:0"/><property source_id="a:0" dest_id="b:0" capacity="`+capacity+`"/></link>`)
}

// TestLinksAreAccounted checks that a link takes capacity of an interface, and that Delete gives it
// back.
func TestLinksAreAccounted(t *testing.T) {
	const left = `link "l": its interface "a:0" asks for 500000 kbit/s out of nic of h1 (core), which has 400000 of 1000000 left`
	w := setting{inventory: switched, extensions: []string{service.SliverInfo, service.VNode}}.world(t, "large", across("600000"), "small", across("1"),
		"half", across("500000"), "private", strings.ReplaceAll(across("500000"), "routable_control_ip", "other"), "left", left).play(`
		alice owns s1 48h
		alice owns s2 48h
		alice Allocate s1 $large -> 'vlantag="100"' "+interface+h1:nic" 'address="10.5.0.1"' 'netmask="255.255.255.0"' 'ipv4="192.0.2.10"' "geni_sliver_info" "vnode"
		alice Allocate s2 $private -> TOOBIG $left code.am_code=<int>25
		alice Allocate s2 $small -> TOOBIG code.am_code=<int>26
		alice Provision s1
		settle
		alice Describe s1 -> 'vlantag="100"' 'address="10.5.0.1"'
	`)
	req, err := rspec.ParseRequest([]byte(across("500000")), rspec.ReadOptions{Managers: []urn.URN{w.inventory.Manager}})
	if err != nil {
		t.Fatal(err)
	}
	err = w.store.Read(func(v *store.View) error {
		_, err := binder.Bind(&binder.Request{Request: req, Slice: w.inventory.Manager}, v.Now(), time.Time{}, &binder.View{Inventory: w.inventory, Calendar: v.Calendar, Now: v.Now()})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "400000 of 1000000 left") {
		t.Errorf("after a restart: %v", err)
	}
	w.play(`
		alice Delete s1
		alice Allocate s2 $private -> TOOBIG $left
		settle
		alice Allocate s2 $half
	`)
}

// TestUnsupportedFeaturesAreReported requests features that the site does not have.
func TestUnsupportedFeaturesAreReported(t *testing.T) {
	const wish = `<m:monitoring xmlns:m="http://schemas.fed4fire.eu/schemas/rspec/ext/f4f_monitoring/1" enabled="true" monitoring_endpoint="tcp:oml.example.org:3003"><m:metric id="CPU.load"/><m:metric id="tea"/></m:monitoring>`
	for inventory, want := range map[string]string{
		switched: `'node "a": there is no metric "tea" here' 1*"CPU"`,
		"provider: rack\nsliver_types: [{name: vm}]\ncomponents: [{name: pc, exclusive: true}]": `'node "a": this aggregate offers no monitoring; the element is copied, and nothing is measured'
			'node "a": there are no public addresses here, so routable_control_ip is copied without effect' !"there is no metric"`,
	} {
		setting{inventory: inventory}.world(t, "wish", wish, "a", `<node client_id="a">`+wish+`<routable_control_ip xmlns="http://www.protogeni.net/resources/rspec/ext/emulab/1"/></node>`).
			play("alice owns s1 1h\nalice Allocate s1 $a -> $wish " + strings.ReplaceAll(want, "\n", " "))
	}
}

// TestExclusiveNodesShareAHost checks that Allocate reports that a node does not get its host alone,
// and that the manifest has the effective value.
func TestExclusiveNodesShareAHost(t *testing.T) {
	const host = "provider: rack\nexclusive_on_shared: share\nsliver_types: [{name: vm}]\ncomponents: [{name: host, exclusive: false, sliver_types: [vm], capacity: {slots: 9}}]"
	setting{inventory: host}.world(t, "web", `<node client_id="web" exclusive="true"/>`, "db", `<node client_id="db"/>`).play(`
		alice owns s1 1h
		bob owns s2 1h
		alice Allocate s1 $web -> 'node "web": exclusive="true" is not possible here: host is shared, and other slices may use it, too' 'exclusive="false"'
		bob Allocate s2 $db
		bob Delete s2
		bob Allocate s2 $web
	`)
}

// What the schemas have against a request is for the operator's log alone.
func TestSchemasInformTheOperator(t *testing.T) {
	x := newSite(t).user("alice").own("s1", duration("1h"))
	a := x.allocate(request(`<node client_id="a" pi_tag="1" x="2"/>`)).want(t, "against the schema", am.Success)
	if e := a.resp.Event; e.Findings != 2 || !strings.Contains(e.Finding, "pi_tag") || strings.Contains(a.output, "pi_tag") {
		t.Errorf("%d findings, first %q; output %q", e.Findings, e.Finding, a.output)
	}
}

// TestNamesAreHeldAcrossAllocates checks that a client_id of a node, an interface or a link is
// unique in the slice. This includes links that are only copied.
func TestNamesAreHeldAcrossAllocates(t *testing.T) {
	end := func(node, name string) string {
		return `<node client_id="` + node + `"><interface client_id="` + name + `"/></node>`
	}
	link := func(id, a, b string) string {
		return `<link client_id="` + id + `"><interface_ref client_id="` + a + `"/><interface_ref client_id="` + b + `"/></link>`
	}
	setting{inventory: strings.Replace(switched, "link_types", "cross_links: copy\nlink_types", 1)}.world(t,
		"a", end("a", "if0"), "b", end("b", "if1"), "lan", link("lan", "if0", "if1"), "cross", link("cross", "if0", "far:0"),
		"far", `<node client_id="far" component_manager_id="urn:publicid:IDN+elsewhere.example.net+authority+am"><interface client_id="far:0"/></node>`,
		"c0", end("c", "if0"), "c2", end("c", "if2"), "cross2", link("cross", "if2", "far:0"), "lan2", link("lan", "if2", "far:0"),
		"own", `<link client_id="cross"><interface_ref client_id="if2"/></link>`, "if0", end("if0", "lan"), "linka", `<link client_id="a"><interface_ref client_id="lan"/></link>`, "a3", end("a", "if3"),
	).play(`
		alice owns s1 48h
		alice Allocate s1 $a $b $far $lan $cross
		alice Allocate s1 $c0 -> ALREADYEXISTS 'interface "if0" is in the slice already'
		alice Allocate s1 $c2 $far $cross2 -> ALREADYEXISTS 'link "cross" is in the slice already'
		alice Allocate s1 $c2 $own -> ALREADYEXISTS 'link "cross"'
		alice Allocate s1 $c2 $far $lan2 -> ALREADYEXISTS 'link "lan"'
		alice Allocate s1 $if0 $linka
		alice Delete s1.a
		alice Allocate s1 $a3
		alice Allocate s1 $c0 $far $cross
		alice Describe s1 -> 1*'<link client_id="cross"' 1*'<interface client_id="if0"'
	`)
}

// TestNodesJoinALink adds nodes to a link by further Allocates.
func TestNodesJoinALink(t *testing.T) {
	const join = ` xmlns:n="http://patchbay.example.org/rspec/ext/net/1" n:join="true"`
	end := func(node, host, ip string) string {
		if ip != "" {
			ip = `<ip address="` + ip + `" netmask="255.255.255.0"/>`
		}
		return `<node client_id="` + node + `" component_id="urn:publicid:IDN+` + authority + `+node+` + host + `"><interface client_id="` + node + `:0">` + ip + `</interface></node>`
	}
	link := func(id, attributes string, ends ...string) string {
		text := `<link client_id="` + id + `"` + attributes + `>`
		for _, e := range ends {
			text += `<interface_ref client_id="` + e + `:0"/>`
		}
		return text + `</link>`
	}
	setting{inventory: switched}.world(t,
		"a", end("a", "h1", ""), "b", end("b", "h2", ""), "c", end("c", "h1", ""), "d", end("d", "h2", ""), "c1", end("c", "h1", "10.128.0.1"),
		"lan", link("lan", "", "a", "b"), "again", link("lan", "", "c"), "typo", link("len", join, "c"), "joinc", link("lan", join, "c"), "joind", link("lan", join, "d"),
		"clash", link("lan", join, "c"), "remedy", `Delete the nodes at its ends first, or use another client_id; to add only new interfaces to it, write net:join="true"`,
	).play(`
		alice owns s1 48h
		alice owns s2 48h
		alice Allocate s1 $c $joinc -> SEARCHFAILED 'link "lan" has net:join, but the slice has no link of that client_id; leave net:join out to make a new link'
		alice CreateSliver s2 $c $joinc -> SEARCHFAILED
		alice Allocate s1 $a $b $lan -> 'vlantag="100"'
		alice Allocate s1 $c $again -> ALREADYEXISTS 'link "lan" is in the slice already' $remedy
		alice Allocate s1 $c $typo -> SEARCHFAILED 'the slice has no link of that client_id; write the client_id "lan", or leave'
		alice Allocate s1 $c1 $clash -> BADARGS 'its interface "c:0" has the address 10.128.0.1 of the interface "a:0" in the slice'
		alice Allocate s2 $c $joinc -> SEARCHFAILED
		alice Allocate s1 $c $joinc -> 'vlantag="100"' 'address="10.128.0.3"' 1*"<interface_ref" !"join="
		alice Describe s1 -> 1*'<link client_id="lan"' 3*"<interface_ref" !"join=" 3*"10.128.0."
		alice Describe s1.c -> 1*'<link client_id="lan"' 1*"<interface_ref" !"join="
		alice Provision s1
		settle
		alice Delete s1.a
		alice Delete s1.b
		settle
		alice Describe s1 -> 1*'<link client_id="lan"' 'vlantag="100"' 1*"<interface_ref"
		alice Allocate s1 $d $joind -> 'vlantag="100"' 'address="10.128.0.1"'
		alice Describe s1 -> 1*'<link client_id="lan"' 2*"<interface_ref"
		alice Delete s1
		settle
		alice Allocate s1 $d $joind -> SEARCHFAILED
	`)
}

// TestLinkOfSeveralRequests changes some nodes of a link. Manifests then show the link once, in its
// latest form, with all its interfaces.
func TestLinkOfSeveralRequests(t *testing.T) {
	end := func(id, host string) string {
		return `<node client_id="` + id + `" component_id="urn:publicid:IDN+` + authority + `+node+` + host + `"><interface client_id="` + id + `:if"/></node>`
	}
	property := func(from, to, capacity string) string {
		return `<property source_id="` + from + `:if" dest_id="` + to + `:if" capacity="` + capacity + `"/>`
	}
	link := func(properties string, ends ...string) string {
		text := `<link client_id="lan">`
		for _, e := range ends {
			text += `<interface_ref client_id="` + e + `:if"/>`
		}
		return text + properties + `</link>`
	}
	setting{inventory: switched}.world(t, "a", end("a", "h1"), "b", end("b", "h2"), "c", end("c", "h1"), "d", end("d", "h2"),
		"abc", link(property("a", "b", "1000")+property("b", "c", "2000"), "a", "b", "c"), "ad", link(property("a", "d", "3000"), "a", "d"), "bd", link("", "b", "d"),
	).play(`
		alice owns s1 48h
		alice Allocate s1 $a $b $c $abc
		pass 1s
		alice Allocate s1 $a $d $ad patchbay_change=1
		alice Describe s1 -> 1*'<link client_id="lan"' 4*"<interface_ref" 3*"<property" 1*'capacity="3000"'
		alice Describe s1.c -> 1*'<link client_id="lan"' 'c:if'
		pass 1s
		alice Allocate s1 $b $d $bd patchbay_change=1
		alice Describe s1 -> 1*'<link client_id="lan"' 4*"<interface_ref" 1*'<interface_ref client_id="b:if"'
		alice Delete s1.a
		alice Describe s1 -> 1*'<link client_id="lan"' 3*"<interface_ref" !"a:if"
	`)
}

// TestUnsupportedNetworkElementsAreReported requests elements of the network extension that have no effect here.
// Allocate and each manifest report them.
func TestUnsupportedNetworkElementsAreReported(t *testing.T) {
	const wishes = ` xmlns:n="http://patchbay.example.org/rspec/ext/net/1"`
	node := func(id, more string) string {
		return `<node client_id="` + id + `"` + wishes + `><interface client_id="` + id + `:0">` + more + `</interface><n:nat/></node>`
	}
	link := func(id, end, more string) string {
		return `<link client_id="` + id + `"` + wishes + `><interface_ref client_id="` + end + `:0"/>` + more + `</link>`
	}
	setting{inventory: switched}.world(t,
		"a", node("a", `<n:public/><n:dns name="WWW.example.org"/><n:outports ports="80"/>`), "lana", link("lan", "a", `<n:cidr range="10.9.0.0/24"/><n:outports ports="80"/>`),
		"b", node("b", `<n:dns name="www.example.net"/><n:dns name="db.example.org"/><n:outports ports="80"/>`), "lanb", link("more", "b", `<n:outports ports="80"/><n:route to="10.0.0.0/8" via="a"/>`),
		"moved", link("lan", "a", `<n:cidr range="10.8.0.0/24"/><n:outports ports="80"/>`),
		"wrong", node("c", `<n:outports ports="0"/>`),
		"ports", "ports are open to others only on nodes with a public address",
	).play(`
		alice owns s1 48h
		alice Allocate s1 $wrong -> BADARGS 'has wrong outports: "0" has a port'
		alice Allocate s1 $a $lana -> 'node "a": this aggregate makes' 'ipv4="192.0.2.10"' 'name="www.example.org" ipv4="192.0.2.10"' 'name="www" ipv4=' 'address="10.9.0.1"' !$ports
		alice Allocate s1 $b $lanb -> 'node "b": ports are open' 'link "more": ports are open' 'link "more": this aggregate sets no routes' 'name="db.example.org"' 'node "b": the DNS name www.example.net'
		alice Allocate s1 $a $lana patchbay_change=1 patchbay_preview=s1.a -> 'this was a preview' !"not all of its interfaces"
		alice Allocate s1 $a $moved patchbay_change=1 -> 'link "lan": not all of its interfaces have addresses in 10.8.0.0/24'
		alice Describe s1 -> 2*'so net:nat is' 2*'so net:outports is' 1*'the DNS name www' 1*'so net:route is'
	`)
	setting{inventory: "provider: rack\nsliver_types: [{name: vm}]\ncomponents: [{name: pc, exclusive: true}]"}.world(t, "a", node("a", "<n:public/>")).play(`
		alice owns s1 48h
		alice Allocate s1 $a -> 'node "a": there are no public addresses here, so net:public is copied without effect' !"routable_control_ip"
	`)
}

// Where the inventory does not know the network of one end, no capacity is counted,
// and a notice reports it.
func TestCapacityThatIsNotAccountedIsNoticed(t *testing.T) {
	pair := func(a, b, on string) string {
		return request(`<node client_id="`+a+`"><interface client_id="`+a+`:0"/></node>`,
			`<node client_id="`+b+`" component_id="urn:publicid:IDN+`+authority+`+node+`+on+`"><interface client_id="`+b+`:0"/></node>`,
			`<link client_id="`+a+b+`"><interface_ref client_id="`+a+`:0"/><interface_ref client_id="`+b+`:0"/><property source_id="`+a+`:0" dest_id="`+b+`:0" capacity="5"/></link>`)
	}
	setting{inventory: switched + "  - {name: far, exclusive: true}\n"}.world(t, "far", pair("a", "b", "far"), "near", pair("c", "d", "h2")).play(`
		alice owns s1 1h
		alice Allocate s1 $far -> 'link "ab": the inventory knows no network of far, so the capacity is not reserved'
		alice Allocate s1 $near -> !"accounted"
	`)
}
