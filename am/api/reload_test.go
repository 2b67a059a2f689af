package api

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service/binder"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// reload loads another inventory.
func (s *site) reload(text string) {
	s.t.Helper()
	inv, err := inventory.Parse([]byte(text), "inventory.yaml", authority)
	if err != nil {
		s.t.Fatal(err)
	}
	reading := s.api.site.Load().reading
	reading.LinkTypes, reading.CopyCrossLinks = inv.LinkTypes, inv.CrossLinks == inventory.Copy
	reading.Managers = append([]urn.URN{inv.Manager}, inv.Managers...)
	if err := s.api.agg.SetInventory(context.Background(), inv, func() { s.api.SetReading(reading) }); err != nil {
		s.t.Fatal(err)
	}
}

// offering has the parts of an inventory of the table.
type offering struct {
	top, pc, host string // pc and host with %[1]d for the number
}

func (o offering) text() string {
	text := o.top + "\ncomponents:\n"
	for i := range 12 {
		if o.pc != "" {
			text += "  - " + fmt.Sprintf(o.pc, i+1) + "\n"
		}
	}
	for i := range 2 {
		if o.host != "" {
			text += "  - " + fmt.Sprintf(o.host, i+1) + "\n"
		}
	}
	return text
}

// with is o with texts replaced; each must be there.
func (o offering) with(t *testing.T, pairs ...string) offering {
	for i := 0; i < len(pairs); i += 2 {
		found := false
		for _, f := range []*string{&o.top, &o.pc, &o.host} {
			found = found || strings.Contains(*f, pairs[i])
			*f = strings.Replace(*f, pairs[i], pairs[i+1], 1)
		}
		if !found {
			t.Fatalf("%q is nowhere", pairs[i])
		}
	}
	return o
}

var offered = offering{
	top: `provider: rack
hardware_types: [small, large]
images: [{name: debian}, {name: ubuntu}]
sliver_types: [{name: raw-pc, images: [debian]}, {name: vm, images: [debian, ubuntu], default_image: ubuntu}]
gateways: [{name: g1, host: g1.example.org}, {name: g2, host: g2.example.org, user: door}]
locations: [{name: here, country: BE}]
links: [{name: core, capacity: 1G}]
vlans: [100..119]
public_addresses: [192.0.2.10..192.0.2.29]
link_types: [lan]
managers: ['urn:publicid:IDN+old.example.org+authority+cm']`,
	pc:   "{name: pc%[1]d, exclusive: true, sliver_types: [raw-pc], hardware_types: [small], gateway: g1, interfaces: [{name: eth1, link: core}]}",
	host: "{name: h%[1]d, exclusive: false, sliver_types: [vm], hardware_types: [large], capacity: {slots: 4}}",
}

// reloadStates are the states of the slices of the table.
var reloadStates = []string{"ready", "failed", "frozen", "allocated", "making", "leaving"}

// reloadSite is a site with a slice in each state. Each slice has two connected nodes, requested by
// the site's other name, and a virtual node with a public address.
func reloadSite(t *testing.T) (s *site, slices, creds_ map[string]string, alice *caller) {
	s = setting{inventory: offered.text()}.site(t)
	s.reload(offered.text())
	alice = s.user("alice")
	slices, creds_ = map[string]string{}, map[string]string{}
	users := []xmlrpc.Value{xmlrpc.Struct{{Name: "urn", Value: alice.urn.String()}, {Name: "keys", Value: strs("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMk30tU/2tNfxqftDNghJ7Atl031BRIjcRzTStYZ1nbz")}}}
	for _, state := range reloadStates {
		slices[state], creds_[state] = alice.slice("re"+state, time.Hour)
		const cm = `component_manager_id="urn:publicid:IDN+old.example.org+authority+cm"`
		body := strings.Replace(request(
			`<node client_id="a" `+cm+`><sliver_type name="raw-pc"/><interface client_id="a:0"/></node>`,
			`<node client_id="b" `+cm+`><sliver_type name="raw-pc"/><interface client_id="b:0"/></node>`,
			`<node client_id="v" `+cm+` exclusive="false"><sliver_type name="vm"/><routable_control_ip xmlns="http://www.protogeni.net/resources/rspec/ext/emulab/1"/></node>`,
		), "</rspec>", `<link client_id="l"><interface_ref client_id="a:0"/><interface_ref client_id="b:0"/><link_type name="lan"/></link></rspec>`, 1)
		alice.call("Allocate", slices[state], creds(creds_[state]), body, opts()).want(t, "Allocate", am.Success)
	}
	provision := func(state string) {
		alice.call("Provision", strs(slices[state]), creds(creds_[state]), opts(opt("geni_users", users))).want(t, "Provision", am.Success)
	}
	for _, state := range []string{"ready", "failed", "frozen", "leaving"} {
		provision(state)
		s.settle()
		alice.call("PerformOperationalAction", strs(slices[state]), creds(creds_[state]), "geni_start", opts()).want(t, "start", am.Success)
		s.settle()
	}
	provision("making")
	if err := s.store.Commit(context.Background(), func(v *store.View) (cs store.ChangeSet, err error) {
		return cs, v.Slivers(func(x am.Sliver) bool {
			if x.Slice.String() == slices["failed"] {
				x.Status.Operational, x.Error = am.Failed, "its disk is broken"
				cs.PutSliver(x)
			}
			return true
		})
	}); err != nil {
		t.Fatal(err)
	}
	alice.call("Delete", strs(slices["leaving"]), creds(creds_["leaving"]), opts()).want(t, "Delete", am.Success)
	alice.call("Shutdown", slices["frozen"], creds(creds_["frozen"]), opts()).want(t, "Shutdown", am.Success)
	return s, slices, creds_, alice
}

