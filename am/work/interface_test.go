package work

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory/provider"
)

// wired gives an allocated sliver interfaces and perhaps a public address.
func (e *env) wired(name, public string, interfaces ...am.Interface) {
	e.t.Helper()
	e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		s, _, err := v.Sliver(sliverURN(name))
		s.Interfaces = interfaces
		if public != "" {
			s.PublicAddress = netip.MustParseAddr(public)
		}
		cs.PutSliver(s)
		return cs, err
	})
}

// plug adds a key to the first interface that the provider reports for a node.
func (e *env) plug(name, key string) {
	e.t.Helper()
	e.d.with(func() {
		is := e.d.nodes[name].is
		items := append([]string(nil), is.List(provider.AttrInterfaces)...)
		items[0] = strings.TrimSuffix(items[0], "}") + "," + key + "}"
		is[provider.AttrInterfaces] = items
	})
}

func TestInterfacesAreSentAndAddressesRead(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.allocate("a-1")
		nic := urn.URN{Authority: "example.org", Type: urn.Interface, Name: "pc1:eth1"}
		e.wired("a-1", "192.0.2.10", am.Interface{ClientID: "n:0", Link: "lan", Component: nic, VLAN: 101, Addresses: []netip.Prefix{netip.MustParsePrefix("10.128.0.1/24")}}, am.Interface{ClientID: "n:1"})
		e.provision("a-1")
		e.becomes(time.Minute, notReady, "a-1")
		want := []string{
			`{"client_id":"n:0","link":"lan","slice":"urn:publicid:IDN+example.org+slice+a","component":"eth1","vlan":101,"addresses":["10.128.0.1/24"]}`,
			`{"client_id":"n:1"}`,
			`{"role":"control","public_address":"192.0.2.10"}`,
		}
		if diff := cmp.Diff(want, e.d.nodes["a-1"].is.List(provider.AttrInterfaces)); diff != "" {
			t.Errorf("the provider got (-want +got):\n%s", diff)
		}
		is := e.d.nodes["a-1"].is
		if is["slice_urn"] != sliceURN("a").String() || is["sliver_urn"] != sliverURN("a-1").String() || is["client_id"] != e.sliver("a-1").ClientID {
			t.Errorf("it got the names %v, %v and %v", is["client_id"], is["slice_urn"], is["sliver_urn"])
		}
		// Keys that the provider adds are stored and cause no further set.
		e.plug("a-1", `"mac":"02:00:00:00:00:01"`)
		e.d.with(func() { e.d.setCalls = nil })
		e.on("a-1")
		e.becomes(time.Minute, ready, "a-1")
		first := map[string]string{"n:0": "02:00:00:00:00:01"}
		if got := e.sliver("a-1"); !maps.Equal(got.Observed.MACs, first) || got.Error != "" {
			t.Errorf("hardware addresses %v, error %q", got.Observed.MACs, got.Error)
		}
		if len(e.d.setCalls) != 1 {
			t.Errorf("%d sets for one change", len(e.d.setCalls))
		}
		// The next sweep stores a changed address.
		e.d.with(func() {
			is := e.d.nodes["a-1"].is
			is[provider.AttrInterfaces] = want
		})
		e.plug("a-1", `"mac":"02:00:00:00:00:02"`)
		second := map[string]string{"n:0": "02:00:00:00:00:02"}
		e.within(31*time.Second, "the new address is known", func() bool { return maps.Equal(e.sliver("a-1").Observed.MACs, second) })
		if err := e.stop(); err != nil {
			t.Error(err)
		}
		e.st.Close()
		e.open()
		if got := e.sliver("a-1").Observed.MACs; !maps.Equal(got, second) {
			t.Errorf("after a restart: %v", got)
		}
	})
}

