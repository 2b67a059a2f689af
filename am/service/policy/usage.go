package policy

import (
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
)

// Amount is a number of nodes, and the cores and the disk (in MiB) that their sliver
// types take.
type Amount struct{ Nodes, Cores, Disk int64 }

// Held has the most that a user, a slice and the slice's project hold at one time.
type Held struct{ User, Slice, Project Amount }

func (a Amount) max(b Amount) Amount {
	return Amount{max(a.Nodes, b.Nodes), max(a.Cores, b.Cores), max(a.Disk, b.Disk)}
}

// Used has what a user, a slice and its project hold now, and what the user holds that has not begun.
type Used struct {
	Held
	Windows, NodeHours int64
}

// Calendar calls f with what each sliver holds, until f returns false.
type Calendar func(f func(*am.Hold) bool) error

// Counts returns a function that reports whether a hold counts for a user, a slice or its project.
func Counts(user, slice urn.URN) func(*am.Hold) bool {
	return newTimeline(user, slice).counts
}

// Held returns the most that a user, a slice and its project hold at one time from the time from
// up to until; a zero until means no end. A released sliver is not counted, even while its
// component is still being cleaned. Held fails with the error of the calendar.
func (c Calendar) Held(user, slice urn.URN, from, until, now time.Time) (most Held, err error) {
	t, err := c.Timeline(user, slice, from, until, now)
	if err == nil {
		for _, x := range t.instants {
			most = Held{most.User.max(x.held.User), most.Slice.max(x.held.Slice), most.Project.max(x.held.Project)}
		}
	}
	return most, err
}

// Timeline is what a user, a slice and its project hold, at each instant of an interval.
type Timeline struct {
	user, slice, project am.Hash
	now                  time.Time
	instants             []instant // in the order of time
}

// instant is what is held from the time at until the next instant. ahead counts the slivers that have not begun.
type instant struct {
	at    time.Time
	held  Held
	ahead int64
}

func newTimeline(user, slice urn.URN) *Timeline {
	return &Timeline{user: am.HashOf(user), slice: am.HashOf(slice), project: am.ProjectHash(slice)}
}

func (t *Timeline) counts(h *am.Hold) bool {
	return h.User == t.user || h.Slice == t.slice || h.Project == t.project
}

// add adds the hold to x; it subtracts it if sign is -1.
func (t *Timeline) add(x *instant, h *am.Hold, sign int64) {
	for _, y := range [...]struct {
		counts bool
		to     *Amount
	}{{h.User == t.user, &x.held.User}, {h.Slice == t.slice, &x.held.Slice}, {h.Project == t.project, &x.held.Project}} {
		if y.counts {
			*y.to = Amount{y.to.Nodes + sign, y.to.Cores + sign*h.Amount.Cores, y.to.Disk + sign*h.Amount.Disk}
		}
	}
	if !h.From.IsZero() {
		x.ahead += sign
	}
}

// Timeline returns what a user, a slice and its project hold from the time from up to until, as Held counts it. It fails with
// the error of the calendar.
func (c Calendar) Timeline(user, slice urn.URN, from, until, now time.Time) (*Timeline, error) {
	t := newTimeline(user, slice)
	t.now = now
	var list []am.Hold // without texts
	err := c(func(h *am.Hold) bool {
		if !h.Cleaning && t.counts(h) && h.Overlaps(from, until, now) {
			list = append(list, am.Hold{From: h.From, Until: h.Until, Amount: h.Amount, User: h.User, Slice: h.Slice, Project: h.Project})
		}
		return true
	})
	var sum instant
	count := func(sign int64) func(*am.Hold) { return func(h *am.Hold) { t.add(&sum, h, sign) } }
	am.Sweep(list, from, now, count(1), count(-1), func(at time.Time) bool {
		if !until.IsZero() && !at.Before(until) {
			return false
		}
		sum.at = at
		t.instants = append(t.instants, sum)
		return true
	})
	return t, err
}

// Move changes the end of the hold h to until.
func (t *Timeline) Move(h *am.Hold, until time.Time) {
	from, sign := h.Until, int64(1)
	if until.Before(from) {
		from, until, sign = until, from, -1
	}
	if !t.counts(h) {
		return
	}
	i := t.split(from)
	j := t.split(until)
	for ; i < j; i++ {
		t.add(&t.instants[i], h, sign)
	}
}

// split makes the time at one of the instants, unless it is before all of them. It returns the index of the first instant that is
// not earlier.
func (t *Timeline) split(at time.Time) int {
	i, found := slices.BinarySearchFunc(t.instants, at, func(x instant, at time.Time) int { return x.at.Compare(at) })
	if i > 0 && !found {
		x := t.instants[i-1]
		x.at = at
		t.instants = slices.Insert(t.instants, i, x)
	}
	return i
}