var generated = regexp.MustCompile(` generated="[^"]*"`)

// TestReload changes the inventory in each possible way while slivers are in each state. The
// slivers are shown as before, work as before, and are removed completely.
func TestReload(t *testing.T) {
	each := func(pc, host string) offering { return offering{offered.top, pc, host} }
	rows := []struct {
		what  string
		to    offering
		later string // a text that only later manifests have; "" if they stay the same
	}{
		{what: "nothing", to: offered},
		{what: "added", to: offered.with(t, "vlans:", "monitoring: {type: oml}\nvlans:")},
		{what: "all removed", to: offered.with(t, "name: pc%[1]d", "name: other%[1]d", "name: h%[1]d", "name: otherhost%[1]d")},
		{what: "all drained", to: offered.with(t, "exclusive: true", "exclusive: true, drained: true", "exclusive: false", "exclusive: false, drained: true")},
		{what: "shared to exclusive", to: offered.with(t, "exclusive: false", "exclusive: true", ", capacity: {slots: 4}", "")},
		{what: "exclusive to shared", to: offered.with(t, "exclusive: true", "exclusive: false, capacity: {slots: 3}")},
		{what: "less capacity than in use", to: offered.with(t, "slots: 4", "slots: 1")},
		{what: "other sliver types", to: offered.with(t, "sliver_types: [raw-pc]", "sliver_types: [vm]", "sliver_types: [vm]", "sliver_types: [raw-pc]")},
		{what: "a sliver type renamed", to: offered.with(t, "{name: vm,", "{name: virtual,", "sliver_types: [vm]", "sliver_types: [virtual]")},
		{what: "other hardware", to: offered.with(t, "hardware_types: [small],", "hardware_types: [large],")},
		{what: "another provider", to: offered.with(t, "provider: rack", "provider: other")},
		{what: "another component_id", to: offered.with(t, "{name: pc%[1]d,", "{name: pc%[1]d, component_id: 'urn:publicid:IDN+example.org+node+rack-%[1]d',")},
		{what: "another name", to: offered.with(t, "{name: pc%[1]d,", "{name: node%[1]d, component_id: 'urn:publicid:IDN+example.org+node+pc%[1]d',")},
		{what: "another gateway", to: offered.with(t, "gateway: g1", "gateway: g2"), later: "g2.example.org"},
		{what: "another location", to: offered.with(t, "gateway: g1", "gateway: g1, location: here")},
		{what: "interfaces renamed", to: offered.with(t, "{name: eth1,", "{name: eno1,")},
		{what: "interfaces removed", to: offered.with(t, "interfaces: [{name: eth1, link: core}]", "interfaces: []")},
		{what: "less on the link", to: offered.with(t, "{name: eth1, link: core}", "{name: eth1, link: core, capacity: 1M}")},
		{what: "other VLANs", to: offered.with(t, "[100..119]", "[200..219]")},
		{what: "a tag becomes shared", to: offered.with(t, "vlans: [100..119]", "vlans: [101..119]\nshared_vlans: [{name: s, tag: 100}]")},
		{what: "images removed", to: offered.with(t, "{name: debian}, {name: ubuntu}", "{name: bsd}", "images: [debian]", "images: [bsd]", "images: [debian, ubuntu], default_image: ubuntu", "images: [bsd]")},
		{what: "an image has another URN", to: offered.with(t, "{name: ubuntu}", "{name: ubuntu, urn: 'urn:publicid:IDN+example.org+image+u2'}")},
		{what: "other public addresses", to: offered.with(t, "192.0.2.10..192.0.2.29", "198.51.100.1")},
		{what: "another name of the site", to: offered.with(t, "old.example.org", "older.example.org")},
		{what: "links are refused", to: offered.with(t, "link_types: [lan]", "link_types: [vlan]")},
		{what: "everything else", to: each("{name: x%[1]d, exclusive: true, provider: p}", "")},
	}
	var control []string
	for _, row := range rows {
		t.Run(row.what, func(t *testing.T) {
			s, in, cred, alice := reloadSite(t)
			show := func() (all []string) {
				for _, state := range reloadStates {
					a := alice.call("Describe", strs(in[state]), creds(cred[state]), opts())
					b := alice.call("Status", strs(in[state]), creds(cred[state]), opts())
					all = append(all, generated.ReplaceAllString(fmt.Sprint(state, a.code, a.value, b.code, b.value), ""))
				}
				return all
			}
			before := show()
			s.reload(row.to.text())
			after := show()
			for i := range before {
				switch {
				case row.later == "" && before[i] != after[i]:
					t.Errorf("it was\n%s\nand is\n%s", before[i], after[i])
				case row.later != "" && reloadStates[i] == "ready" && !strings.Contains(after[i], row.later):
					t.Errorf("%s is not in %s", row.later, after[i])
				}
			}
			s.holdsAsOneMadeAnew(t)
			var came []string
			for _, state := range reloadStates {
				for _, c := range []struct {
					method string
					params []xmlrpc.Value
				}{
					{"Renew", []xmlrpc.Value{strs(in[state]), creds(cred[state]), s.at(30 * time.Minute), opts()}},
					{"PerformOperationalAction", []xmlrpc.Value{strs(in[state]), creds(cred[state]), "geni_restart", opts()}},
					{"Provision", []xmlrpc.Value{strs(in[state]), creds(cred[state]), opts()}},
					{"Delete", []xmlrpc.Value{strs(in[state]), creds(cred[state]), opts()}},
				} {
					came = append(came, fmt.Sprint(state, " ", c.method, " ", alice.call(c.method, c.params...).code))
				}
			}
			if control == nil {
				control = came
			}
			if !slices.Equal(came, control) {
				t.Errorf("what came of calls:\n%v\nif nothing had been changed:\n%v", came, control)
			}
			s.withProviders(t)
			s.settle()
			held, err := s.store.Slivers()
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range held {
				if !x.Frozen {
					t.Errorf("%s of %s is left", x.URN, x.Slice)
				}
			}
			s.holdsAsOneMadeAnew(t)
		})
	}
	if len(control) == 0 || !slices.Contains(control, "ready Renew SUCCESS") || !slices.Contains(control, "ready PerformOperationalAction SUCCESS") || !slices.Contains(control, "allocated Provision SUCCESS") {
		t.Errorf("the calls prove nothing: %v", control)
	}
}

