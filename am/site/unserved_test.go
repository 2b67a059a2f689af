package site

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/follow/audit"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/inventory"
)

// TestClientOfUnservedSite sends requests to a site without a server.
func TestClientOfUnservedSite(t *testing.T) {
	c, err := ReadConfig(filepath.Join(made(t), ConfigName))
	if err == nil {
		err = os.WriteFile(c.Inventory, inventory.SimulatedText("testbed.example.org"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	list := func() (string, error) {
		var b strings.Builder
		err := Connect(c).List(t.Context(), "journal", operate.Filter{}, &b)
		return b.String(), err
	}
	if _, err := list(); !errors.Is(err, ErrNeverServed) {
		t.Errorf("without a store: %v", err)
	}
	held, err := c.OpenState() // creates the store
	if err != nil {
		t.Fatal(err)
	}
	if _, err := list(); !errors.Is(err, store.ErrLocked) {
		t.Errorf("while another process has the store: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	order := func(o operate.MaintenanceOrder) (r operate.MaintenanceResult, err error) {
		served, err := Connect(c).Order(t.Context(), "/maintenance", o, &r)
		if served {
			t.Error("the order was served")
		}
		return r, err
	}
	if r, err := order(operate.MaintenanceOrder{Event: operate.LockDown, Text: "power", Operator: "alice"}); err != nil || r.State.Lockdown == nil || r.Warning != "" {
		t.Fatalf("a lockdown: %+v, %v", r, err)
	}
	if r, err := order(operate.MaintenanceOrder{Event: operate.Drain, Components: []string{"pc1"}, Operator: "alice"}); err != nil || len(r.Changed) != 1 {
		t.Fatalf("a drain: %+v, %v", r, err)
	}
	if rows, err := list(); err != nil || !strings.Contains(rows, `"pc1"`) {
		t.Errorf("the journal has %q, %v", rows, err)
	}
	if seen, err := audit.Seen(c.Audit); err != nil || seen == 0 {
		t.Errorf("the audit has %d lines, %v", seen, err)
	}
	for _, o := range []operate.MaintenanceOrder{
		{Event: operate.LockDown, Text: "a\nb", Operator: "alice"}, {Event: operate.LockDown, Operator: "alice"}, {Event: operate.LiftLockdown}, {Event: "release", Operator: "alice"},
		{Event: operate.Drain, Components: []string{"pc99"}, Operator: "alice"}, {Event: operate.PlanMaintenance, Text: "x", Operator: "alice"}, {Event: operate.CancelMaintenance, Numbers: []int{0}, Operator: "alice"},
	} {
		if _, err := order(o); err == nil || strings.Contains(err.Error(), "served") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if state, _, err := ReadMaintenanceState(t.Context(), c); err != nil || state.Lockdown == nil || state.Lockdown.Text != "power" || len(state.Planned) != 0 {
		t.Errorf("after the refused orders: %+v, %v", state, err)
	}
	if err := Connect(c).Ask(t.Context(), "/hooks", new(any)); !errors.Is(err, ErrNotServed) {
		t.Errorf("a request that needs a server: %v", err)
	}
}
