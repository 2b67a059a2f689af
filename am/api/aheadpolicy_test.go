package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// TestPolicyOfReservationsAhead plays stories of alice and bob under rules.
func TestPolicyOfReservationsAhead(t *testing.T) {
	entries := service.DefaultLeases
	entries.AheadEntries = 3
	for _, tt := range []struct {
		rule, policy string
		leases       service.Leases
		story        string
	}{
		{"quotas hold in the window, not before and after", "nodes: {user: 2}", service.Leases{}, `
			alice Allocate s1 a b geni_start_time=+10h geni_end_time=+12h
			alice Allocate s2 a b geni_end_time=+10h
			alice Allocate s3 a b geni_start_time=+12h geni_end_time=+14h
			alice Allocate s4 a geni_start_time=+11h geni_end_time=+11h30m -> REFUSED 'at most 2 nodes for user alice at one time; 1 more, with 2 held at' $start
			alice Allocate s4 a geni_end_time=+1h -> REFUSED "1 more, with 2 already held, are too many"
			alice Allocate s4 a geni_start_time=+14h geni_end_time=+15h`},
		{"a refusal names the worst time of the window", "nodes: {user: 3}", service.Leases{}, `
			alice Allocate s1 a geni_start_time=+8h geni_end_time=+12h
			alice Allocate s2 a b geni_start_time=+11h geni_end_time=+12h
			alice Allocate s3 a b c geni_end_time=+24h -> REFUSED '3 more, with 3 held at' $start 'or set an end until' $at8
			alice Allocate s3 a b c geni_end_time=+8h`},
		{"a renewal ends where a quota would be exceeded", "nodes: {user: 2}", service.Leases{}, `
			alice Allocate s1 a:vm b:vm geni_start_time=+10h geni_end_time=+12h
			alice Allocate s2 a b geni_end_time=+9h
			alice Provision s2 -> @+9h
			alice Renew s2 +11h -> REFUSED $at10 'rule "r" of this site, which allows at most 2 nodes for user alice at one time, with 2 reserved then'
			alice Renew s2 +11h geni_extend_alap=true -> @+10h
			bob Allocate b3 a geni_end_time=+9h
			bob Provision b3
			bob Renew b3 +11h -> @+11h
			alice Delete s1.a
			alice Renew s2 +11h -> REFUSED $at10 "with 2 reserved then"
			alice Renew s2.a +11h -> @+11h
			alice Renew s2.b +11h -> REFUSED $at10`},
		{"slivers of one call count together", "nodes: {user: 3}", service.Leases{}, `
			alice Allocate s1 a:vm geni_start_time=+10h geni_end_time=+12h
			alice Allocate s2 a b c geni_end_time=+9h
			alice Provision s2
			alice Renew s2 +11h -> REFUSED $at10
			alice Renew s2 +11h geni_best_effort=true -> c@+9h
			alice Renew s2.c +11h geni_extend_alap=true -> @+10h`},
		{"the end of a reservation does not move beyond a quota", "nodes: {user: 1}", service.Leases{}, `
			alice Allocate s1 a:vm geni_start_time=+10h geni_end_time=+12h
			alice Allocate s2 a geni_start_time=+8h geni_end_time=+9h patchbay_provision_at_start=true
			alice Renew s2 +11h -> REFUSED $at10 'rule "r"'
			alice Renew s2 +10h -> @+10h`},
		{"Provision gives no lease beyond a quota", "nodes: {user: 1}", service.Leases{}, `
			alice Allocate s2 a geni_end_time=+9h
			alice Allocate s1 a geni_start_time=+10h geni_end_time=+12h
			alice Provision s2 geni_end_time=+11h -> @+10h`},
		{"leases count from the start", "lease: {first: 2h, renew: 3h, longest: 4h}", service.Leases{}, `
			alice Allocate s1 a geni_start_time=+10h geni_end_time=+20h patchbay_provision_at_start=true -> @+12h
			alice Renew s1 +14h -> REFUSED "latest time"
			alice Renew s1 +13h
			pass 10h
			begin
			settle
			alice Renew s1 +5h -> REFUSED "limits renewals to 3h"
			pass 2h
			alice Renew s1 +3h -> REFUSED "limits the life of slivers to 4h in all"
			alice Renew s1 +2h -> @+2h`},
		{"windows that have not begun are limited", "ahead: {windows: 2}", service.Leases{}, `
			alice Allocate s1 a b geni_start_time=+10h geni_end_time=+12h
			alice Allocate s1 c geni_start_time=+10h geni_end_time=+12h
			alice Allocate s2 a geni_start_time=+10h geni_end_time=+12h
			alice Allocate s3 a geni_start_time=+10h geni_end_time=+12h -> REFUSED 'rule "r" of this site allows user alice at most 2 reservations that have not begun; this request would make 3, with 2 already held'
			alice Allocate s3 a
			bob Allocate b4 a geni_start_time=+10h geni_end_time=+12h
			alice Delete s2
			alice Allocate s3 b geni_start_time=+10h geni_end_time=+12h`},
		{"one that has not begun is allowed", "ahead: {windows: 1}", service.Leases{}, `
			alice Allocate s1 a geni_start_time=+10h geni_end_time=+12h
			alice Allocate s2 a geni_start_time=+20h geni_end_time=+22h -> REFUSED "at most 1 reservation that has not begun"`},
		{"and their node-hours", "ahead: {node_hours: 10}", service.Leases{}, `
			alice Allocate s1 a b geni_start_time=+10h geni_end_time=+13h
			alice Allocate s2 a geni_start_time=+20h geni_end_time=+25h -> REFUSED "at most 10 node-hours that have not begun; this request would make 11, with 6 already held"
			alice Allocate s2 a geni_start_time=+20h geni_end_time=+24h
			alice Renew s1.a +10h10m geni_end_time=+14h -> REFUSED "node-hours that have not begun"
			alice Renew s1 +10h10m geni_end_time=+12h
			alice Renew s1 +10h10m geni_end_time=+13h
			alice Renew s1.a +10h10m geni_end_time=+14h -> REFUSED "node-hours that have not begun"
			pass 10h
			begin
			alice Allocate s3 a geni_start_time=+20h geni_end_time=+26h`},
		{"none at all", "ahead: {windows: 0}", service.Leases{}, `
			alice Allocate s1 a geni_start_time=+10h -> REFUSED "it allows none"
			alice Allocate s1 a`},
		{"the site limits a project", "nodes: {user: 100}", entries, `
			alice Allocate s1 a b geni_start_time=+10h geni_end_time=+12h
			bob Allocate b2 a b geni_start_time=+20h geni_end_time=+22h -> TOOBIG "would have 4 slivers that have not begun; this aggregate allows a project 3"
			bob Allocate b2 a b
			bob Allocate b3 a geni_start_time=+20h geni_end_time=+22h`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			w := setting{policy: "rules: [{name: r, " + tt.policy + "}]", leases: tt.leases}.world(t)
			w.texts["$start"], w.texts["$at10"] = FormatTime(w.clock().Add(11*time.Hour)), FormatTime(w.clock().Add(10*time.Hour))
			w.texts["$at8"] = FormatTime(w.clock().Add(8 * time.Hour))
			w.play("alice owns s1 5d\nalice owns s2 5d\nalice owns s3 5d\nalice owns s4 5d\nbob owns b2 5d\nbob owns b3 5d\nbob owns b4 5d")
			w.play(tt.story)
		})
	}
}

