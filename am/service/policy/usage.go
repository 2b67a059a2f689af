package policy

import (
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

// Calendar calls f with what each sliver holds, until f returns false.
type Calendar func(f func(*am.Hold) bool) error

// Counts returns a function that reports whether a hold counts for a user, a slice or its project.
func Counts(user, slice urn.URN) func(*am.Hold) bool {
	owner, in, project := am.HashOf(user), am.HashOf(slice), am.ProjectHash(slice)
	return func(h *am.Hold) bool { return h.User == owner || h.Slice == in || h.Project == project }
}

// Held returns the most that a user, a slice and its project hold at one time from the time from
// up to until; a zero until means no end. A released sliver is not counted, even while its
// component is still being cleaned. Held fails with the error of the calendar.
func (c Calendar) Held(user, slice urn.URN, from, until, now time.Time) (most Held, err error) {
	owner, in, project := am.HashOf(user), am.HashOf(slice), am.ProjectHash(slice)
	counts := Counts(user, slice)
	var list []am.Hold // without texts
	err = c(func(h *am.Hold) bool {
		if !h.Cleaning && counts(h) && h.Overlaps(from, until, now) {
			list = append(list, am.Hold{From: h.From, Until: h.Until, Amount: h.Amount, User: h.User, Slice: h.Slice, Project: h.Project})
		}
		return true
	})
	var sum Held
	count := func(sign int64) func(*am.Hold) {
		return func(h *am.Hold) {
			for _, x := range [...]struct {
				counts bool
				to     *Amount
			}{{h.User == owner, &sum.User}, {h.Slice == in, &sum.Slice}, {h.Project == project, &sum.Project}} {
				if x.counts {
					*x.to = Amount{x.to.Nodes + sign, x.to.Cores + sign*h.Amount.Cores, x.to.Disk + sign*h.Amount.Disk}
				}
			}
		}
	}
	am.Sweep(list, from, now, count(1), count(-1), func(time.Time) bool {
		most = Held{most.User.max(sum.User), most.Slice.max(sum.Slice), most.Project.max(sum.Project)}
		return true
	})
	return most, err
}
