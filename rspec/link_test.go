package rspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	nodeA    = `<node client_id="a"><interface client_id="a:0"/><interface client_id="a:1"/></node>`
	nodeB    = `<node client_id="b"><interface client_id="b:0"/><interface client_id="b:1"/></node>`
	nodeFar1 = `<node client_id="f" component_manager_id="urn:publicid:IDN+elsewhere.example.net+authority+am"><interface client_id="f:0"/></node>`
	nodeFar2 = `<node client_id="g" component_manager_id="urn:publicid:IDN+elsewhere.example.net+authority+am"><interface client_id="g:0"/></node>`
)

// linkTo is a link with an interface_ref for each name.
func linkTo(id, more string, names ...string) string {
	var b strings.Builder
	b.WriteString(`<link client_id="` + id + `">`)
	for _, n := range names {
		b.WriteString(`<interface_ref client_id="` + n + `"/>`)
	}
	return b.String() + more + "</link>"
}

func TestManagersOfLinks(t *testing.T) {
	manager := func(name string) string { return `<component_manager name="` + name + `"/>` }
	for _, tt := range []struct{ rule, in, want string }{
		{"own ends", nodeA + nodeB + linkTo("l", "", "a:0", "b:0"), "a[a:0 a:1 ]b[b:0 b:1 ] l(a:0 b:0)"},
		{"own ends, our manager", nodeA + nodeB + linkTo("l", manager(us.String()), "a:0", "b:0"), "a[a:0 a:1 ]b[b:0 b:1 ] l(a:0 b:0)"},
		{"own ends, another's manager", nodeA + nodeB + linkTo("l", manager(them), "a:0", "b:0"), "a[a:0 a:1 ]b[b:0 b:1 ]"},
		{"own ends, our manager and another's", nodeA + nodeB + linkTo("l", manager(them)+manager(us.String()), "a:0", "b:0"), "a[a:0 a:1 ]b[b:0 b:1 ] l(a:0 b:0)"},
		{"own ends, a manager that names none", nodeA + nodeB + linkTo("l", "<component_manager/>", "a:0", "b:0"), "a[a:0 a:1 ]b[b:0 b:1 ] l(a:0 b:0)"},
		{"own and foreign ends, another's manager", nodeA + nodeFar1 + linkTo("l", manager(them), "a:0", "f:0"), "a[a:0 a:1 ] +1"},
		{"manager as an attribute says nothing", nodeA + `<link client_id="l" component_manager_id="` + them + `"><interface_ref client_id="a:0"/></link>`, "a[a:0 a:1 ] l(a:0)"},
		{"one end", nodeA + linkTo("l", "", "a:0"), "a[a:0 a:1 ] l(a:0)"},
		{"two ends at one node", nodeA + linkTo("l", "", "a:0", "a:1"), "a[a:0 a:1 ] l(a:0 a:1)"},
		{"foreign ends", nodeA + nodeFar1 + nodeFar2 + linkTo("l", "", "f:0", "g:0"), "a[a:0 a:1 ] +2"},
		{"foreign ends, our manager", nodeA + nodeFar1 + nodeFar2 + linkTo("l", manager(us.String()), "f:0", "g:0"), "a[a:0 a:1 ] +2"},
		{"no ends, another's manager", nodeA + linkTo("l", manager(them)), "a[a:0 a:1 ]"},
		{"dangling, another's manager", nodeA + linkTo("l", manager(them), "nobody"), "a[a:0 a:1 ]"},
		{"no own nodes at all", linkTo("l", ""), ""},
		{"link without client_id of another", nodeA + `<link>` + manager(them) + `</link>`, "a[a:0 a:1 ]"},
	} {
		if got := summary(mustParse(t, request(tt.in), ours())); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.rule, got, tt.want)
		}
	}
}