// TestASiteLimitsWhatHasNotBegun fills a site with windows, up to its limit, and measures the last request.
func TestASiteLimitsWhatHasNotBegun(t *testing.T) {
	const most = 20_000
	w := newWorld(t)
	c := w.inventory.Components[0]
	for i := 0; i < most; {
		err := w.store.Commit(t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
			for ; i < most && len(cs.Slivers) < 1000; i++ {
				begins := w.clock().Add(time.Duration(i+100) * time.Hour).Truncate(time.Second)
				cs.PutSliver(am.Sliver{
					URN: urn.URN{Authority: "example.org", Type: urn.Sliver, Name: fmt.Sprint(i)}, Slice: urn.URN{Authority: "example.org:other", Type: urn.Slice, Name: fmt.Sprint(i % 1000)},
					Component: c.URN, ComponentName: c.Name, Provider: c.Provider, Exclusive: true, Status: am.Status{Allocation: am.Allocated, Operational: am.PendingAllocation},
					Created: w.clock(), Begins: begins, Ends: begins.Add(time.Hour), Expires: begins.Add(time.Hour),
				})
			}
			return cs, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.play(`
		alice owns s1 5d
		alice Allocate s1 a geni_start_time=+10h -> TOOBIG "20001 slivers that have not begun; an aggregate allows 20000"
		alice Allocate s1 a
	`)
}

// TestJournalOfReservationsAhead checks the events in the journal, from which use is counted.
func TestJournalOfReservationsAhead(t *testing.T) {
	for _, tt := range []struct{ rule, story, want string }{
		{"not used", "alice Allocate s1 a geni_start_time=+2h geni_end_time=+5h\npass 2h\nbegin\npass 31m\nexpire", "Allocate begins no_show"},
		{"used", "alice Allocate s1 a geni_start_time=+2h geni_end_time=+5h\npass 2h\nbegin\nalice Provision s1", "Allocate begins Provision"},
		{"Provision is faster than the start", "alice Allocate s1 a geni_start_time=+2h geni_end_time=+5h\npass 2h\nalice Provision s1", "Allocate begins Provision"},
		{"provisioned at the start", "alice Allocate s1 a geni_start_time=+2h\nalice Provision s1 patchbay_provision_at_start=true\npass 2h\nbegin", "Allocate Provision at the start Provision begins"},
		{"by version 2", "alice CreateSliver s1 a geni_start_time=+2h\npass 2h\nbegin", "Allocate Provision begins"},
		{"deleted before", "alice CreateSliver s1 a geni_start_time=+2h\nalice Delete s1", "Allocate Delete"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			w := newWorld(t).play("alice owns s1 5d\n" + tt.story)
			var events []string
			err := w.store.Read(func(v *store.View) error {
				return v.Journal(func(e am.JournalEntry) bool { events = append(events, e.Event); return true })
			})
			if got := strings.Join(events, " "); err != nil || got != tt.want {
				t.Errorf("the journal has %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}
