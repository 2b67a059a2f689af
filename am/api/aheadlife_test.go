package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
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
		{"a start within the next minute is now, also for what is provisioned at its start", `
			alice Allocate s1 a geni_start_time=+30s patchbay_provision_at_start=true geni_users=alice
			settle
			alice Status s1 -> a:ready @+24h`},
		{"a lockdown delays the start", window + `
			maintenance $locked
			pass 2h10m
			begin
			alice Provision s1 -> UNAVAILABLE
			alice Status s1 -> "it begins when the lockdown of this aggregate ends"
			maintenance $open
			begin
			alice Status s1 -> @+30m`},
		{"maintenance of the component delays the start", window + `
			maintenance $planned
			pass 2h10m
			begin
			alice Provision s1 -> UNAVAILABLE "at the end of the maintenance of pc1"
			alice Status s1 -> "at the end of the maintenance of pc1"
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
		{"what is late can be renewed as if it had begun in time", `
			bob Allocate s2 a@pc1 geni_end_time=+2h
			bob Provision s2
			settle
			alice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+9h
			pass 2h
			expire
			pass 3h
			alice Renew s1 +2h1m -> REFUSED
			alice Renew s1 +1h -> @+1h
			alice Status s1 -> @+1h
			settle
			begin
			alice Status s1 -> a:allocated @+1h`},
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
		{"each gets another one, if Provision comes before the runner", `
			alice Allocate s1 a b geni_start_time=+2h geni_end_time=+5h
			maintenance $bothdrained
			pass 2h
			alice Provision s1 -> 1*'component_name="pc3"' 1*'component_name="pc4"'`},
		{"a bound one waits", window + `
			maintenance $drained
			pass 2h
			begin
			alice Status s1 -> a:allocated "component pc1 is out of service"
			alice Provision s1 -> UNAVAILABLE "out of service"
			pass 40m
			alice Status s1 -> a:allocated @+30m
			pass 2h10m
			alice Status s1 -> a:allocated @+10m
			maintenance $open
			begin
			alice Status s1 -> a:allocated !"out of service" @+10m`},
		{"an unbound one waits if no equal one is free", unbound + `
			maintenance $alldrained
			pass 2h
			begin
			alice Status s1 -> a:allocated "no equal one is free"`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			w := newWorld(t, "locked", locked, "open", "{}", "drained", "drained: [{components: [pc1], text: broken}]", "bothdrained", "drained: [{components: [pc1, pc2], text: broken}]", "alldrained", "drained: [{components: [pc1..pc12], text: broken}]")
			w.texts["$start"], w.texts["$end"] = w.at(2*time.Hour), w.at(5*time.Hour)
			w.texts["$four"], w.texts["$eight"] = w.at(4*time.Hour), w.at(8*time.Hour)
			w.texts["$planned"] = w.planned("pc1", 2*time.Hour, 2*time.Hour+20*time.Minute)
			w.play("alice owns s1 10d\nalice owns s6 10d\nbob owns s2 10d\nbob owns s3 10d\nbob owns s4 10d\n" + tt.story)
		})
	}
}

// TestRenewBeforeTheStart renews a reservation from +2h to +5h of a slice of ten days: its deadline, and with geni_end_time its end.
func TestRenewBeforeTheStart(t *testing.T) {
	for _, tt := range []struct{ call, want, shows string }{
		{"+2h10m", "", "a@+2h10m"},
		{"+4h", "", "a@+4h"},
		{"+4h1s", `REFUSED "2h after its start" "not beyond its end" code.am_code=<int>19`, "a@+2h30m"},
		{"+9h geni_extend_alap=true", "", "a@+4h"},
		{"+2h", "BADARGS", "a@+2h30m"},
		{"+1h", "BADARGS", "a@+2h30m"},
		{"+2h5m geni_extend_alap=true", "", "a@+2h30m"}, // nothing is shortened
		{"+2h10m geni_end_time=+3h", "", "a@+2h10m $three"},
		{"+2h40m geni_end_time=+2h20m", "REFUSED", "a@+2h30m $five"},
		{"+2h30m geni_end_time=+9h", "", "a@+2h30m $nine"},
		{"+2h30m geni_end_time=+9h with=short", "REFUSED $six", "a@+2h30m $five"},
		{"+2h30m geni_end_time=+9h with=short geni_extend_alap=true", "", "a@+2h30m $six"},
		{"+2h30m geni_end_time=+1h", "BADARGS", "a@+2h30m $five"},
	} {
		t.Run(tt.call, func(t *testing.T) {
			w := newWorld(t)
			for name, hours := range map[string]time.Duration{"$three": 3, "$five": 5, "$six": 6, "$nine": 9} {
				w.texts[name] = w.at(hours * time.Hour)
			}
			w.play("alice owns s1 10d\nalice owns s1 6h as short\nalice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+5h\n" +
				"alice Renew s1 " + tt.call + " -> " + tt.want + "\nalice Status s1 -> " + tt.shows + ` !"patchbay_renewable_until"`)
		})
	}
}

// TestRenewableUntil shows until when those who hold now can renew, with a credential of ten days.
func TestRenewableUntil(t *testing.T) {
	for _, tt := range []struct{ rule, story, until string }{
		{"the credential", "", "+240h"},
		{"the limit of the site", "bob owns s2 60d\n", "+720h"},
		{"a short credential", "bob owns s2 30h\n", "+30h"},
		{"never before the end of the lease", "bob owns s2 5h\n", "+24h"},
		{"maintenance", "maintenance $planned\n", "+72h"},
		{"a reservation on the component", "alice Allocate s1 a@pc1 geni_start_time=+100h\n", "+100h"},
		{"none on another", "alice Allocate s1 a@pc2 geni_start_time=+100h\n", "+240h"},
		{"the first of several", "alice Allocate s1 a@pc1 geni_start_time=+200h geni_end_time=+201h\nalice Allocate s1 b@pc1 geni_start_time=+100h geni_end_time=+101h\n", "+100h"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			w := newWorld(t)
			w.texts["$planned"], w.texts["$until"] = w.planned("pc1", 72*time.Hour, 80*time.Hour), w.at(duration(tt.until[1:]))
			w.play("alice owns s1 20d\nbob owns s2 10d\nbob Allocate s2 a@pc1\nbob Provision s2 -> @+24h\n" + tt.story +
				`bob Status s2 -> "patchbay_renewable_until" $until` + "\n" + `bob Describe s2 -> "patchbay_renewable_until" $until` + "\n" +
				"bob Shutdown s2\nbob SliverStatus s2 -> !\"patchbay_renewable_until\"")
		})
	}
}

// TestLimitedIsLogged logs once that a holder is limited by the reservations of others, without their names.
func TestLimitedIsLogged(t *testing.T) {
	w := newWorld(t).play(`
		alice owns s1 10d
		bob owns s2 10d
		bob Allocate s2 a@pc1 b@pc2
		bob Provision s2
		alice Allocate s1 a@pc1 b@pc2 c@pc3 geni_start_time=+100h geni_end_time=+101h
		alice Allocate s1 d@pc1 geni_start_time=+50h geni_end_time=+51h
	`)
	var got []string
	if err := w.store.Read(func(v *store.View) error {
		return v.Journal(func(e am.JournalEntry) bool {
			if e.Event == lease.EventLimited {
				got = append(got, fmt.Sprint(e.Slice.Name, len(e.Slivers), e.Text))
			}
			return true
		})
	}); err != nil {
		t.Fatal(err)
	}
	if want := "s22renewable until " + w.at(100*time.Hour); strings.Join(got, "; ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRefusedAtTheStart refuses a user whom the operators have denied since the reservation. Provision asks the credentials again.
func TestRefusedAtTheStart(t *testing.T) {
	var denied atomic.Bool
	w := setting{denied: func(user, slice urn.URN) error {
		if denied.Load() && user.Name == "alice" {
			return errors.New("alice is on the list")
		}
		return nil
	}}.world(t).play(`
		alice owns s1 10d
		alice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+5h patchbay_provision_at_start=true geni_users=alice
	`)
	denied.Store(true)
	w.play(`
		pass 2h
		begin
		alice Status s1 -> a:allocated "alice is on the list" @+30m
		pass 30m
		expire
		alice Status s1 -> SEARCHFAILED !"was not provisioned in time"
	`)
}

// TestDowntimeDoesNotCount lets the deadline of a reservation pass while no server runs.
func TestDowntimeDoesNotCount(t *testing.T) {
	w := newWorld(t).play(`
		alice owns s1 10d
		alice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+3h
		pass 2h
		begin
		pass 45m
	`)
	var current atomic.Pointer[inventory.Inventory]
	current.Store(w.inventory)
	w.service = service.New(service.Config{Store: w.store, Inventory: &current})
	w.play(`
		expire
		alice Status s1 -> a:allocated @+15m
		pass 15m
		expire
		alice Status s1 -> SEARCHFAILED "was not provisioned in time"
	`)
}

// TestObstaclesAtTheStart moves a reservation of pc1 whose user named no component, and leaves one whose user did.
func TestObstaclesAtTheStart(t *testing.T) {
	const held = "bob Allocate s2 a@pc1 geni_end_time=+2h\nbob Provision s2\nsettle\n"
	for _, tt := range []struct {
		rule, before, after string
		fails, isRemoved    bool // the cleaning fails; the component leaves the inventory
		why                 string
	}{
		{"drained", "", "maintenance $drained\npass 1m\n", false, false, "component pc1 is out of service"},
		{"frozen", held, "bob Shutdown s2\npass 1m\n", false, false, "component pc1 is kept for inspection after a shutdown"},
		{"failed", held, "pass 1m\nexpire\n", true, false, "component pc1 cannot be cleaned"},
		{"removed", "", "pass 1m\n", false, true, "component pc1 is not at this aggregate any more"},
	} {
		for _, asked := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.rule, asked), func(t *testing.T) {
				w := newWorld(t, "drained", "drained: [{components: [pc1], text: broken}]").play("alice owns s1 10d\nbob owns s2 10d\n" + tt.before +
					"alice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+5h\npass 1h59m\n" + tt.after)
				if err := w.store.Commit(t.Context(), func(v *store.View) (cs store.ChangeSet, err error) {
					x, _, err := v.Sliver(urn.MustParse(w.urns["s1.a"]))
					x.Asked = asked
					cs.PutSliver(x)
					if tt.fails {
						task, _, failed := v.Task(urn.MustParse(w.urns["s2.a"]))
						task.Attempt, err = 1, errors.Join(err, failed)
						cs.PutTask(task)
					}
					return cs, err
				}); err != nil {
					t.Fatal(err)
				}
				if tt.isRemoved {
					inv, err := inventory.Parse([]byte(strings.Replace(string(inventory.SimulatedText(authority)), "pc1..pc12", "pc2..pc12", 1)), "inventory.yaml", authority)
					if err != nil {
						t.Fatal(err)
					}
					var current atomic.Pointer[inventory.Inventory]
					current.Store(inv)
					w.service = service.New(service.Config{Store: w.store, Inventory: &current})
				}
				w.texts["$why"] = tt.why
				want := `a:allocated !$why @+30m`
				if asked {
					want = `a:allocated $why "this sliver waits for it" @+30m`
				}
				w.play("begin\nalice Status s1 -> " + want)
				if x, err := w.store.Slivers(); err != nil || !slices.ContainsFunc(x, func(x am.Sliver) bool {
					return x.ClientID == "a" && x.Slice.Name == "s1" && (x.ComponentName == "pc1") == asked
				}) {
					t.Error(x, err)
				}
				moves := 0
				if err := w.store.Read(func(v *store.View) error {
					return v.Journal(func(e am.JournalEntry) bool {
						if e.Event == lease.EventMove && strings.HasSuffix(e.Text, tt.why) {
							moves++
						}
						return true
					})
				}); err != nil || moves != 1 && !asked {
					t.Error(moves, err)
				}
			})
		}
	}
}