func TestJoiningLinks(t *testing.T) {
	join := func(value, more string, names ...string) string {
		return nodeA + nodeB + strings.Replace(linkTo("l", more, names...), ">", ` n:join="`+value+`" xmlns:n="`+netSpace+`">`, 1)
	}
	property := func(sides string) string { return `<property ` + sides + ` capacity="5"/>` }
	for _, tt := range []struct {
		rule, in string
		joins    bool
		refused  string
	}{
		{"one new interface", join("true", "", "a:0"), true, ""},
		{"as a digit", join(" 1 ", "", "a:0"), true, ""},
		{"false is a link of its own", join("false", "", "a:0"), false, ""},
		{"an attribute without the namespace", strings.Replace(nodeA+linkTo("l", "", "a:0"), `"l"`, `"l" join="true"`, 1), false, ""},
		{"neither true nor false", join("yes", "", "a:0"), false, `link "l" has net:join="yes"; write true or false`},
		{"a property to all others", join("true", property(`source_id="a:0" dest_id="l"`), "a:0"), true, ""},
		{"a property between new interfaces", join("true", property(`source_id="a:0" dest_id="b:0"`), "a:0", "b:0"), true, ""},
		{"a property of an interface of the slice", join("true", property(`source_id="x:0" dest_id="a:0"`), "a:0"), false,
			`the source_id "x:0", which is not one of its new interfaces; the link's other interfaces keep their properties; for all of them write "l"`},
		{"a property from all others", join("true", property(`source_id="l" dest_id="a:0"`), "a:0"), false,
			`a property from all other interfaces to "a:0", but those in the slice keep their properties; leave the property out`},
	} {
		r, err := ParseRequest(request(tt.in), ours())
		switch {
		case tt.refused != "":
			if err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%s: %v, want %s", tt.rule, err, tt.refused)
			}
		case err != nil || r.Links[0].Join != tt.joins:
			t.Errorf("%s: %v, want %v", tt.rule, err, tt.joins)
		}
	}
	if e := refusalOf(t, request(join("true", property(`source_id="l" dest_id="a:0"`), "a:0")), ours()); e.Kind != Unsupported {
		t.Errorf("a property from all others is refused with %d", e.Kind)
	}
}

// TestLinkOfOtherManagersIsCopied (S2): a link whose component_managers are all of other aggregates
// is not ours, even if its interfaces are. The manifest copies it unmodified, and a notice says so.
func TestLinkOfOtherManagersIsCopied(t *testing.T) {
	link := linkTo("l", `<component_manager name="`+them+`"/><link_type name="odd"/><property capacity="?"/>`, "a:0", "a:1")
	link = strings.Replace(link, ">", ` sliver_id="theirs" vlantag="7">`, 1)
	in := request(nodeA + "\n" + link)
	r := mustParse(t, in, ours())
	const says = `line 2: link "l" ends at nodes of this aggregate, but none of its component_managers is this aggregate; it is ignored, but copied to the manifest`
	if got := Lines(r.Notices); len(got) != 1 || !strings.HasPrefix(got[0], says) {
		t.Errorf("notices %q", got)
	}
	part := Part{Request: r, Nodes: map[string]NodeFacts{"a": withInterfaces(2)(0)}, Links: map[string]LinkFacts{"l": {VLANTag: "1"}}}
	manifest, err := WriteManifest([]Part{part}, ManifestOptions{Manager: us, Generated: someTime})
	if err != nil || !strings.Contains(string(manifest), link) {
		t.Errorf("%v: the link changed in %s", err, manifest)
	}
	if stored := mustParse(t, in, ReadOptions{Managers: ours().Managers, Stored: true}); len(stored.Links) > 0 {
		t.Error("the link is ours in a stored request")
	}
	if r := mustParse(t, request(nodeA+linkTo("l", `<component_manager name="`+them+`"/>`, "a:0")), ReadOptions{}); len(r.Links) != 1 || len(r.Notices) > 0 {
		t.Errorf("read for no aggregate: %d links, %v", len(r.Links), r.Notices)
	}
}

