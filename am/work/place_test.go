package work

import (
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory/provider"
)

// madeBy writes the provider into a sliver's record, as the service does at the binding.
func madeBy(name, component, by string) store.Decision {
	return func(v *store.View) (cs store.ChangeSet, err error) {
		s, _, err := v.Sliver(sliverURN(name))
		s.ComponentName, s.Provider = component, by
		cs.PutSliver(s)
		return cs, err
	}
}

// TestSliversKeepTheProviderInTheirRecord checks that a sliver stays with the provider in its record,
// also if the inventory later names another one.
func TestSliversKeepTheProviderInTheirRecord(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		later func(urn.URN) (string, string, bool)
	}{
		{"its component has left the inventory", func(urn.URN) (string, string, bool) { return "", "", false }},
		{"its component has another provider", func(urn.URN) (string, string, bool) { return "pc1", "other", true }},
		{"its component has another name", func(urn.URN) (string, string, bool) { return "renamed", "double", true }},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				other := newDouble(2)
				e.providers = func(name string) (Provider, error) {
					if name == "other" {
						return other, nil
					}
					return e.d, nil
				}
				e.start()
				e.allocate("a-1")
				e.commit(madeBy("a-1", "pc1", "double"))
				e.provision("a-1")
				e.becomes(time.Second, notReady, "a-1")
				if err := e.stop(); err != nil {
					t.Fatal(err)
				}
				e.components = tt.later
				e.start()
				e.on("a-1")
				e.becomes(time.Second, ready, "a-1")
				if is := e.d.show("a-1"); is.Text(provider.AttrComponent) != "pc1" {
					t.Errorf("it was asked to be on %s", is.Text(provider.AttrComponent))
				}
				e.d.with(func() { e.d.nodes["a-1"].is["addresses"] = []string{"192.0.2.77"} })
				e.within(31*time.Second, "it is looked at", func() bool { return len(e.sliver("a-1").Observed.Addresses) == 1 })
				e.release("a-1")
				e.within(time.Second, "it is gone", func() bool { return !e.exists("a-1") && e.d.nodes["a-1"] == nil })
				if other.gets > 0 {
					t.Error("another provider was asked")
				}
			})
		})
	}
}

// TestOlderRecordsAreFilledIn checks that records of earlier versions get the provider that
// the inventory names. If it names none, the sliver waits until it does.
func TestOlderRecordsAreFilledIn(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.interfaces = func(u urn.URN) string { return "eth-" + u.Name }
		e.allocate("a-1", "a-2")
		e.commit(onComponent("a-2", "unknown"))
		e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
			s, _, err := v.Sliver(sliverURN("a-1"))
			s.Interfaces = []am.Interface{{ClientID: "a:0", Component: urn.URN{Authority: "example.org", Type: urn.Interface, Name: "x"}}, {ClientID: "a:1"}}
			cs.PutSliver(s)
			return cs, err
		})
		e.start()
		e.within(time.Second, "it is filled in", func() bool { return e.sliver("a-1").Provider != "" })
		s := e.sliver("a-1")
		if s.Provider != "double" || s.ComponentName != "pc1" || s.Interfaces[0].ComponentName != "eth-x" || s.Interfaces[1].ComponentName != "" {
			t.Errorf("%q on %q, interfaces %+v", s.Provider, s.ComponentName, s.Interfaces)
		}
		e.provision("a-2")
		e.within(time.Second, "it waits", func() bool { return strings.Contains(e.sliver("a-2").Error, "not in the inventory") })
		if s := e.sliver("a-2"); s.Provider != "" {
			t.Errorf("a-2 is %q's", s.Provider)
		}
		if err := e.stop(); err != nil {
			t.Fatal(err)
		}
		e.components = func(u urn.URN) (string, string, bool) { return u.Name, "double", true }
		e.start()
		e.becomes(time.Second, notReady, "a-2")
	})
}