// withProviders checks that each sliver that is being removed names its provider.
func (s *site) withProviders(t *testing.T) {
	t.Helper()
	err := s.store.Read(func(v *store.View) error {
		return v.Tasks(func(task am.Task) bool {
			x, _, err := v.Sliver(task.Sliver)
			if err != nil || x.Provider != "rack" || !strings.HasPrefix(x.ComponentName, "pc") && !strings.HasPrefix(x.ComponentName, "h") {
				t.Errorf("%s on %q is %q's: %v", task.Sliver, x.ComponentName, x.Provider, err)
			}
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// holdsAsOneMadeAnew checks that the advertisement shows everything that the slivers' records leave
// free.
func (s *site) holdsAsOneMadeAnew(t *testing.T) {
	t.Helper()
	agg := s.api.agg
	inv := agg.Inventory()
	all, err := s.store.Slivers()
	if err != nil {
		t.Fatal(err)
	}
	records := binder.View{Inventory: inv, Now: s.store.Now(), Calendar: func(f func(*am.Hold) bool) error {
		for _, x := range all {
			if h := am.HoldOf(&x); !f(&h) {
				break
			}
		}
		return nil
	}}
	anew, err := records.Availability()
	if err != nil {
		t.Fatal(err)
	}
	text, err := agg.AppendAdvertisement(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	ad := string(text)
	for _, c := range inv.Components {
		_, rest, ok := strings.Cut(ad, `component_id="`+c.URN.String()+`"`)
		rest, _, _ = strings.Cut(rest, "</node>")
		if want := fmt.Sprintf(`<available now="%v"`, anew.Free(c.Index) > 0); !ok || !strings.Contains(rest, want) {
			t.Errorf("%s is advertised %v and not %s: %s", c.Name, ok, want, rest)
		}
	}
}

// TestReloadRace reloads the inventory a hundred times while callers reserve, list and delete. No
// machine has two owners, no acknowledged sliver is lost, and every advertisement belongs to
// exactly one inventory.
func TestReloadRace(t *testing.T) {
	texts := []string{
		offered.text(),
		offered.with(t, "name: pc%[1]d", "name: pc%[1]d, component_id: 'urn:publicid:IDN+example.org+node+rack-%[1]d'", "[small]", "[large]").text(),
		offered.with(t, "exclusive: true", "exclusive: true, drained: true").text(),
	}
	s := setting{inventory: texts[0]}.site(t)
	s.previewer = nil // the inventory changes between the two
	alice := s.user("alice")
	done := make(chan struct{})
	var callers sync.WaitGroup
	var mu sync.Mutex
	taken := 0
	for i := range 6 {
		slice, cred := alice.slice(fmt.Sprintf("rr%d", i), time.Hour)
		callers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				a := alice.call("Allocate", slice, creds(cred), request(node("a"), node("b")), opts())
				switch a.code {
				case am.Success:
				case am.TooBig:
					continue
				default:
					t.Errorf("Allocate: %d %s", a.code, a.output)
					return
				}
				mu.Lock()
				taken++
				mu.Unlock()
				if got := alice.call("Describe", strs(slice), creds(cred), opts()); got.code != am.Success || len(got.slivers(t)) != 2 {
					t.Errorf("an acknowledged change is lost: %d %s", got.code, got.output)
				}
				held, err := s.store.Slivers()
				if err != nil {
					t.Error(err)
				}
				owner := map[string]urn.URN{}
				for _, x := range held { // by what the provider knows them
					if other, ok := owner[x.ComponentName]; ok {
						t.Errorf("%s belongs to %s and %s", x.ComponentName, other, x.Slice)
					}
					owner[x.ComponentName] = x.Slice
				}
				alice.call("Delete", strs(slice), creds(cred), opts()).want(t, "Delete", am.Success)
			}
		})
	}
	callers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			ad := alice.call("ListResources", creds(alice.user), opts()).value.(string)
			old, renamed := strings.Count(ad, `+node+pc`), strings.Count(ad, `+node+rack-`)
			small, large := strings.Count(ad, `<hardware_type name="small"`), strings.Count(ad, `<hardware_type name="large"`)
			if old*renamed != 0 || old+renamed < 12 || (old > 0) != (small > 0) || renamed > 0 && large < 14 {
				t.Errorf("a half-old advertisement: %d pcs, %d renamed, %d small, %d large", old, renamed, small, large)
			}
		}
	})
	for i := range 100 {
		s.reload(texts[i%len(texts)])
	}
	close(done)
	callers.Wait()
	t.Logf("%d reservations", taken)
	if taken == 0 {
		t.Error("nothing was ever reserved: the test proves nothing")
	}
	s.holdsAsOneMadeAnew(t)
}

