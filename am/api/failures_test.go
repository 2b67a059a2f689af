package api

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
)

// race makes the calls of some lines at once, and returns their codes.
func (w *world) race(lines ...string) []am.Code {
	w.t.Helper()
	bodies := make([]string, len(lines))
	var all sync.WaitGroup
	for i, line := range lines {
		call := words(line)
		c := w.who(call[0])
		sent := callBody(w.t, call[1], w.params(c, Version3, call[1], call[2:])...)
		all.Go(func() {
			bodies[i] = string(w.api.Serve(w.t.Context(), Version3, Request{ID: "r1", Chain: c.chain, Body: sent}).Body)
		})
	}
	all.Wait()
	codes := make([]am.Code, len(lines))
	for i, body := range bodies {
		codes[i] = w.callers[words(lines[i])[0]].read(body).code()
	}
	return codes
}

// records returns the slivers as they are stored, and the entries of the calendar.
func (w *world) records() string {
	w.t.Helper()
	var text []string
	err := w.store.Read(func(v *store.View) error {
		err := v.Slivers(func(x am.Sliver) bool { text = append(text, fmt.Sprintf("%+v", x)); return true })
		if err == nil {
			err = v.Calendar(func(h *am.Hold) bool { text = append(text, fmt.Sprintf("%+v", *h)); return true })
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(text, "\n")
}

// TestFailuresOfOthers repeats what has gone wrong in other systems that reserve ahead. Number 7, limits that hold for new
// reservations only (chi-in-a-box#128, oar3#95), is in TestPolicyOfReservationsAhead; and 9, no list shows ends and free times
// (jumpstarter#32, #860, minimega#1186), in TestRenewableUntil and TestAdvertisementOfAWindow.
func TestFailuresOfOthers(t *testing.T) {
	for _, tt := range []struct {
		failure string
		test    func(*testing.T)
	}{
		{"back-to-back windows are refused, or have two owners at the boundary", refusedNeighbours},
		{"two windows are confirmed at once for one node", confirmedTwice},
		{"an extension needs a new reservation, or collides with the own one", extensionCollides},
		{"a refusal says no although less, or later, would do", refusalWithoutTimes},
		{"a lease that is not used blocks a node, and a late answer revives one that is over", unusedLeases},
		{"a failed start or a refused change spoils other reservations", spoiltNeighbours},
		{"seconds are lost, so an extension is too short", lostSeconds},
		{"an id is a right, or others see it", idsAsRights},
	} {
		t.Run(tt.failure, tt.test)
	}
}

const (
	aheadWindow = "\nalice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+5h\n"
	aheadAuto   = "\nalice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+5h patchbay_provision_at_start=true geni_users=alice\n"
)

// playFailure plays a story with slices of alice and bob.
func playFailure(t *testing.T, story string) *world {
	w := newWorld(t)
	w.texts["$start"], w.texts["$end"], w.texts["$six"] = w.at(2*time.Hour), w.at(5*time.Hour), w.at(6*time.Hour)
	return w.play("alice owns s1 10d\nalice owns s3 10d\nbob owns s2 10d\nbob owns s4 10d\n" + story)
}

// refusedNeighbours is failure 1: quads#225, #355, #700.
func refusedNeighbours(t *testing.T) {
	playFailure(t, `
		bob Allocate s2 a@pc1 geni_end_time=+2h`+aheadWindow+`
		bob Allocate s4 a@pc1 geni_start_time=+5h geni_end_time=+6h
		pass 2h
		expire
		begin
		bob Status s2 -> SEARCHFAILED
		alice Provision s1 -> @+3h
		settle
		pass 3h
		expire
		begin
		alice Status s1 -> SEARCHFAILED
		bob Provision s4 -> UNAVAILABLE "cleaned"
		settle
		bob Provision s4 -> @+1h`)
}

// confirmedTwice is failure 2: openpbs PR#2398, PR#1806; quads#162; oar3#61. TestAheadModel checks random calls.
func confirmedTwice(t *testing.T) {
	w := playFailure(t, aheadWindow)
	w.texts["$long"] = onNode("a", "pc2") + "<!--" + strings.Repeat("-.", 10000) + "-->" // the decision runs before the commit
	for i := range 20 {
		n, node := 0, []string{"a@pc2", "$long"}[i%2]
		for _, code := range w.race(
			"alice Allocate s3 "+node+" geni_start_time=+2h geni_end_time=+4h", "bob Allocate s2 "+node+" geni_start_time=+3h geni_end_time=+5h", "bob Allocate s4 "+node+" geni_start_time=+1h geni_end_time=+4h") {
			if code == am.Success {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%d of three windows that overlap were reserved", n)
		}
		for _, s := range []string{"alice Delete s3", "bob Delete s2", "bob Delete s4"} {
			w.play(s + " -> SUCCESS|SEARCHFAILED")
		}
	}
	// Both starts come in one cycle, because the first one is late until its end.
	w = playFailure(t, "bob Allocate s2 a@pc1 geni_start_time=+1h geni_end_time=+2h patchbay_provision_at_start=true geni_users=bob\n"+aheadAuto+"pass 2h\nbegin")
	if r, err := w.store.Check(); err != nil || r.Err() != nil {
		t.Errorf("after the start: %v, %v", r.Err(), err)
	}
	w.play("expire\nbegin\nbob Status s2 -> SEARCHFAILED\nalice Status s1 -> a:provisioned @+3h")
}

// extensionCollides is failure 3: minimega#1010; docker-machine-driver-g5k#10; ops-tools#19.
func extensionCollides(t *testing.T) {
	for range 10 {
		w := playFailure(t, aheadWindow+"alice Renew s1 +2h10m geni_end_time=+6h")
		urn := w.urns["s1.a"]
		codes := w.race("alice Renew s1 +2h10m geni_end_time=+8h", "bob Allocate s2 a@pc1 geni_start_time=+7h geni_end_time=+9h", "bob Allocate s4 a@pc1 geni_start_time=+6h geni_end_time=+7h")
		if isFree := codes[1] != am.Success && codes[2] != am.Success; (codes[0] == am.Success) != isFree || codes[0] != am.Success && codes[0] != am.Refused {
			t.Errorf("Renew and two reservations: %v", codes)
		}
		if w.play("alice Status s1 -> a:allocated"); w.urns["s1.a"] != urn {
			t.Error("the sliver has another URN")
		}
	}
}

// refusalWithoutTimes is failure 4: jumpstarter#170; oar#111; fablib 2.0.3.
func refusalWithoutTimes(t *testing.T) {
	w := playFailure(t, aheadWindow+"bob Allocate s2 a@pc1 geni_end_time=+9h -> TOOBIG")
	first, longest := w.answer.member("value.patchbay_first_start"), w.answer.member("value.patchbay_longest_end")
	if first != w.at(5*time.Hour) || longest != w.at(2*time.Hour) {
		t.Fatalf("free from %q, or until %q", first, longest)
	}
	w.texts["$first"], w.texts["$longest"] = first, longest
	w.play(`
		bob Allocate s2 a@pc1 geni_end_time=$longest
		bob Allocate s4 a@pc1 geni_start_time=$first geni_end_time=+14h`)
}

// unusedLeases is failure 5: jumpstarter#237, #241, PR#598, PR#655, #643.
func unusedLeases(t *testing.T) {
	playFailure(t, aheadAuto+`
		pass 2h
		begin
		pass 3h
		expire
		alice Status s1 -> SEARCHFAILED
		settle
		alice Status s1 -> SEARCHFAILED
		bob Allocate s2 a@pc1`+"\nbob Delete s2\n"+strings.ReplaceAll(aheadWindow, "s1", "s3")+`
		pass 2h
		begin
		pass 30m
		expire
		alice Status s3 -> SEARCHFAILED
		bob Allocate s2 a@pc1 geni_start_time=+1h`)
}

// spoiltNeighbours is failure 6: Blazar LP#1847821, #1786031, #1791741.
func spoiltNeighbours(t *testing.T) {
	w := playFailure(t, aheadAuto+"bob Allocate s2 a@pc2 geni_start_time=+2h geni_end_time=+5h patchbay_provision_at_start=true geni_users=bob\nbob Allocate s4 a@pc1 geni_start_time=+6h geni_end_time=+7h")
	before := w.records()
	w.play(`
		alice Renew s1 +6h30m -> REFUSED $six
		alice Renew s1 +1h -> BADARGS
		alice Renew s1 +3h geni_end_time=+1h -> BADARGS
		alice Provision s1 -> UNAVAILABLE
		alice PerformOperationalAction s1 geni_start -> UNSUPPORTED
		alice Allocate s1 b@pc1 geni_start_time=+3h -> TOOBIG
		bob Renew s1 +4h with=s2 -> FORBIDDEN`)
	if after := w.records(); after != before {
		t.Errorf("refused calls have changed\n%s\nto\n%s", before, after)
	}
	w.play("pass 2h\nbegin")
	w.observe("a", func(x *am.Sliver) {
		if x.Slice.Name == "s1" {
			x.Status.Operational, x.Error, x.Observed.State = am.Failed, "it does not boot", "failed"
		}
	})
	w.play(`
		alice Status s1 -> a:failed "it does not boot"
		alice Delete s1
		settle
		bob Status s2 -> a:ready @+3h
		alice Allocate s1 a@pc1 geni_end_time=+2h
		pass 4h
		expire
		begin
		bob Provision s4 -> @+1h`)
}

// lostSeconds is failure 8: fabric jupyter-examples PR#174; geni-tools#60. TestTimesOfPeople of package display has zones and changes of the clock.
func lostSeconds(t *testing.T) {
	w := playFailure(t, "")
	start, end := w.clock().Add(2*time.Hour+7*time.Second).UTC(), w.clock().Add(3*time.Hour+59*time.Second).UTC()
	w.texts["$s"], w.texts["$e"] = start.In(time.FixedZone("", 5*3600+1800)).Format(time.RFC3339), end.In(time.FixedZone("", -3600)).Format(time.RFC3339)
	w.texts["$begins"], w.texts["$ends"], w.texts["$longer"] = FormatTime(start), FormatTime(end), FormatTime(end.Add(time.Second))
	w.play(`
		alice Allocate s1 a@pc1 geni_start_time=$s geni_end_time=$e patchbay_provision_at_start=true -> $begins $ends
		bob Allocate s2 a@pc1 geni_start_time=$longer geni_end_time=+4h
		bob Allocate s4 a@pc1 geni_start_time=$ends geni_end_time=$longer
		bob Delete s4
		alice Renew s1 $longer -> $begins $longer @$longer`)
}

// idsAsRights is failure 10: Blazar LP#2120655; chi-in-a-box PR#419.
func idsAsRights(t *testing.T) {
	w := playFailure(t, aheadWindow+"bob Allocate s2 a@pc1 geni_end_time=+1h\nbob Provision s2")
	w.texts["$sliver"] = w.urns["s1.a"][strings.LastIndex(w.urns["s1.a"], "+")+1:]
	for _, call := range []string{"Status s1.a", "Describe s1.a", "Provision s1.a", "Renew s1.a +4h", "Delete s1.a", "PerformOperationalAction s1.a geni_start"} {
		w.play("bob " + call + " with=s2 -> FORBIDDEN|SEARCHFAILED")
	}
	for _, call := range []string{"Renew s2 +3h -> REFUSED", "Renew s2 +3h geni_extend_alap=true ->", "Status s2 ->", "Allocate s4 b@pc1 geni_start_time=+1h geni_end_time=+3h -> TOOBIG", "ListResources ->", "ListResources geni_start_time=+3h ->"} {
		w.play("bob " + call + ` !$sliver !"+slice+s1" !"user+alice"`)
	}
	w.play("alice Status s1 -> a:allocated @+2h30m")
}
