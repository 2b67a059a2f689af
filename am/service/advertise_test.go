package service

import (
	"strings"
	"testing"

	"patchbay/am"
)

// TestAdvertisedMachineIsTheTable holds the advertised machine against
// am.Next: every action is accepted as advertised, and nothing else is.
func TestAdvertisedMachineIsTheTable(t *testing.T) {
	m := machine(Config{Inventory: testInventory(t)})
	if m.Start != string(am.NotReady) || len(m.SliverTypes) != 2 || len(m.States) != len(am.AdvertisedStates) {
		t.Fatalf("machine: %+v", m)
	}
	for _, s := range m.States {
		next := map[string]string{}
		for _, a := range s.Actions {
			if a.Description == "" {
				t.Errorf("action %s in %s is not explained", a.Name, s.Name)
			}
			next[a.Name] = a.Next
		}
		for _, a := range am.Actions {
			to, err := am.Next(am.Status{Allocation: am.Provisioned, Operational: am.OperationalState(s.Name)}, a)
			if want, advertised := next[string(a)]; advertised != (err == nil) || advertised && want != string(to.Operational) {
				t.Errorf("%s in %s: advertised %q (%v), but am.Next says %v, %v", a, s.Name, want, advertised, to, err)
			}
		}
		for _, w := range s.Waits {
			if !strings.HasPrefix(w.Type, "geni_") || w.Next == "" {
				t.Errorf("wait of %s: %+v", s.Name, w)
			}
		}
	}
}