// TestTextOfAManagerCountsWithoutItsName (S6): the RSpec text says that the URN is the text of the
// element; documents have it in name, which counts first.
func TestTextOfAManagerCountsWithoutItsName(t *testing.T) {
	for in, want := range map[string]bool{
		`<component_manager> ` + us.String() + "\n</component_manager>":                   true,
		`<component_manager name=" "><![CDATA[` + us.String() + `]]></component_manager>`: true,
		`<component_manager>` + them + `</component_manager>`:                             false,
		`<component_manager name="` + them + `">` + us.String() + `</component_manager>`:  false,
		`<component_manager name="` + us.String() + `">` + them + `</component_manager>`:  true,
		`<component_manager/>`: true,
		`<component_manager>` + them + `</component_manager><component_manager name="` + us.String() + `"/>`: true,
	} {
		// A link with no known ends belongs to its manager: if that is us, its mistake is refused.
		_, err := ParseRequest(request(nodeA+linkTo("l", in, "dangling")), ours())
		if ours := err != nil; ours != want {
			t.Errorf("%s: ours %v, want %v", in, ours, want)
		}
	}
}

func TestLinkIsRefused(t *testing.T) {
	shared := `<v:link_shared_vlan xmlns:v="` + sharedVLANSpace + `" `
	for _, tt := range []struct {
		rule, in string // § stands where the problem is
		kind     Kind
		id, says string
	}{
		{"an end twice", nodeA + "\n<link client_id='l'><interface_ref client_id='a:0'/><interface_ref §client_id='a:0'/></link>", BadArgs, "l", `twice at the interface "a:0"`},
		{"an interface on two links", nodeA + nodeB + linkTo("k", "", "a:0", "b:0") + "\n<link client_id='l'><interface_ref §client_id='a:0'/></link>", BadArgs, "l", `already is an end of link "k"`},
		{"an interface_ref without client_id", nodeA + "\n<link client_id='l'><interface_ref client_id='a:0'/>§<interface_ref component_id='x'/></link>", BadArgs, "l", "drop the interface_ref"},
		{"own and foreign", nodeA + nodeFar1 + "\n§" + linkTo("l", "<link_type name='odd'/><property capacity='?'/>", "a:0", "f:0"), Unsupported, "l", "one aggregate"},
		{"own and foreign, with a stitching path", nodeA + nodeFar1 + "\n§" + linkTo("l", "", "a:0", "f:0") + `<s:stitching xmlns:s="http://hpn.east.isi.edu/rspec/ext/stitch/0.1/" lastUpdateTime="x"><s:path id="l"><s:hop id="1"><s:link id="urn:publicid:IDN+example.org+interface+pc1:eth1"/></s:hop></s:path></s:stitching>`, Unsupported, "l", "one aggregate"},
		{"a type not to be had", nodeA + "<link client_id='l'><interface_ref client_id='a:0'/>\n<link_type §name='vlan'/></link>", Unsupported, "l", "use lan, or leave link_type out"},
		{"none of its types to be had", nodeA + "<link client_id='l'><interface_ref client_id='a:0'/>\n<link_type name='vlan'/><link_type §name='egre-tunnel'/></link>", Unsupported, "l", `"egre-tunnel"`},
		{"a shared VLAN without a name", nodeA + linkTo("l", "§"+shared+`vlantag="7"/>`, "a:0"), BadArgs, "l", "without a name"},
		{"a shared VLAN with an empty name", nodeA + linkTo("l", shared+`§name=""/>`, "a:0"), BadArgs, "l", "without a name"},
		{"two shared VLANs", nodeA + linkTo("l", shared+`name="v"/>`+shared+`§name="w"/>`, "a:0"), Unsupported, "l", `"v" and "w"`},
		{"two tags of a shared VLAN", nodeA + linkTo("l", shared+`name="v" vlantag="7"/>`+shared+`name="v" §vlantag="8"/>`, "a:0"), BadArgs, "l", `"7" and "8"`},
	} {
		in, places := marked(string(request(tt.in)))
		e := refusalOf(t, []byte(in), ours())
		if len(e.Problems) != 1 || e.Kind != tt.kind || e.ClientID != tt.id || e.Line != places[0][0] || e.Column != places[0][1] || !strings.Contains(e.Error(), tt.says) {
			t.Errorf("%s: got %d:%d %v, want %v %q", tt.rule, e.Line, e.Column, e, places, tt.says)
		}
	}
}