func TestHostileInterfacesAreHarmless(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.allocate("a-1")
		e.wired("a-1", "", am.Interface{ClientID: "n:0"}, am.Interface{ClientID: "n:1"})
		e.provision("a-1")
		e.becomes(time.Minute, notReady, "a-1")
		e.on("a-1")
		e.becomes(time.Minute, ready, "a-1")
		items := []string{
			`{"client_id":"n:0","mac":"` + strings.Repeat("02:", 20000) + `"}`, `{"client_id":"n:0","mac":"02:00:00:00:00\u0000\u001b[2J"}`,
			`{"client_id":"n:0","mac":"\"/><node/>"}`, strings.Repeat("{", 5000), `{"client_id":"n:1","mac":"02:00:00:00:00:09"}`,
		}
		for i := range 4000 {
			items = append(items, fmt.Sprintf(`{"client_id":"other:%d","mac":"02:00:00:00:%02x:%02x"}`, i, i>>8, i&255))
		}
		e.d.with(func() { e.d.nodes["a-1"].is[provider.AttrInterfaces] = items })
		only := map[string]string{"n:1": "02:00:00:00:00:09"}
		e.within(31*time.Second, "what can be used is known", func() bool { return maps.Equal(e.sliver("a-1").Observed.MACs, only) })
		if s := e.sliver("a-1"); s.Status != ready {
			t.Errorf("%v, %q", s.Status, s.Error)
		}
	})
}

func TestMoreInterfacesThanAProviderCanReport(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.allocate("a-1", "a-2")
		many := make([]am.Interface, provider.MaxItems+1)
		for i := range many {
			many[i].ClientID = fmt.Sprint("n:", i)
		}
		e.wired("a-1", "", many...)
		e.wired("a-2", "", many[1:]...)
		e.provision("a-1", "a-2")
		e.becomes(time.Minute, failed, "a-1")
		e.becomes(time.Minute, notReady, "a-2")
		if got := e.sliver("a-1").Error; got != "it has 4097 interfaces, and a node can have 4096; request fewer on each node" {
			t.Errorf("error %q", got)
		}
		e.release("a-1", "a-2")
		e.within(time.Minute, "both are gone", func() bool { return e.records() == "" })
	})
}

// TestPhysicalInterfacesByTheInventorysNames checks that the component_id of an interface
// has its name in the inventory, if there is one.
func TestPhysicalInterfacesByTheInventorysNames(t *testing.T) {
	port := func(u urn.URN) string { return map[string]string{"port-7": "eth7"}[u.Name] }
	s := am.Sliver{URN: sliverURN("a-1"), Slice: sliceURN("a-1"), Desired: am.Desired{Present: true}}
	for _, name := range []string{"port-7", "pc1:eth8"} {
		s.Interfaces = append(s.Interfaces, am.Interface{ClientID: name, Component: urn.URN{Authority: "example.org", Type: urn.Interface, Name: name}})
	}
	got := wanted(newDouble(1), &item{sliver: s, component: "pc1", port: port}).List(provider.AttrInterfaces)
	if diff := cmp.Diff([]string{`{"client_id":"port-7","component":"eth7"}`, `{"client_id":"pc1:eth8","component":"eth8"}`}, got); diff != "" {
		t.Error(diff)
	}
}

type withoutInterfaces struct{ *double }

func (w withoutInterfaces) Reports(a string) bool {
	return a != provider.AttrInterfaces && w.double.Reports(a)
}

// TestProviderWithoutInterfaces checks that a provider without the attribute
// is not asked for interfaces, and that a sliver with a public address has an error.
func TestProviderWithoutInterfaces(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.providers = func(string) (Provider, error) { return withoutInterfaces{e.d}, nil }
		e.start()
		e.allocate("a-1", "a-2")
		e.wired("a-1", "192.0.2.10", am.Interface{ClientID: "n:0", Link: "lan"})
		e.wired("a-2", "", am.Interface{ClientID: "m:0", Link: "lan"})
		e.provision("a-1", "a-2")
		e.becomes(time.Minute, notReady, "a-1", "a-2")
		e.on("a-1", "a-2")
		e.becomes(time.Minute, ready, "a-1", "a-2")
		if _, told := e.d.nodes["a-1"].is[provider.AttrInterfaces]; told {
			t.Error("it was asked for interfaces")
		}
		if got := e.sliver("a-1").Error; got != "its provider does not support public addresses, so it cannot be reached at 192.0.2.10" {
			t.Errorf("a-1: %q", got)
		}
		if got := e.sliver("a-2").Error; got != "" {
			t.Errorf("a-2: %q", got)
		}
		e.release("a-1", "a-2")
		e.within(time.Minute, "both are gone", func() bool { return e.records() == "" })
	})
}
