package operate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// reserve adds slivers of exp-b that begin at the given times from now, and last for an hour.
func (s *site) reserve(on map[string]time.Duration) {
	s.t.Helper()
	s.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		for component, begins := range on {
			x := held()[0]
			if c, _ := s.inv.ComponentNamed(component); len(c.HardwareTypes) > 0 {
				x.HardwareType = c.HardwareTypes[0]
			}
			x.URN, x.Slice, x.ClientID, x.Creator = name(urn.Sliver, "later-"+component), sliceB, "later-"+component, bob
			x.Component, x.ComponentName, x.Status, x.Observed, x.Document = name(urn.Node, component), component, allocated, am.Observed{}, "dexp-b"
			x.Begins, x.Ends = now.Add(begins), now.Add(begins+time.Hour)
			x.Expires = x.Begins.Add(30 * time.Minute)
			cs.PutSliver(x)
		}
		return cs, nil
	})
}

// TestRenewOverReservations renews s1 on pc1, which another slice has reserved in four hours, together with pc4. It has
// pc2 at another time.
func TestRenewOverReservations(t *testing.T) {
	for _, tt := range []struct {
		rule       string
		order      operate.Renew
		refused    string
		has, lacks []string // in the state
		displaced  int
	}{
		{"until the start", operate.Renew{End: operate.End{For: 4 * 3600}}, "", []string{"s1 ready gen 1 until 02T16:00", "later-pc1 allocated"}, nil, 0},
		{"beyond it", operate.Renew{End: operate.End{For: 5 * 3600}}, "exp-b/later-pc1 on pc1 from 2030-01-02T16:00:00Z", []string{"s1 ready gen 1 until 02T15:00", "later-pc1 allocated"}, nil, 0},
		{"a preview", operate.Renew{End: operate.End{For: 5 * 3600}, Over: true, Preview: true}, "", []string{"s1 ready gen 1 until 02T15:00", "later-pc1 allocated"}, nil, 2},
		{"over it", operate.Renew{End: operate.End{For: 5 * 3600}, Over: true, Text: "thesis"}, "", []string{"s1 ready gen 1 until 02T17:00", "later-pc2", `Delete by dora "released by an operator to make room: thesis" 1`}, []string{"later-pc1", "later-pc4"}, 2},
	} {
		s := newSite(t)
		s.reserve(map[string]time.Duration{"pc1": 4 * time.Hour, "pc4": 4 * time.Hour, "pc2": 5 * time.Hour})
		tt.order.Targets, tt.order.Operator = []string{"exp-a/web"}, "dora"
		done, err := s.Renew(t.Context(), tt.order)
		if (err != nil) != (tt.refused != "") || err != nil && !strings.Contains(err.Error(), tt.refused) || len(done.Displaced) != tt.displaced {
			t.Errorf("%s: %v, displaced %v", tt.rule, err, done.Displaced)
		}
		has(t, tt.rule, s.state(2), tt.has...)
		lacks(t, tt.rule, strings.Split(s.state(2), "serial")[0], tt.lacks...)
	}
}

// TestThawOverReservations thaws s6, whose component another slice has reserved in four hours.
func TestThawOverReservations(t *testing.T) {
	for _, tt := range []struct {
		rule       string
		order      operate.Thaw
		refused    string
		has, lacks []string // in the state
		displaced  int
	}{
		{"until the start", operate.Thaw{Extend: operate.End{For: 4 * 3600}}, "", []string{"s6 notready gen 1 until 02T16:00;", "later-pc3 allocated"}, nil, 0},
		{"beyond it", operate.Thaw{Extend: operate.End{For: 5 * 3600}}, "release it with --over (1 sliver)", []string{"s6 ", "frozen", "later-pc3 allocated"}, nil, 0},
		{"a preview", operate.Thaw{Extend: operate.End{For: 5 * 3600}, Over: true, Preview: true}, "", []string{"frozen", "later-pc3 allocated"}, nil, 1},
		{"over it", operate.Thaw{Extend: operate.End{For: 5 * 3600}, Over: true}, "", []string{"s6 notready gen 1 until 02T17:00;", `Delete by dora "released by an operator to make room" 1`}, []string{"later-pc3"}, 1},
	} {
		s := newSite(t)
		s.reserve(map[string]time.Duration{"pc3": 4 * time.Hour})
		tt.order.Slice, tt.order.Operator = "frozen", "dora"
		done, err := s.Thaw(t.Context(), tt.order)
		if (err != nil) != (tt.refused != "") || err != nil && !strings.Contains(err.Error(), tt.refused) || len(done.Displaced) != tt.displaced {
			t.Errorf("%s: %v, displaced %v", tt.rule, err, done.Displaced)
		}
		has(t, tt.rule, s.state(2), tt.has...)
		lacks(t, tt.rule, strings.Split(s.state(2), "serial")[0], tt.lacks...)
	}
}

// TestRenewOnSharedComponents renews s5 on h2, which has two cores.
func TestRenewOnSharedComponents(t *testing.T) {
	for cores, refused := range map[int64]bool{1: false, 2: true} {
		s := newSite(t)
		s.reserve(map[string]time.Duration{"h2": 4 * time.Hour})
		s.commit(func(v *store.View) (cs store.ChangeSet, err error) {
			x, _, err := v.Sliver(name(urn.Sliver, "later-h2"))
			x.Exclusive, x.Amount = false, am.Amount{Slots: 1, Cores: cores}
			cs.PutSliver(x)
			return cs, err
		})
		_, err := s.Renew(t.Context(), operate.Renew{Targets: []string{name(urn.Sliver, "s5").String()}, End: operate.End{For: 5 * 3600}, Operator: "dora"})
		if (err != nil) != refused {
			t.Errorf("%d cores are reserved: %v", cores, err)
		}
	}
}

