package api

import (
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/service"
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

// TestLinksAreAccounted takes what an interface carries, and gets it back.
func TestLinksAreAccounted(t *testing.T) {
	s := setting{inventory: switched, extensions: []string{service.SliverInfo, service.VNode}}.site(t)
	alice := s.user("alice")
	one, cred1 := alice.slice("s1", 48*time.Hour)
	two, cred2 := alice.slice("s2", 48*time.Hour)

	first := alice.call("Allocate", one, creds(cred1), across("600000"), opts()).want(t, "Allocate", am.Success)
	manifest := get(first.value, "geni_rspec").(string)
	for _, want := range []string{
		`vlantag="100"`, `component_id="urn:publicid:IDN+` + authority + `+interface+h1:nic"`, `address="10.5.0.1"`, `netmask="255.255.255.0"`, `ipv4="192.0.2.10"`,
		"geni_sliver_info", "vnode",
	} {
		if !strings.Contains(manifest, want) {
			t.Errorf("the manifest lacks %s:\n%s", want, manifest)
		}
	}
	refused := func(when string) {
		t.Helper()
		a := alice.call("Allocate", two, creds(cred2), strings.ReplaceAll(across("500000"), "routable_control_ip", "other"), opts()).want(t, when, am.TooBig)
		if a.detail != int(am.InsufficientBandwidth) || !strings.Contains(a.output, `link "l": its interface "a:0" asks for 500000 kbit/s out of nic of h1 (core), of whose 1000000 only 400000 are left`) {
			t.Errorf("%s: am_code %d, %s", when, a.detail, a.output)
		}
	}
	refused("while it is held")
	if a := alice.call("Allocate", two, creds(cred2), across("1"), opts()).want(t, "no public address left", am.TooBig); a.detail != int(am.InsufficientNodes) {
		t.Errorf("am_code %d", a.detail)
	}
	alice.call("Provision", strs(one), creds(cred1), opts()).want(t, "Provision", am.Success)
	s.settle()
	again := get(alice.call("Describe", strs(one), creds(cred1), opts()).want(t, "Describe", am.Success).value, "geni_rspec").(string)
	if !strings.Contains(again, `vlantag="100"`) || !strings.Contains(again, `address="10.5.0.1"`) {
		t.Errorf("Describe tells other links:\n%s", again)
	}

	// What a new start would know is in the records.
	restarted := binder.NewIndex(s.inventory)
	if err := s.store.Observe(restarted); err != nil {
		t.Fatal(err)
	}
	req, err := rspec.ParseRequest([]byte(across("500000")), rspec.ReadOptions{Managers: []urn.URN{s.inventory.Manager}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := binder.Bind(req, restarted, s.inventory.Manager); err == nil || !strings.Contains(err.Error(), "only 400000 are left") {
		t.Errorf("after a restart: %v", err)
	}

	alice.call("Delete", strs(one), creds(cred1), opts()).want(t, "Delete", am.Success)
	refused("while it is being cleaned")
	s.settle()
	alice.call("Allocate", two, creds(cred2), across("500000"), opts()).want(t, "Allocate after it is gone", am.Success)
}

// TestNoticesOfWhatIsNotDone asks for what a site does not have.
func TestNoticesOfWhatIsNotDone(t *testing.T) {
	const wish = `<m:monitoring xmlns:m="http://schemas.fed4fire.eu/schemas/rspec/ext/f4f_monitoring/1" enabled="true" monitoring_endpoint="tcp:oml.example.org:3003"><m:metric id="CPU.load"/><m:metric id="tea"/></m:monitoring>`
	const doc = `<node client_id="a">` + wish + `<routable_control_ip xmlns="http://www.protogeni.net/resources/rspec/ext/emulab/1"/></node>`
	for _, tt := range []struct {
		rule, inventory string
		want            []string
		not             string
	}{
		{"a site with monitoring", switched, []string{`node "a": there is no metric "tea" here`}, "CPU"},
		{"a site without anything", "provider: rack\nsliver_types: [{name: vm}]\ncomponents: [{name: pc, exclusive: true}]", []string{
			`node "a": this aggregate offers no monitoring; the wish is copied, and nothing is measured`,
			`node "a": there are no public addresses here, so routable_control_ip is copied and gives none`,
		}, "metric"},
	} {
		s := setting{inventory: tt.inventory}.site(t)
		alice := s.user("alice")
		slice, cred := alice.slice("s1", time.Hour)
		a := alice.call("Allocate", slice, creds(cred), request(doc), opts()).want(t, tt.rule, am.Success)
		for _, want := range tt.want {
			if !strings.Contains(a.output, want) {
				t.Errorf("%s: output lacks %s: %s", tt.rule, want, a.output)
			}
		}
		if strings.Contains(a.output, tt.not) {
			t.Errorf("%s: output speaks of %s: %s", tt.rule, tt.not, a.output)
		}
		if !strings.Contains(get(a.value, "geni_rspec").(string), wish) {
			t.Errorf("%s: the wish is not copied", tt.rule)
		}
	}
}

// What the schemas have against a request is for the operator's log alone.
func TestSchemasInformTheOperator(t *testing.T) {
	alice := setting{}.site(t).user("alice")
	slice, cred := alice.slice("s1", time.Hour)
	a := alice.call("Allocate", slice, creds(cred), request(`<node client_id="a" pi_tag="1" x="2"/>`), opts()).want(t, "against the schema", am.Success)
	if e := a.resp.Event; e.Findings != 2 || !strings.Contains(e.Finding, "pi_tag") || strings.Contains(a.output, "pi_tag") {
		t.Errorf("%d findings, first %q; output %q", e.Findings, e.Finding, a.output)
	}
	a = alice.call("Allocate", slice, creds(cred), request(`<node client_id="b"/>`), opts()).want(t, "by the schema", am.Success)
	if e := a.resp.Event; e.Findings != 0 || e.Finding != "" {
		t.Errorf("%d findings, first %q", e.Findings, e.Finding)
	}
}

// TestNamesAreHeldAcrossAllocates: a manifest of the slice has each client_id
// once for a node, an interface and a link, also a link that is only copied.
func TestNamesAreHeldAcrossAllocates(t *testing.T) {
	s := setting{inventory: strings.Replace(switched, "link_types", "cross_links: copy\nlink_types", 1)}.site(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", 48*time.Hour)
	end := func(node, name string) string {
		return `<node client_id="` + node + `"><interface client_id="` + name + `"/></node>`
	}
	far := `<node client_id="far" component_manager_id="urn:publicid:IDN+elsewhere.example.net+authority+am"><interface client_id="far:0"/></node>`
	link := func(id, a, b string) string {
		return `<link client_id="` + id + `"><interface_ref client_id="` + a + `"/><interface_ref client_id="` + b + `"/></link>`
	}
	sl := alice.call("Allocate", slice, creds(cred), request(end("a", "if0"), end("b", "if1"), far, link("lan", "if0", "if1"), link("cross", "if0", "far:0")), opts()).want(t, "Allocate", am.Success).slivers(t)
	for _, tt := range []struct {
		rule, in, says string
		want           am.Code
	}{
		{"an interface again", request(end("c", "if0")), `interface "if0" is in the slice already`, am.Exists},
		{"a cross link again", request(end("c", "if2"), far, link("cross", "if2", "far:0")), `link "cross" is in the slice already`, am.Exists},
		{"an own link named as a cross link", request(end("c", "if2"), `<link client_id="cross"><interface_ref client_id="if2"/></link>`), `link "cross"`, am.Exists},
		{"a cross link named as an own link", request(end("c", "if2"), far, link("lan", "if2", "far:0")), `link "lan"`, am.Exists},
		{"a node named as an interface and a link named as a node", request(end("if0", "lan"), `<link client_id="a"><interface_ref client_id="lan"/></link>`), "", am.Success},
	} {
		if a := alice.call("Allocate", slice, creds(cred), tt.in, opts()).want(t, tt.rule, tt.want); !strings.Contains(a.output, tt.says) {
			t.Errorf("%s: %q lacks %q", tt.rule, a.output, tt.says)
		}
	}
	alice.call("Delete", strs(get(sl[0], "geni_sliver_urn").(string)), creds(cred), opts()).want(t, "Delete a", am.Success)
	alice.call("Allocate", slice, creds(cred), request(end("a", "if3")), opts()).want(t, "another node of the name", am.Success)
	alice.call("Allocate", slice, creds(cred), request(end("c", "if0"), far, link("cross", "if0", "far:0")), opts()).want(t, "free with the node, whatever has its name now", am.Success)
	m := get(alice.call("Describe", strs(slice), creds(cred), opts()).want(t, "Describe", am.Success).value, "geni_rspec").(string)
	for _, id := range []string{"<link client_id=\"cross\"", "<interface client_id=\"if0\""} {
		if n := strings.Count(m, id); n != 1 {
			t.Errorf("%s is %d times in the manifest:\n%s", id, n, m)
		}
	}
}

// Where the inventory does not know the network of one end, nothing is counted,
// and the experimenter hears of it.
func TestCapacityThatIsNotAccountedIsNoticed(t *testing.T) {
	alice := setting{inventory: switched + "  - {name: far, exclusive: true}\n"}.site(t).user("alice")
	slice, cred := alice.slice("s1", time.Hour)
	pair := func(a, b, on, property string) string {
		return `<node client_id="` + a + `"><interface client_id="` + a + `:0"/></node>` +
			`<node client_id="` + b + `" component_id="urn:publicid:IDN+` + authority + `+node+` + on + `"><interface client_id="` + b + `:0"/></node>` +
			`<link client_id="` + a + b + `"><interface_ref client_id="` + a + `:0"/><interface_ref client_id="` + b + `:0"/>` + property + `</link>`
	}
	const notice = `link "ab": the inventory knows no network of far, so the capacity is not accounted`
	a := alice.call("Allocate", slice, creds(cred), request(pair("a", "b", "far", `<property source_id="a:0" dest_id="b:0" capacity="5"/>`)), opts()).want(t, "one end not known", am.Success)
	if !strings.Contains(a.output, notice) {
		t.Errorf("output is %q", a.output)
	}
	a = alice.call("Allocate", slice, creds(cred), request(pair("c", "d", "h2", `<property source_id="c:0" dest_id="d:0" capacity="5"/>`)), opts()).want(t, "both known", am.Success)
	if strings.Contains(a.output, "accounted") {
		t.Errorf("output is %q", a.output)
	}
}
