package policy

import (
	"errors"
	"fmt"
	"strings"
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

// TestMovesOfEnds compares a Timeline after moves of ends with one that is made after them, at each hour.
func TestMovesOfEnds(t *testing.T) {
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	hour := func(n int) time.Time { return start.Add(time.Duration(n) * time.Hour) }
	alice := userURN("alice")
	rapid.Check(t, func(t *rapid.T) {
		slivers := make([]am.Sliver, rapid.IntRange(1, 6).Draw(t, "slivers"))
		for i := range slivers {
			begin := rapid.IntRange(0, 8).Draw(t, "begin")
			slivers[i] = am.Sliver{
				URN: urn.URN{Authority: "example.org", Type: urn.Sliver, Name: fmt.Sprint(i)}, Status: am.Status{Allocation: am.Allocated},
				Creator: userURN(rapid.SampledFrom([]string{"alice", "bob"}).Draw(t, "user")), Slice: sliceURN(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "project"), "s"),
				Created: hour(begin), Expires: hour(begin + rapid.IntRange(1, 4).Draw(t, "length")), Amount: am.Amount{Cores: 2},
			}
		}
		timeline := func() *Timeline {
			made, err := calendarOf(slivers...).Timeline(alice, sliceURN("x", "s"), start, time.Time{}, start)
			if err != nil {
				t.Fatal(err)
			}
			return made
		}
		got := timeline()
		for range rapid.IntRange(1, 4).Draw(t, "moves") {
			x := &slivers[rapid.IntRange(0, len(slivers)-1).Draw(t, "moved")]
			h := am.HoldOf(x)
			h.From = x.Created
			x.Expires = x.Created.Add(time.Duration(rapid.IntRange(1, 8).Draw(t, "end")) * time.Hour)
			got.Move(&h, x.Expires)
		}
		want := timeline()
		for n := range 20 {
			if a, b := at(got, hour(n)), at(want, hour(n)); a.held != b.held || a.ahead != b.ahead {
				t.Fatalf("hour %d: moved %+v, made %+v", n, a, b)
			}
		}
	})
}

func at(t *Timeline, when time.Time) (last instant) {
	for _, x := range t.instants {
		if !x.at.After(when) {
			last = x
		}
	}
	return last
}

// TestUntilAQuota checks to which end a quota of two nodes lets a sliver be prolonged that ends at noon, beside another
// user's sliver of the same slice until the evening.
func TestUntilAQuota(t *testing.T) {
	now := time.Date(2026, 5, 1, 6, 0, 0, 0, time.UTC)
	hour := func(n int) time.Time { return now.Add(time.Duration(n-6) * time.Hour) }
	slice := sliceURN("x", "s")
	sliver := func(name string, begins, ends int) am.Sliver {
		s := am.Sliver{URN: urn.URN{Authority: "example.org", Type: urn.Sliver, Name: name}, Slice: slice, Creator: userURN(name), Status: am.Status{Allocation: am.Allocated}, Expires: hour(ends), Ends: hour(ends)}
		if begins > 6 {
			s.Begins = hour(begins)
		}
		return s
	}
	mine, waits, other := sliver("alice", 0, 12), sliver("alice", 10, 12), sliver("bob", 0, 18)
	for _, tt := range []struct {
		rule, quota string
		x           am.Sliver
		beside      []am.Sliver
		want        int // hour
	}{
		{"nothing else", "{slice: 2}", mine, []am.Sliver{other}, 24},
		{"a reservation in the evening", "{slice: 2}", mine, []am.Sliver{other, sliver("carol", 17, 19)}, 17},
		{"one after the other has ended", "{slice: 2}", mine, []am.Sliver{other, sliver("carol", 18, 19)}, 24},
		{"one that has begun when this ends", "{slice: 2}", mine, []am.Sliver{other, sliver("carol", 11, 19)}, 12},
		{"of others, while only the user's count", "{user: 1}", mine, []am.Sliver{other, sliver("carol", 11, 19)}, 24},
		{"of the user", "{user: 1}", mine, []am.Sliver{other, sliver("Alice", 13, 14)}, 13},
		{"of the project", "{project: 2}", mine, []am.Sliver{other, sliver("carol", 14, 15)}, 14},
		{"a quota that was lowered takes nothing", "{slice: 1}", mine, []am.Sliver{other}, 24},
		{"but for what has not begun", "{slice: 1}", waits, []am.Sliver{other}, 12},
		{"no quota", "{}", mine, []am.Sliver{other, sliver("carol", 17, 19)}, 24},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			p := New(load(t, "rules: [{name: few, says: Sorry., nodes: "+tt.quota+"}]", "")).For(userURN("alice"), slice)
			c := Calendar(func(f func(*am.Hold) bool) error {
				for _, x := range append(tt.beside, tt.x) {
					if h := am.HoldOf(&x); !f(&h) {
						break
					}
				}
				return nil
			})
			held, err := c.Timeline(userURN("alice"), slice, now, time.Time{}, now)
			if err != nil {
				t.Fatal(err)
			}
			h := am.HoldOf(&tt.x)
			at, by := p.Until(held, &h, hour(24))
			if !at.Equal(hour(tt.want)) || (by != "") != (tt.want < 24) || by != "" && !strings.HasPrefix(by, `rule "few" of this site, which allows at most `) {
				t.Errorf("until %s by %q, want %s", at, by, hour(tt.want))
			}
		})
	}
}
