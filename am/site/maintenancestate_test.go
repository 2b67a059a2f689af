package site

import (
	"context"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/am/site/operate"
	"patchbay/am/urn"
	"patchbay/inventory"
)

func TestLeasesThatOverlapMaintenance(t *testing.T) {
	inv, err := inventory.Parse(inventory.SimulatedText("example.org"), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	p, err := maintenance.Parse([]byte(`planned:
  - {components: [pc1, pc2], from: 2030-01-01T08:00:00Z, until: 2030-01-01T10:00:00Z, text: x}
  - {from: 2030-01-01T12:00:00Z, until: 2030-01-01T13:00:00Z, text: y}
  - {components: [pc1], from: 2029-01-01T12:00:00Z, until: 2029-01-01T13:00:00Z, text: over}
`), "maintenance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	hour := func(n int) time.Time { return time.Date(2030, 1, 1, n, 0, 0, 0, time.UTC) }
	on := func(slice, component string, until int) am.Sliver {
		return am.Sliver{
			URN: urn.URN{Authority: "example.org", Type: urn.Sliver, Name: slice + component}, Slice: urn.URN{Authority: "example.org", Type: urn.Slice, Name: slice},
			Component: urn.URN{Authority: "example.org", Type: urn.Node, Name: component}, Expires: hour(until), Status: am.Status{Allocation: am.Provisioned},
		}
	}
	frozen := on("d", "pc3", 1)
	frozen.Frozen = true
	released := on("e", "pc1", 20)
	released.Status.Allocation = am.Unallocated
	reserved := on("f", "pc4", 7)
	reserved.Status.Allocation = am.Allocated
	later := on("g", "pc4", 9)
	later.Status.Allocation, later.Begins, later.Ends = am.Allocated, hour(8), hour(9)
	s := maintenanceState(p, inv, []am.Sliver{
		on("a", "pc1", 8),  // ends as it begins
		on("b", "pc1", 9),  // reaches into the first
		on("b", "pc2", 11), // so does this
		on("c", "pc3", 14), // into the second
		on("c", "gone", 14), frozen, released, reserved, later,
	}, hour(6))
	var got []string
	for _, r := range s.Affected {
		got = append(got, strings.TrimPrefix(r.String(), "urn:publicid:IDN+example.org+slice+"))
	}
	want := "b: 2 slivers, until 2030-01-01T11:00:00Z, c: 1 sliver, until 2030-01-01T14:00:00Z, d: 1 sliver, shut down and kept"
	if strings.Join(got, ", ") != want || s.Affected[0].Planned != 0 || s.Affected[2].Planned != 1 {
		t.Errorf("who reaches into it: %q", got)
	}
	if s.Slivers != 6 || s.Slices != 4 || s.Reserved != 1 || s.Waiting != 1 {
		t.Errorf("%d slivers of %d slices, %d reserved and %d waiting", s.Slivers, s.Slices, s.Reserved, s.Waiting)
	}
}

// TestMaintenanceOverReservations plans maintenance over a reservation on pc1 from 8 to 10 o'clock.
func TestMaintenanceOverReservations(t *testing.T) {
	hour := func(n int) time.Time { return time.Date(2030, 1, 1, n, 0, 0, 0, time.UTC) }
	name := func(kind, n string) urn.URN { return urn.URN{Authority: "example.org", Type: kind, Name: n} }
	for _, tt := range []struct {
		rule        string
		components  []string
		from, until int
		over        bool
		lists       bool
	}{
		{"before it", []string{"pc1"}, 7, 8, false, false},
		{"after it", []string{"pc1"}, 10, 11, false, false},
		{"another component", []string{"pc2"}, 7, 11, false, false},
		{"in it", []string{"pc1..pc3"}, 9, 11, false, true},
		{"the whole site", nil, 7, 9, false, true},
		{"in it, and that is said", []string{"pc1"}, 7, 9, true, false},
	} {
		c := &Config{Authority: "example.org", Maintenance: filepath.Join(t.TempDir(), "maintenance.yaml"), Inventory: filepath.Join(t.TempDir(), "inventory.yaml")}
		if err := os.WriteFile(c.Inventory, inventory.SimulatedText("example.org"), 0o600); err != nil {
			t.Fatal(err)
		}
		e := &maintenanceEndpoint{config: c, now: func() time.Time { return hour(6) }, slivers: func() ([]am.Sliver, error) {
			return []am.Sliver{{
				URN: name(urn.Sliver, "x"), Slice: name(urn.Slice, "s"), ClientID: "a", Component: name(urn.Node, "pc1"), Creator: name(urn.User, "alice"),
				Status: am.Status{Allocation: am.Allocated}, Begins: hour(8), Ends: hour(10), Expires: hour(9),
			}}, nil
		}}
		plan, err := e.change(&operate.MaintenanceOrder{Event: operate.PlanMaintenance, Components: tt.components, Text: "disks", From: hour(tt.from), Until: hour(tt.until), Over: tt.over, Operator: "dora"}, &maintenanceChange{})
		switch {
		case tt.lists && (err == nil || !strings.Contains(err.Error(), "s/a on pc1 from 2030-01-01T08:00:00Z")):
			t.Errorf("%s: %v", tt.rule, err)
		case !tt.lists && (err != nil || len(plan.Planned) != 1):
			t.Errorf("%s: %v", tt.rule, err)
		}
	}
}

// TestASlowOrderDelaysNoOther reads the state while an order arrives.
func TestASlowOrderDelaysNoOther(t *testing.T) {
	e := &maintenanceEndpoint{state: func(context.Context) (operate.MaintenanceState, error) { return operate.MaintenanceState{}, nil }}
	body, client := io.Pipe()
	ended := make(chan struct{})
	go func() {
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", maintenancePath, body))
		close(ended)
	}()
	if _, err := client.Write([]byte("{")); err != nil { // it reads the order
		t.Fatal(err)
	}
	if !e.one.TryLock() {
		t.Error("the order holds the lock")
	} else {
		e.one.Unlock()
	}
	client.Close()
	<-ended
}
