package hook

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

var update = flag.Bool("update", false, "write the golden files anew")

// changeOf is the change of one sliver.
func changeOf(before, after *am.Sliver) *store.Change {
	return &store.Change{Rev: 1, At: noon, Slivers: []store.Diff[am.Sliver]{{Before: before, After: after}}}
}

// eventsFor returns the events of a change that a hook gets.
func eventsFor(t *testing.T, h Hook, c *store.Change) (list []Event) {
	for _, p := range eventsOf(site, c) {
		if !p.isFor(&h) {
			continue
		}
		e, err := p.event()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// kindsFor returns the kinds of the events that a hook gets of a change of one sliver.
func kindsFor(t *testing.T, h Hook, before, after *am.Sliver) (list []string) {
	for _, e := range eventsFor(t, h, changeOf(before, after)) {
		list = append(list, string(e.Event))
	}
	return list
}

func TestEventsOfASliver(t *testing.T) {
	a := reserved("s", "a")
	asked := a
	asked.ProbedUntil = noon
	sliver := func(state am.OperationalState) *am.Sliver { s := running(a, state); return &s }
	released := a
	released.Status.Allocation = am.Unallocated
	later := *sliver(am.Ready)
	later.Expires = noon.Add(9 * time.Hour)
	longer := *sliver(am.PendingAllocation)
	longer.Expires = later.Expires
	near := *sliver(am.Ready)
	near.NotifiedEnd, near.NotifiedBefore = near.Expires, time.Hour
	laterTold := later
	laterTold.NotifiedEnd, laterTold.NotifiedBefore = near.NotifiedEnd, near.NotifiedBefore
	again := later
	again.NotifiedEnd, again.NotifiedBefore = later.Expires, time.Hour
	waits := a
	waits.Begins, waits.Ends = noon.Add(time.Hour), noon.Add(3*time.Hour)
	begun := waits
	begun.Begun, begun.Expires = true, waits.Expires.Add(time.Second)
	made := running(begun, am.PendingAllocation)
	for _, c := range []struct {
		name          string
		before, after *am.Sliver
		want          []string
	}{
		{"reserved ahead", nil, &waits, []string{"allocated"}},
		{"its start has come", &waits, &begun, []string{"begins"}},
		{"its start has come, and it is provisioned", &waits, &made, []string{"begins"}},
		{"it is provisioned later", &begun, &made, nil},
		{"it is released before", &waits, nil, []string{"released", "gone"}},
		{"reserved", nil, &a, []string{"allocated"}},
		{"a dry run is no promise", nil, &asked, nil},
		{"a dry run that went well is one", &asked, &a, []string{"allocated"}},
		{"a dry run that was refused ends nothing", &asked, nil, nil},
		{"made at once", nil, sliver(am.PendingAllocation), []string{"allocated"}},
		{"provisioned", &a, sliver(am.PendingAllocation), nil},
		{"provisioned for longer", &a, &longer, nil},
		{"made", sliver(am.PendingAllocation), sliver(am.NotReady), nil},
		{"ready", sliver(am.Configuring), sliver(am.Ready), []string{"ready"}},
		{"made and ready in one", sliver(am.PendingAllocation), sliver(am.Ready), []string{"ready"}},
		{"still ready", sliver(am.Ready), sliver(am.Ready), nil},
		{"new keys", sliver(am.Ready), sliver(am.UpdatingUsers), nil},
		{"new keys are there", sliver(am.UpdatingUsers), sliver(am.Ready), nil},
		{"failed", sliver(am.Configuring), sliver(am.Failed), []string{"failed"}},
		{"failed before", sliver(am.Failed), sliver(am.Failed), nil},
		{"renewed", sliver(am.Ready), &later, []string{"renewed"}},
		{"near its end", sliver(am.Ready), &near, []string{"expiring"}},
		{"near its end, known", &near, &near, nil},
		{"renewed after that", &near, &laterTold, []string{"renewed"}},
		{"near another end", &laterTold, &again, []string{"expiring"}},
		{"reservation ends", &a, nil, []string{"released", "gone"}},
		{"released", sliver(am.Ready), &released, []string{"released"}},
		{"nothing left", &released, nil, []string{"gone"}},
		{"came and went in one group", nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.before == nil && c.after == nil {
				return // the store reports no such change
			}
			if diff := cmp.Diff(c.want, kindsFor(t, Hook{Name: "all", Events: Kinds, Before: time.Hour}, c.before, c.after)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHooksGetTheDefaultEventsUnlessConfigured(t *testing.T) {
	a := reserved("s", "a")
	for _, c := range []struct {
		events []Kind
		want   []string
	}{{nil, []string{"released"}}, {[]Kind{Gone}, []string{"gone"}}, {[]Kind{Ready}, nil}} {
		if diff := cmp.Diff(c.want, kindsFor(t, Hook{Name: "h", Events: c.events}, &a, nil)); diff != "" {
			t.Errorf("%v: %s", c.events, diff)
		}
	}
}

// TestEventsOfASetup checks which hooks get the events of a setup, and that its journal entries are
// not the causes of other events of the same change.
func TestEventsOfASetup(t *testing.T) {
	before, after := running(reserved("s", "a"), am.Configuring), running(reserved("s", "a"), am.Ready)
	other := running(reserved("s", "b"), am.Ready)
	done := am.JournalEntry{Event: "done", Request: "1", Slice: after.Slice, Slivers: []urn.URN{after.URN}}
	failed := am.JournalEntry{Event: am.EventStepFailed, Request: "2", Slice: after.Slice, Slivers: []urn.URN{after.URN}, Text: "execute 1 of 2, make: it ended with status 2"}
	ended := am.JournalEntry{Event: am.EventStageEnded, Slice: after.Slice, Slivers: []urn.URN{after.URN, other.URN}, Text: "stage 1"}
	c := &store.Change{
		At: noon, Slivers: []store.Diff[am.Sliver]{{Before: &other, After: &other}, {Before: &before, After: &after}},
		Journal: []am.JournalEntry{done, failed, ended},
	}
	for _, tt := range []struct {
		name   string
		events []Kind
		want   []string // event, sliver, reason, request and text
	}{
		{"all", Kinds, []string{"step_failed a setup step failed 2 " + failed.Text, "stage_ended  setup stage ended  stage 1", "ready a done 1 "}},
		{"the default", nil, []string{"ready a done 1 "}},
		{"failed steps", []Kind{StepFailed}, []string{"step_failed a setup step failed 2 " + failed.Text}},
		{"stages", []Kind{StageEnded}, []string{"stage_ended  setup stage ended  stage 1"}},
	} {
		var got []string
		for _, e := range eventsFor(t, Hook{Name: "h", Events: tt.events}, c) {
			got = append(got, strings.Join([]string{string(e.Event), e.ClientID, e.Reason, e.Request, e.Text}, " "))
			if e.Slice != after.Slice.String() {
				t.Errorf("%s: %s is about the slice %s", tt.name, e.Event, e.Slice)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// TestEventsOfReservationsAhead checks the events that journal entries about reservations cause.
func TestEventsOfReservationsAhead(t *testing.T) {
	unused, holder := reserved("s", "a"), sliverURN("b")
	unused.Begins, unused.Ends, unused.Begun = noon.Add(-time.Hour), noon.Add(time.Hour), true
	entry := func(event, text string, slivers ...urn.URN) am.JournalEntry {
		return am.JournalEntry{Event: event, Slice: unused.Slice, Slivers: slivers, Text: text}
	}
	for _, tt := range []struct {
		name   string
		change store.Change
		want   []string // event, client_id, end and name of the sliver, reason and text
	}{
		{"nobody came", store.Change{Slivers: []store.Diff[am.Sliver]{{Before: &unused}}, Journal: []am.JournalEntry{entry(lease.EventNoShow, "", unused.URN)}},
			[]string{"no_show a 13:00 a no_show ", "released a 13:00 a no_show ", "gone a 13:00 a no_show "}},
		{"a holder is limited, and its sliver does not change", store.Change{Journal: []am.JournalEntry{entry(lease.EventLimited, "renewable until then", holder)}},
			[]string{"limited  00:00 b limited renewable until then"}},
		{"another change has another cause", store.Change{Slivers: []store.Diff[am.Sliver]{{Before: &unused}}, Journal: []am.JournalEntry{entry("Delete", "", unused.URN), entry(lease.EventLimited, "", unused.URN)}},
			[]string{"limited a 13:00 a limited ", "released a 13:00 a Delete ", "gone a 13:00 a Delete "}},
	} {
		var got []string
		for _, e := range eventsFor(t, Hook{Name: "h", Events: Kinds}, &tt.change) {
			got = append(got, strings.Join([]string{string(e.Event), e.ClientID, e.Ends.Format("15:04"), urn.MustParse(e.Sliver).Name, e.Reason, e.Text}, " "))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// Programs of others read events, so their form must stay.
func TestFormOfEvents(t *testing.T) {
	b := newBench(t, Hook{Name: "all", Events: Kinds})
	b.open()
	alice, slice := urn.MustParse("urn:publicid:IDN+example.org+user+alice"), am.Slice{URN: sliceURN("s"), Created: noon}
	step := func(f func(cs *store.ChangeSet)) {
		b.commit(func(*store.View) (cs store.ChangeSet, err error) { f(&cs); return cs, nil })
	}
	entry := am.JournalEntry{At: noon, Event: "Allocate", Request: "4711", Caller: alice, Slice: slice.URN, Slivers: []urn.URN{sliverURN("a")}}
	a := reserved("s", "a")
	step(func(cs *store.ChangeSet) { cs.PutSlice(slice); cs.PutSliver(a); cs.Log(entry) })
	a = running(a, am.Ready)
	a.Error = "install 1 <tar> failed"
	step(func(cs *store.ChangeSet) {
		cs.PutSliver(a)
		cs.Log(am.JournalEntry{At: noon, Event: am.EventStepFailed, Request: "4711", Slice: slice.URN, Slivers: entry.Slivers, Text: a.Error})
	})
	a.SetupBegan = noon
	step(func(cs *store.ChangeSet) {
		cs.PutSliver(a)
		cs.Log(am.JournalEntry{At: noon, Event: am.EventStageEnded, Slice: slice.URN, Slivers: entry.Slivers, Text: "stage 1"})
	})
	a = running(a, am.Failed)
	a.Error = "the power supply answers no more"
	step(func(cs *store.ChangeSet) {
		cs.PutSliver(a)
		cs.Log(am.JournalEntry{At: noon, Event: "gave up", Slice: slice.URN, Slivers: entry.Slivers, Text: a.Error})
	})
	slice.Shutdown, slice.ShutdownBy = noon, alice
	step(func(cs *store.ChangeSet) {
		cs.PutSlice(slice)
		cs.Log(am.JournalEntry{At: noon, Event: "Shutdown", Request: "4712", Caller: alice, Slice: slice.URN})
	})
	slice.Shutdown = time.Time{}
	step(func(cs *store.ChangeSet) {
		cs.PutSlice(slice)
		cs.Log(am.JournalEntry{At: noon, Event: "thaw", Operator: "root", Slice: slice.URN, Text: "all is well"})
	})
	step(func(cs *store.ChangeSet) {
		cs.Remove(store.SliverKey(a.URN))
		cs.Log(am.JournalEntry{At: noon, Event: "lease over", Slice: slice.URN, Slivers: entry.Slivers})
	})
	later := reserved("s", "later")
	later.Begins, later.Ends = noon.Add(time.Hour), noon.Add(3*time.Hour)
	step(func(cs *store.ChangeSet) { cs.PutSliver(later) })
	later.Begun, later.Expires = true, later.Expires.Add(time.Second)
	step(func(cs *store.ChangeSet) {
		cs.PutSliver(later)
		cs.Log(am.JournalEntry{At: noon, Event: lease.EventBegins, Slice: slice.URN, Slivers: []urn.URN{later.URN}})
	})
	got, golden := indented(b.waiting()), filepath.Join("testdata", "events.json")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

func TestIDsAreUniqueAlsoAfterABackupWasRestored(t *testing.T) {
	a, b := reserved("s", "a"), reserved("s", "b")
	id := func(rev store.Rev, s *am.Sliver, at time.Time) string {
		c := changeOf(nil, s)
		c.Rev, c.At = rev, at
		return eventsFor(t, Hook{Name: "h"}, c)[0].ID
	}
	seen := map[string]bool{}
	for _, x := range []string{id(1, &a, noon), id(2, &a, noon), id(1, &b, noon), id(1, &a, noon.Add(1))} {
		if seen[x] {
			t.Errorf("the id %s comes twice", x)
		}
		seen[x] = true
	}
}

func TestLongErrorsAreShortened(t *testing.T) {
	a, b := running(reserved("s", "a"), am.Configuring), running(reserved("s", "a"), am.Failed)
	b.Error = string(make([]byte, 1<<20))
	if n := len(eventsOf(site, changeOf(&a, &b))[0].text); n > 16<<10 {
		t.Errorf("an event has %d bytes", n)
	}
}

// Any text in the store is read without a panic.
func FuzzRead(f *testing.F) {
	f.Add("0000000000000001-0000", []byte(`{"event":"ready","at":"2030-01-02T12:00:00Z"}`))
	f.Add("", []byte(`[`))
	f.Fuzz(func(t *testing.T, id string, text []byte) {
		e, err := (&changeEvent{position: id, text: text}).event()
		if err == nil && e.ID == "" {
			t.Error("an event without an id")
		}
	})
}
