package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/am/urn"
)

// loadMaintenance loads a maintenance file into a site.
func (s *site) loadMaintenance(text string) {
	s.t.Helper()
	p, err := maintenance.Parse([]byte(text), "maintenance.yaml")
	if err == nil {
		err = s.api.agg.SetPlan(s.t.Context(), p)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// planned returns a file with one window; from and until count from now.
func (s *site) planned(components string, from, until time.Duration) string {
	return fmt.Sprintf("planned: [{components: [%s], from: %s, until: %s, text: new disks}]", components, s.at(from), s.at(until))
}

const locked = "lockdown: {text: power cut at noon}"

func onNode(id, component string) string {
	return `<node client_id="` + id + `" component_id="urn:publicid:IDN+example.org+node+` + component + `" component_manager_id="urn:publicid:IDN+example.org+authority+cm"><sliver_type name="raw-pc"/></node>`
}

// TestLockdown checks for each method whether it works on existing slivers in a lockdown. Other
// users get no information about the slice.
func TestLockdown(t *testing.T) {
	for _, tt := range []struct{ call, locked, open string }{
		{"alice Allocate s1 n", "UNAVAILABLE", ""},
		{"alice Allocate fresh n", "UNAVAILABLE", ""},
		{"alice CreateSliver fresh n", "UNAVAILABLE", ""},
		{"alice Provision s1.x", "UNAVAILABLE", ""},
		{"alice Provision s1 geni_best_effort=true", "UNAVAILABLE", ""},
		{"alice Allocate s1 $none", "UNAVAILABLE", "BADARGS"},
		{"alice Provision s1 geni_end_time=soon", "UNAVAILABLE", "BADARGS"},
		{"mallory Allocate s1 n with=foreign", "FORBIDDEN", "FORBIDDEN"},
		{"mallory Provision s1 with=foreign", "FORBIDDEN", "FORBIDDEN"},
		{"alice Provision nope with=s1 geni_end_time=soon", "SEARCHFAILED", "SEARCHFAILED"},
		{"alice Renew s1.x +1h", "", ""},
		{"alice Renew s1.y +1h", "", ""},
		{"alice PerformOperationalAction s1.y geni_restart", "", ""},
		{"alice PerformOperationalAction s1.y geni_stop", "", ""},
		{"alice PerformOperationalAction s1.y geni_update_users geni_users=alice-", "", ""},
		{"alice Status s1", "", ""},
		{"alice Describe s1", "", ""},
		{"alice Delete s1", "", ""},
		{"alice Shutdown s1", "", ""},
	} {
		w := newWorld(t, "locked", locked, "open", "", "none", "no rspec").play(twoStates + `
			alice owns fresh 24h
			mallory owns foreign 1h
			maintenance $locked
		`)
		before, says := w.everything(t), ` !"power cut at noon"`
		if tt.locked == "UNAVAILABLE" {
			says = ` "power cut at noon"`
		}
		w.play(tt.call + " -> " + tt.locked + says)
		if after := w.everything(t); tt.locked != "" && after != before {
			t.Errorf("%s has left %s", tt.call, after)
		}
		newWorld(t, "none", "no rspec").play(twoStates + "alice owns fresh 24h\nmallory owns foreign 1h\n" + tt.call + " -> " + tt.open)
	}
}

func TestLockdownIsReported(t *testing.T) {
	w := newWorld(t, "locked", locked, "open", "")
	open := strings.Count(w.play("alice ListResources").answer.at("value").text, `now="true"`)
	story := fmt.Sprintf(`
		maintenance $locked
		nobody GetVersion -> value.patchbay_lockdown=<string>"power cut at noon" output=<string>"no new work is accepted for now: power cut at noon"
		alice ListResources -> !'now="true"' %d*'now="false"'
		alice ListResources geni_available=true -> !"<node"
		maintenance $open
		nobody GetVersion -> !"patchbay_lockdown" output=<string>''
		alice ListResources -> %d*'now="true"'
	`, len(w.inventory.Components), open)
	w.play(story + story) // the prepared answer follows each time
}

// TestMaintenanceBoundsLeases plans an hour of maintenance of pc1 in three hours. Leases given
// before keep their end and cannot be extended.
func TestMaintenanceBoundsLeases(t *testing.T) {
	w := newWorld(t, "open", "")
	begins := w.at(3 * time.Hour)
	w.texts["$planned"] = w.planned("pc1", 3*time.Hour, 4*time.Hour)
	w.texts["$notice"] = `node "x": its lease ends by ` + begins + ", because maintenance begins then: new disks"
	w.texts["$latest"] = "the latest time is " + begins + ", because maintenance begins at " + begins + ": new disks"
	w.texts["$promised"] = "the latest time is " + w.at(20*time.Hour) + ", which was granted before the maintenance of " + begins + " was planned: new disks"
	w.play(`
		maintenance $planned
		alice owns s1 20d
		alice Allocate s1 x@pc1 y@pc2 -> $notice @+10m
		alice Provision s1 -> $notice x@+3h y@+24h
		settle
		alice Renew s1.x +3h0m1s -> REFUSED $latest code.am_code=<int>19
		alice Renew s1.x +3h -> output=<string>''
		alice Renew s1 +48h geni_extend_alap=true -> $notice x@+3h y@+48h
		maintenance $open
		alice Renew s1.x +20h
		maintenance $planned
		alice Renew s1.x +21h -> REFUSED $promised
		alice Renew s1.x +21h geni_extend_alap=true -> @+20h
		alice Renew s1.x +19h -> @+19h
	`)
}

// TestMaintenanceIsNoticedInAChange checks that a change has the notice about a new node also after a dry
// run, which binds the change again.
func TestMaintenanceIsNoticedInAChange(t *testing.T) {
	w := setting{prober: meanwhile{func() {}}}.world(t)
	w.texts["$planned"] = w.planned("pc1", 3*time.Hour, 4*time.Hour)
	w.texts["$notice"] = `node "x": its lease ends by ` + w.at(3*time.Hour)
	w.play(`
		maintenance $planned
		alice owns s1 20d
		alice Allocate s1 y@pc2
		alice Allocate s1 y@pc2 x@pc1 patchbay_change=1 -> $notice #2
	`)
}

// TestMaintenanceBeginsAndEnds moves the clock over a maintenance window of pc1. When it is
// planned, pc2 already has a reservation.
func TestMaintenanceBeginsAndEnds(t *testing.T) {
	w := newWorld(t)
	all := strings.Count(w.play("alice ListResources").answer.at("value").text, `now="true"`)
	w.texts["$planned"] = w.planned("pc1..pc2", 5*time.Minute, 9*time.Minute)
	w.texts["$until"] = "pc1 is under maintenance until " + w.at(9*time.Minute) + ": new disks"
	w.play(fmt.Sprintf(`
		alice owns s1 20d
		alice Allocate s1 kept@pc2
		maintenance $planned
		alice ListResources -> %[1]d*'now="true"'
		pass 5m
		alice ListResources -> %[2]d*'now="true"'
		alice Allocate s1 x@pc1 -> UNAVAILABLE $until
		alice Allocate s1 y -> "+node+pc3"
		alice Provision s1.kept -> UNAVAILABLE "pc2, which is under maintenance until"
		alice Renew s1.kept +1h
		pass 4m
		alice ListResources -> %[2]d*'now="true"'
		alice Allocate s1 x@pc1
	`, all-1, all-2))
}

// meanwhile is a prober that calls a function during the dry run.
type meanwhile struct{ happens func() }

func (meanwhile) WantsProbe(urn.URN) bool { return true }

func (m meanwhile) Probe(_ context.Context, slivers, _ []am.Sliver, _ func(am.Sliver) bool) []*am.Error {
	m.happens()
	return make([]*am.Error, len(slivers))
}

func (meanwhile) Unanswering() []urn.URN { return nil }
func (meanwhile) Timeout() time.Duration { return time.Minute }

// TestLockdownWhileProvidersAreAsked begins a lockdown during the dry run of a call. The call is
// refused and its reservation is released.
func TestLockdownWhileProvidersAreAsked(t *testing.T) {
	var w *world
	lock := locked
	w = setting{prober: meanwhile{func() { w.loadMaintenance(lock) }}}.world(t, "open", "")
	w.play(`
		alice owns s1 24h
		alice Allocate s1 x -> UNAVAILABLE "power cut at noon"
		alice Status s1 -> SEARCHFAILED
		maintenance $open
	`)
	lock = w.planned("pc1", 0, time.Hour)
	w.play(`
		alice Allocate s1 x@pc1 -> UNAVAILABLE "pc1, which is under maintenance"
		maintenance $open
	`)
	lock = ""
	w.play("alice Allocate s1 x@pc2")
}