// TestReloadWhileAProviderIsAsked takes a component out of service during its dry run. The request
// is refused.
func TestReloadWhileAProviderIsAsked(t *testing.T) {
	for _, tt := range []struct {
		what string
		to   offering
		code am.Code
		held int
	}{
		{"something else was changed", offered.with(t, "gateway: g1", "gateway: g2"), am.Success, 1},
		{"its URN was changed", offered.with(t, "{name: pc%[1]d,", "{name: pc%[1]d, component_id: 'urn:publicid:IDN+example.org+node+rack-%[1]d',"), am.Success, 1},
		{"it was drained", offered.with(t, "exclusive: true", "exclusive: true, drained: true"), am.Unavailable, 0},
		{"it was removed", offered.with(t, "name: pc%[1]d", "name: other%[1]d"), am.Unavailable, 0},
		{"it has another provider", offered.with(t, "provider: rack", "provider: other"), am.Unavailable, 0},
	} {
		var s *site
		s = setting{inventory: offered.text(), prober: meanwhile{func() { s.reload(tt.to.text()) }}}.site(t)
		alice := s.user("alice")
		slice, cred := alice.slice("asked", time.Hour)
		if a := alice.call("Allocate", slice, creds(cred), request(node("a")), opts()); a.code != tt.code {
			t.Errorf("%s: %v %s, want %v", tt.what, a.code, a.output, tt.code)
		}
		s.settle()
		if held, err := s.store.Slivers(); err != nil || len(held) != tt.held {
			t.Errorf("%s: %d are held, want %d; %v", tt.what, len(held), tt.held, err)
		}
	}
}