func TestLinkTypes(t *testing.T) {
	o := ours()
	o.LinkTypes = []string{"lan", "vlan"}
	for in, want := range map[string]string{
		"": "", `<link_type name=""/>`: "", `<link_type/>`: "", `<link_type name=" LAN "/>`: "LAN",
		`<link_type name="odd"/><link_type name="vlan"/>`: "vlan", `<x:link_type xmlns:x="urn:x" name="odd"/>`: "",
	} {
		if r := mustParse(t, request(nodeA+linkTo("l", in, "a:0")), o); r.Links[0].Type != want {
			t.Errorf("%s: got %q", in, r.Links[0].Type)
		}
	}
}

func TestStitchingIsCopied(t *testing.T) {
	path := `<s:stitching xmlns:s="http://www.geni.net/resources/rspec/ext/stitch/2/" lastUpdateTime="x"><s:path id="l"/><node client_id="a"/></s:stitching>`
	if got := summary(mustParse(t, request(nodeA+path+linkTo("l", "", "a:0")), ours())); got != "a[a:0 a:1 ] l(a:0)" {
		t.Errorf("between own nodes: %s", got)
	}
	if got := summary(mustParse(t, request(nodeA+nodeFar1+nodeFar2+path+linkTo("l", "", "f:0", "g:0")), ours())); got != "a[a:0 a:1 ] +2" {
		t.Errorf("between foreign nodes: %s", got)
	}
	o := ours()
	o.CopyCrossLinks = true
	if r := mustParse(t, request(nodeA+nodeFar1+path+linkTo("l", "", "a:0", "f:0")), o); summary(r) != "a[a:0 a:1 ] +1" || len(r.Notices) != 2 {
		t.Errorf("between the two, copied: %s %v", summary(r), r.Notices)
	}
}

func TestSharedVLAN(t *testing.T) {
	for _, space := range []string{sharedVLANSpace, oldSharedVLANSpace} {
		join := func(attrs string) string { return `<link_shared_vlan xmlns="` + space + `" ` + attrs + `/>` }
		at := func(in string) string {
			return `<node client_id="a"><interface client_id="a:0">` + in + `</interface><interface client_id="a:1">` + in + `</interface></node>`
		}
		for _, tt := range []struct{ rule, in, name, tag string }{
			{"in the link", nodeA + linkTo("l", join(`name="v"`), "a:0"), "v", ""},
			{"with its tag", nodeA + linkTo("l", join(`name="v" vlantag="1750"`), "a:0"), "v", "1750"},
			{"at its interfaces", at(join(`name="v" vlantag="1"`)) + linkTo("l", "", "a:0", "a:1"), "v", "1"},
			{"in both", at(join(`name="v"`)) + linkTo("l", join(`name="v" vlantag="1"`), "a:0"), "v", "1"},
			{"at an interface of no link", at(join("")) + nodeB + linkTo("l", "", "b:0"), "", ""},
			{"another at an interface", at(join(`name="w"`)) + linkTo("l", join(`name="v"`), "a:0"), "v", ""},
			{"interfaces that differ", `<node client_id="a"><interface client_id="a:0">` + join(`name="v"`) + `</interface><interface client_id="a:1">` + join(`name="w"`) + `</interface></node>` + linkTo("l", "", "a:0", "a:1"), "", ""},
			{"without a name at an interface", at(join(`vlantag="7"`)) + linkTo("l", "", "a:0"), "", ""},
			{"inside something else", nodeA + linkTo("l", "<x>"+join(`name="v"`)+"</x>", "a:0"), "", ""},
			{"in an interface_ref", nodeA + `<link client_id="l"><interface_ref client_id="a:0">` + join(`name="v"`) + `</interface_ref></link>`, "", ""},
			{"an offer is no wish", nodeA + linkTo("l", `<available xmlns="`+space+`" name="v"/>`, "a:0"), "", ""},
			{"of the RSpec's own namespace", nodeA + linkTo("l", `<link_shared_vlan name="v"/>`, "a:0"), "", ""},
		} {
			if l := mustParse(t, request(tt.in), ours()).Links[0]; l.SharedVLAN != tt.name || l.SharedTag != tt.tag {
				t.Errorf("%s: got %q, %q", tt.rule, l.SharedVLAN, l.SharedTag)
			}
		}
		mustParse(t, request(nodeA+nodeFar1+nodeFar2+linkTo("l", join(""), "f:0", "g:0")), ours()) // not judged
	}
}

