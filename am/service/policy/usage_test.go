package policy

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/urn"
)

func userURN(name string) urn.URN {
	return urn.URN{Authority: "example.org", Type: urn.User, Name: name}
}

func sliceURN(project, name string) urn.URN {
	return urn.URN{Authority: "example.org:" + project, Type: urn.Slice, Name: name}
}

// calendarOf returns a calendar of what slivers hold.
func calendarOf(slivers ...am.Sliver) Calendar {
	return func(f func(*am.Hold) bool) error {
		for i := range slivers {
			h := am.HoldOf(&slivers[i])
			if h.From = slivers[i].Created; !f(&h) {
				break
			}
		}
		return nil
	}
}

// mostAtAnyHour counts the slivers anew at each hour. It returns the most for a user, a slice and
// its project.
func mostAtAnyHour(slivers []am.Sliver, user, slice urn.URN, hours []time.Time, now time.Time) (most Held) {
	for _, at := range hours {
		var sum Held
		for _, x := range slivers {
			end := x.Expires
			if !end.After(now) { // it is expected to be clean an hour from now
				end = now.Add(time.Hour)
			}
			if x.Status.Allocation == am.Unallocated || at.Before(x.Created) || !x.Frozen && !at.Before(end) {
				continue
			}
			add := func(a *Amount) { *a = Amount{a.Nodes + 1, a.Cores + x.Amount.Cores, a.Disk + x.Amount.Disk} }
			if x.Creator.Equal(user) {
				add(&sum.User)
			}
			if x.Slice.Equal(slice) {
				add(&sum.Slice)
			}
			if urn.Lower(x.Slice.Authority) == urn.Lower(slice.Authority) {
				add(&sum.Project)
			}
		}
		most = Held{most.User.max(sum.User), most.Slice.max(sum.Slice), most.Project.max(sum.Project)}
	}
	return most
}

// TestHeldIsTheMostAtAnyTime compares Held with a count at every hour. Some slivers begin later,
// and URNs differ in case.
func TestHeldIsTheMostAtAnyTime(t *testing.T) {
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	const last = 13 // all slivers begin and end before this hour
	hour := func(n int) time.Time { return start.Add(time.Duration(n) * time.Hour) }
	users, projects := []string{"alice", "Alice", "bob"}, []string{"x", "X", "y"}
	rapid.Check(t, func(t *rapid.T) {
		slivers := make([]am.Sliver, rapid.IntRange(0, 8).Draw(t, "slivers"))
		for i := range slivers {
			begin := rapid.IntRange(0, 8).Draw(t, "begin")
			slivers[i] = am.Sliver{
				URN:     urn.URN{Authority: "example.org", Type: urn.Sliver, Name: fmt.Sprint(i)},
				Creator: userURN(rapid.SampledFrom(users).Draw(t, "user")),
				Slice:   sliceURN(rapid.SampledFrom(projects).Draw(t, "project"), rapid.SampledFrom(users).Draw(t, "slice")),
				Created: hour(begin), Expires: hour(begin + rapid.IntRange(1, 4).Draw(t, "length")),
				Amount: am.Amount{Cores: rapid.Int64Range(0, 2).Draw(t, "cores"), Disk: rapid.Int64Range(0, 2).Draw(t, "disk")},
				Status: am.Status{Allocation: rapid.SampledFrom([]am.AllocationState{am.Allocated, am.Provisioned, am.Unallocated}).Draw(t, "state")},
				Frozen: rapid.IntRange(0, 4).Draw(t, "frozen") == 0,
			}
		}
		now := rapid.IntRange(0, 8).Draw(t, "now")
		from := rapid.IntRange(now, 10).Draw(t, "from")
		end := rapid.IntRange(from+1, last).Draw(t, "until")
		until := hour(end)
		if rapid.Bool().Draw(t, "open") {
			end, until = last, time.Time{}
		}
		var hours []time.Time
		for n := from; n < end; n++ {
			hours = append(hours, hour(n))
		}
		for _, user := range users {
			for _, project := range projects {
				for _, name := range users {
					slice := sliceURN(project, name)
					got, err := calendarOf(slivers...).Held(userURN(user), slice, hour(from), until, hour(now))
					if want := mostAtAnyHour(slivers, userURN(user), slice, hours, hour(now)); err != nil || got != want {
						t.Fatalf("%s in %s: got %+v, %v, want %+v", user, slice, got, err, want)
					}
				}
			}
		}
	})
}

func TestHeldFailsWithTheCalendar(t *testing.T) {
	damaged := errors.New("damaged")
	c := Calendar(func(func(*am.Hold) bool) error { return damaged })
	if _, err := c.Held(userURN("alice"), sliceURN("x", "y"), time.Now(), time.Time{}, time.Now()); !errors.Is(err, damaged) {
		t.Errorf("got %v", err)
	}
}
