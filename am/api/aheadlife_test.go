package api

import (
	"strings"
	"testing"
	"time"
)

// TestLifeOfReservations plays the life of reservations that begin in two hours, with bob as the other user.
func TestLifeOfReservations(t *testing.T) {
	const (
		window  = "\nalice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+5h -> a:allocated @+2h30m\n"
		auto    = "\nalice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+5h patchbay_provision_at_start=true geni_users=alice -> @+5h\n"
		unbound = "\nalice Allocate s1 a geni_start_time=+2h geni_end_time=+5h -> a:allocated \"pc1\"\n"
	)
	for _, tt := range []struct{ rule, story string }{
		{"others before and after", `
			bob Allocate s2 a@pc1 geni_end_time=+2h
			bob Provision s2 -> @+2h
			` + window + `
			bob Allocate s3 a@pc1 geni_start_time=+5h geni_end_time=+6h
			bob Allocate s4 a@pc1 geni_start_time=+4h geni_end_time=+6h -> TOOBIG
			bob Allocate s4 a@pc1 geni_start_time=+1h geni_end_time=+3h -> TOOBIG
			bob Renew s2 +3h -> REFUSED $start "a reservation that begins then" !"alice" !"s1"
			bob Renew s2 +3h geni_extend_alap=true -> @+2h
			alice Renew s1 +2h10m geni_end_time=+6h -> REFUSED $end
			alice Renew s1 +2h10m geni_end_time=+6h geni_extend_alap=true -> @+2h30m`},
		{"the own reservation limits, too", window + `
			alice Allocate s6 a@pc1 geni_end_time=+2h
			alice Provision s6
			alice Renew s6 +3h -> REFUSED "your own reservation"`},
		{"Provision before the start, at it, and the end", window + `
			alice Provision s1 -> UNAVAILABLE $start
			alice PerformOperationalAction s1 geni_start -> UNSUPPORTED
			pass 2h
			begin
			alice Status s1 -> a:allocated @+30m
			alice Provision s1 -> @+3h
			settle
			pass 3h
			expire
			alice Status s1 -> SEARCHFAILED`},
		{"Provision at the start may come before the runner", window + `
			pass 2h1m
			alice Provision s1 -> @+2h59m`},
		{"auto-provision", auto + `
			pass 2h
			begin
			settle
			alice Status s1 -> a:ready @+3h`},
		{"Provision before the start replaces the keys and changes no state", auto + `
			alice Provision s1 patchbay_provision_at_start=true geni_users=bob -> a:allocated a:pending_allocation @+5h
			pass 2h
			begin
			settle
			alice Describe s1 -> "user+bob" !"user+alice"`},
		{"Provision with the option turns a waiting one into one that provisions itself", window + `
			alice Provision s1 patchbay_provision_at_start=true geni_users=bob -> a:allocated @+5h
			pass 2h
			begin
			settle
			alice Status s1 -> a:ready @+3h`},
		{"Delete frees the time", window + `
			alice Delete s1
			bob Allocate s2 a@pc1 geni_start_time=+4h geni_end_time=+6h`},
		{"Shutdown releases what has not begun, and Thaw works", window + `
			alice Allocate s1 b@pc2
			alice Provision s1.b
			settle
			alice Shutdown s1
			bob Allocate s2 a@pc1 geni_start_time=+4h geni_end_time=+6h
			thaw s1
			alice Status s1 -> b:notready`},
		{"Shutdown of a slice of which nothing has begun", window + `
			alice Shutdown s1
			thaw s1
			alice Status s1 -> SEARCHFAILED`},
		{"a credential that ends before the start", `
			alice owns s5 1h
			alice Allocate s5 a@pc1 geni_start_time=+2h -> REFUSED "renew the slice at its authority first"`},
		{"the end is capped to the credential, and a longer one extends it", `
			alice owns s5 4h
			alice Allocate s5 a@pc1 geni_start_time=+2h geni_end_time=+9h -> @+2h30m "the presented credential" $four
			bob Allocate s2 a@pc1 geni_start_time=+8h geni_end_time=+9h
			alice owns s5 20h as longer
			alice Renew s5 +2h30m geni_end_time=+9h with=longer -> REFUSED $eight
			alice Renew s5 +2h30m geni_end_time=+8h with=longer -> $eight`},
		{"a late start moves the deadline, at most to the end", window + `
			pass 2h20m
			begin
			alice Status s1 -> @+30m`},
		{"a very late start moves it to the end", window + `
			pass 4h45m
			begin
			alice Status s1 -> @+15m`},
		{"a lockdown delays the start", window + `
			maintenance $locked
			pass 2h10m
			begin
			alice Provision s1 -> UNAVAILABLE
			maintenance $open
			begin
			alice Status s1 -> @+30m`},
		{"maintenance of the component delays the start", window + `
			maintenance $planned
			pass 2h10m
			begin
			alice Provision s1 -> UNAVAILABLE
			pass 10m
			begin
			alice Status s1 -> @+30m`},
		{"cleaning delays the start", `
			bob Allocate s2 a@pc1 geni_end_time=+2h
			bob Provision s2
			settle
			` + window + `
			pass 2h
			expire
			begin
			alice Provision s1 -> UNAVAILABLE "cleaned"
			pass 5m
			settle
			begin
			alice Provision s1 -> @+2h55m`},
		{"nobody comes", window + `
			pass 2h
			begin
			pass 30m
			expire
			alice Status s1 -> SEARCHFAILED "was not provisioned in time"
			bob Allocate s2 a@pc1`},
		{"a lockdown after the start does not count", window + `
			pass 2h
			begin
			maintenance $locked
			pass 40m
			expire
			maintenance $open
			alice Status s1 -> @+30m
			pass 31m
			expire
			alice Status s1 -> SEARCHFAILED`},
		{"an unbound node leaves a drained component", unbound + `
			maintenance $drained
			pass 2h
			begin
			alice Describe s1 -> a:allocated !"+node+pc1" @+30m`},
		{"a bound one waits", window + `
			maintenance $drained
			pass 2h
			begin
			alice Status s1 -> a:allocated "component pc1 is out of service"
			alice Provision s1 -> UNAVAILABLE "out of service"
			maintenance $open
			begin
			alice Status s1 -> a:allocated !"out of service" @+30m`},
		{"an unbound one waits if no equal one is free", unbound + `
			maintenance $alldrained
			pass 2h
			begin
			alice Status s1 -> a:allocated "no equal one is free"`},
		{"an unbound one leaves a frozen component", `
			bob Allocate s2 a@pc1 geni_end_time=+2h
			bob Provision s2
			` + strings.ReplaceAll(window, "a@pc1", "a") + `
			bob Shutdown s2
			pass 2h
			begin
			alice Provision s1 -> @+3h`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			w := newWorld(t, "locked", locked, "open", "{}", "drained", "drained: [{components: [pc1], text: broken}]", "alldrained", "drained: [{components: [pc1..pc12], text: broken}]")
			w.texts["$start"], w.texts["$end"] = w.at(2*time.Hour), w.at(5*time.Hour)
			w.texts["$four"], w.texts["$eight"] = w.at(4*time.Hour), w.at(8*time.Hour)
			w.texts["$planned"] = w.planned("pc1", 2*time.Hour, 2*time.Hour+20*time.Minute)
			w.play("alice owns s1 10d\nalice owns s6 10d\nbob owns s2 10d\nbob owns s3 10d\nbob owns s4 10d\n" + tt.story)
		})
	}
}