func TestMonitoring(t *testing.T) {
	for _, space := range []string{monitoringSpace, oldMonitoringSpace} {
		wish := func(attrs, in string) string {
			return `<m:monitoring xmlns:m="` + space + `" ` + attrs + `>` + in + `</m:monitoring>`
		}
		for _, tt := range []struct {
			rule, in string
			want     *Monitoring
		}{
			{"all of it", wish(`enabled="true" monitoring_endpoint="tcp:oml.example.org:3003" type="oml"`, `<m:metric id="cpu"/><m:metric id="mem"/>`), &Monitoring{true, "tcp:oml.example.org:3003", "oml", []string{"cpu", "mem"}}},
			{"all metrics", wish(`enabled="1" monitoring_endpoint="h"`, ""), &Monitoring{Enabled: true, Endpoint: "h"}},
			{"switched off", wish(`enabled="0" monitoring_endpoint="h"`, ""), &Monitoring{Endpoint: "h"}},
			{"ids without case", wish(`enabled="true"`, `<m:metric id="cpu"/><m:metric id="CPU"/><m:metric id=""/><m:metric/>`), &Monitoring{Enabled: true, Metrics: []string{"cpu"}}},
			{"metrics of another namespace", wish(`enabled="true"`, `<metric id="cpu"/><x:metric xmlns:x="urn:x" id="cpu"/>`), &Monitoring{Enabled: true}},
			{"the first counts", wish(`enabled="true"`, "") + wish(`enabled="false"`, ""), &Monitoring{Enabled: true}},
			{"pasted from an advertisement", wish(`supported="true" type="oml"`, `<m:metric id="cpu"/>`), nil},
			{"of another namespace", `<x:monitoring xmlns:x="http://monitoring.service.example.org/monitoring" enabled="?"/><monitoring user_traffic="true"/>`, nil},
			{"deeper down", "<x>" + wish(`enabled="true"`, "") + "</x>", nil},
		} {
			r := mustParse(t, request(tt.in+`<node client_id="a"><interface client_id="a:0"/>`+tt.in+`</node>`+linkTo("l", tt.in, "a:0")), ours())
			for place, got := range map[string]*Monitoring{"root": r.Monitoring, "node": r.Nodes[0].Monitoring, "link": r.Links[0].Monitoring} {
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s, %s: %s", tt.rule, place, diff)
				}
			}
		}
		for _, attrs := range []string{`§enabled="yes"`, `§enabled=""`} {
			in, places := marked(string(request("<node client_id='a'>\n" + wish(attrs, "") + "</node>")))
			r := mustParse(t, []byte(in), ours())
			if r.Nodes[0].Monitoring != nil || len(r.Notices) != 1 || r.Notices[0].ClientID != "a" || r.Notices[0].Line != 2 || r.Notices[0].Column != places[0][1] {
				t.Errorf("%s: %+v", attrs, r.Notices)
			}
		}
		if r := mustParse(t, request(nodeA+linkTo("l", wish("", ""), "a:0")), ours()); r.Links[0].Monitoring != nil || len(r.Notices) != 1 || r.Notices[0].ClientID != "l" {
			t.Errorf("%+v", r.Notices)
		}
		r := mustParse(t, request(wish(`enabled="yes"`, "")+`<node client_id="f" component_manager_id="`+them+`">`+wish(`enabled="yes"`, "")+"</node>"), ours())
		if r.Monitoring != nil || len(r.Notices) != 1 {
			t.Errorf("other aggregates: %v, %v", r.Monitoring, r.Notices)
		}
	}
	// The core element inside an interface has another meaning.
	mustParse(t, request(`<node client_id="a"><interface client_id="a:0"><monitoring user_traffic="?"/></interface></node>`), ours())
}