// TestRenewOfReservations sets the end of a reservation that has not begun; it keeps its time to wait for Provision.
func TestRenewOfReservations(t *testing.T) {
	s := newSite(t)
	s.reserve(map[string]time.Duration{"pc1": 4 * time.Hour})
	renew := func(hours int64) error {
		_, err := s.Renew(t.Context(), operate.Renew{Targets: []string{name(urn.Sliver, "later-pc1").String()}, End: operate.End{For: hours * 3600}, Operator: "dora"})
		return err
	}
	if err := renew(3); err == nil || !strings.Contains(err.Error(), "begins at 2030-01-02T16:00:00Z") {
		t.Error(err)
	}
	s.commit(func(v *store.View) (cs store.ChangeSet, err error) { // an earlier one on the same node is no obstacle
		x, _, err := v.Sliver(name(urn.Sliver, "later-pc1"))
		x.URN, x.ClientID = name(urn.Sliver, "earlier"), "earlier"
		x.Begins, x.Ends, x.Expires = now.Add(3*time.Hour), now.Add(4*time.Hour), now.Add(4*time.Hour)
		cs.PutSliver(x)
		return cs, err
	})
	if err := renew(9); err != nil {
		t.Error(err)
	}
	has(t, "its end", s.lines("slivers", operate.Filter{Sliver: "later-pc1"}), `"begins":"2030-01-02T16:00:00Z"`, `"ends":"2030-01-02T21:00:00Z"`, `"expires":"2030-01-02T16:30:00Z"`, `"waits":true`)
	has(t, "its slice", s.lines("slices", operate.Filter{Slice: sliceB.String()}), `"begins":"2030-01-02T15:00:00Z"`, `"waiting":2`)
}

// TestShutdownOfReservations counts what a shutdown keeps, without the reservation that it releases.
func TestShutdownOfReservations(t *testing.T) {
	s := newSite(t)
	s.reserve(map[string]time.Duration{"pc4": time.Hour})
	before := s.lines("slivers", operate.Filter{Slice: sliceB.String()})
	done, err := s.Shutdown(t.Context(), operate.Shutdown{Slice: sliceB.String(), Text: "attack", Operator: "dora"})
	if err != nil || done.Slices[0].Slivers != strings.Count(before, "\n")-1 || fmt.Sprint(done.Warnings) != "[this released what has not begun: 1]" {
		t.Error(done, err, before)
	}
}

// TestCalendarOfUnknownUsers checks that a calendar marks the windows of a user only if there are some.
func TestCalendarOfUnknownUsers(t *testing.T) {
	for user, refused := range map[string]bool{"bob": false, "b*": false, "nosuch": true} {
		err := newSite(t).Calendar(operate.Filter{User: user}, func(operate.CalendarRow) error { return nil })
		if (err != nil) != refused {
			t.Errorf("%s: %v", user, err)
		}
	}
}

// TestNodesWithReservations lists nodes of which only what has begun counts.
func TestNodesWithReservations(t *testing.T) {
	s := newSite(t)
	s.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		cs.Remove(store.SliverKey(name(urn.Sliver, "s3")))
		cs.Remove(store.TaskKey(name(urn.Sliver, "s3")))
		return cs, nil
	})
	s.reserve(map[string]time.Duration{"pc2": time.Hour})
	has(t, "it is free now", s.lines("nodes", operate.Filter{Component: "pc2"}), `"state":"free"`, `"waiting":1`, `"begins":"2030-01-02T13:00:00Z"`)
}

// TestMoveReservations moves what may be moved from drained components to equal ones that are free.
func TestMoveReservations(t *testing.T) {
	plan, err := maintenance.Parse([]byte("drained: [{components: [pc1, pc2], text: fan}]"), "maintenance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.reserve(map[string]time.Duration{"pc1": 4 * time.Hour, "pc2": 4 * time.Hour, "pc3": 4 * time.Hour})
	s.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		x, _, err := v.Sliver(name(urn.Sliver, "later-pc2"))
		x.Asked = true
		cs.PutSliver(x)
		return cs, err
	})
	operations := operate.New(operate.Config{Store: s.store, Inventory: func() *inventory.Inventory { return s.inv }, Plan: func() *maintenance.Plan { return plan }})
	done, err := operations.Move(t.Context(), operate.Move{Components: []string{"pc1", "pc2"}, Text: "fan", Operator: "dora"})
	if err != nil {
		t.Fatal(err)
	}
	has(t, "moved", fmt.Sprint(done.Moved), "exp-b/later-pc1 on pc4 from 2030-01-02T16:00:00Z")
	has(t, "stays", fmt.Sprint(done.Displaced, done.Displaced[0].Reason), "exp-b/later-pc2 on pc2", "its user asked for this component")
	has(t, "journal", s.state(1), `move by dora "to pc4: fan" 1`, "e exp-b serial 8")
	has(t, "record", s.lines("slivers", operate.Filter{Sliver: "later-pc1"}), `"component_name":"pc4"`)
}
