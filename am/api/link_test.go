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
