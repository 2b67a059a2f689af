package work

import (
	"cmp"
	"context"
	"slices"
	"time"
)

const (
	// looksApart is how many gets that are not for all may run at once.
	looksApart = 4
	// looksLate is how many gets of one resource may run beside them that have taken
	// so long, or are expected to.
	looksLate = 8
)

// place says beside which other gets one runs.
type place int

const (
	together place = iota // the one for all
	apart                 // of a slice or a resource whose get failed
	late                  // of a resource, that keeps nobody waiting
)

// lane is the traffic with one provider. It belongs to the loop.
type lane struct {
	name     string
	provider Provider // nil until it was found
	finding  bool     // a call is looking for it
	trouble  string   // why it cannot be used, as logged last

	// How long a get and a set may keep others waiting: a few times what good
	// ones have taken lately.
	getPatience, setPatience time.Duration

	nextLook time.Time      // when the next get for all may start
	looking  map[*call]bool // gets
	running  map[*call]bool // sets
	turn     bool           // where sets run one at a time: a suspect has had its turn

	looks, sets []*job // what is due
	soon        []*job // polls that will be due before long
}

// start begins what the lane has room for, and says when to come back.
func (l *loop) start(ctx context.Context, n *lane, now time.Time) time.Time {
	never := now.Add(time.Minute)
	if len(n.looks)+len(n.sets)+len(n.looking) == 0 {
		return never
	}
	p := n.provider
	if p == nil {
		if !n.finding {
			n.finding = true
			l.begin(ctx, &call{kind: findCall, lane: n, jobs: slices.Concat(n.looks, n.sets)})
		}
		return never
	}
	return earlier(l.startLooks(ctx, n, p, now), l.startSets(ctx, n, p, now))
}

// startLooks asks what is: in one get for all, but for those whose get failed. Each
// get may take its time, but not keep others waiting: one of several resources is
// ended and taken apart, and one of a single resource goes on beside the others as
// long as few do so.
func (l *loop) startLooks(ctx context.Context, n *lane, p Provider, now time.Time) time.Time {
	next := now.Add(time.Minute)
	running := map[place]int{}
	for c := range n.looking {
		running[c.place]++
	}
	for c := range n.looking {
		switch overdue := c.started.Add(c.patience); {
		case c.place == late || c.preempted:
		case overdue.After(now):
			next = earlier(next, overdue)
		case len(c.jobs) == 1 && running[late] < looksLate:
			running[c.place]--
			c.place = late
			running[late]++
		default:
			c.preempted = true
			c.cancel(errPreempted)
		}
	}
	look := func(where place, jobs []*job) {
		c := &call{kind: getCall, lane: n, provider: p, place: where, jobs: jobs[:min(len(jobs), l.r.limits.Names)],
			limit: timeLimit(p, "get", l.r.limits.Get), patience: n.getPatience << min(jobs[0].apart, 2)}
		n.looking[c] = true
		running[where]++
		l.begin(ctx, c)
	}
	slices.SortFunc(n.looks, func(a, b *job) int { return a.due.Compare(b.due) })
	var all []*job
	groups := map[string][]*job{}
	var order []string
	for _, j := range n.looks {
		k := ""
		switch {
		case j.apart == 0:
			all = append(all, j)
			continue
		case j.apart == 1:
			k = j.sliver.Slice.Key()
		default:
			k = j.id
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], j)
	}
	switch {
	case len(all) == 0 || running[together] > 0:
	case n.nextLook.After(now):
		next = n.nextLook
	default:
		for _, j := range n.soon {
			if j.apart == 0 {
				all = append(all, j)
			}
		}
		look(together, all)
	}
	for _, k := range order {
		switch jobs := groups[k]; {
		case jobs[0].apart > 2: // it was ended, or failed, alone
			if running[late] < looksLate {
				look(late, jobs)
			}
		case running[apart] < looksApart:
			look(apart, jobs)
		}
	}
	return next
}

// batch is what one set may hold: resources of one slice, all to go or all to stay.
type batch struct {
	jobs    []*job
	removes bool
	busy    int // sets of the slice that are running
	oldest  time.Time
}

// startSets asks for what differs. Resources to go come first, then slices
// without a set, then who waits longest. Suspects go one by one and may take
// all places but one; if others take all places for too long, the youngest of
// them becomes suspect.
func (l *loop) startSets(ctx context.Context, n *lane, p Provider, now time.Time) time.Time {
	never := now.Add(time.Minute)
	places := max(1, p.Parallel())
	var suspects, others []*call // running
	busy := map[string]int{}
	for c := range n.running {
		if c.suspect {
			suspects = append(suspects, c)
		} else {
			others = append(others, c)
		}
		busy[c.jobs[0].sliver.Slice.Key()]++
	}
	waiting, alone := l.batches(n, busy)

	limit := places
	if places > 1 && len(alone)+len(suspects) > 0 {
		limit = places - 1
	}
	set := func(jobs []*job, suspect bool) *call {
		c := &call{kind: setCall, lane: n, provider: p, jobs: jobs, suspect: suspect, limit: timeLimit(p, "set", l.r.limits.Set)}
		n.running[c] = true
		l.begin(ctx, c)
		return c
	}
	if places == 1 && len(alone) > 0 && len(n.running) == 0 && (len(waiting) == 0 || !n.turn) {
		n.turn = true
		suspects = append(suspects, set([]*job{alone[0]}, true))
		alone = alone[1:]
	}
	for len(waiting) > 0 && len(others) < limit && len(n.running) < places {
		n.turn = false
		others = append(others, set(waiting[0].jobs, false))
		waiting = waiting[1:]
	}
	for len(alone) > 0 && len(suspects) < max(1, places-1) && len(n.running) < places && places > 1 {
		suspects = append(suspects, set([]*job{alone[0]}, true))
		alone = alone[1:]
	}
	if len(waiting) == 0 || places == 1 || len(others) == 0 {
		return never
	}
	// All places are taken while others wait.
	youngest := slices.MaxFunc(others, func(a, b *call) int { return a.started.Compare(b.started) })
	if overdue := youngest.started.Add(n.setPatience); overdue.After(now) {
		return overdue
	}
	if !youngest.preempted {
		youngest.preempted = true
		youngest.cancel(errPreempted)
	}
	return never
}

// batches sorts what is to be set into batches and single suspects.
func (l *loop) batches(n *lane, busy map[string]int) (waiting []*batch, alone []*job) {
	slices.SortFunc(n.sets, func(a, b *job) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id)) })
	open := map[string]*batch{}
	for _, removes := range []bool{true, false} {
		clear(open)
		for _, j := range n.sets {
			if j.removes() != removes {
				continue
			}
			if l.suspects[j.id] {
				alone = append(alone, j)
				continue
			}
			k := j.sliver.Slice.Key()
			b := open[k]
			if b == nil || len(b.jobs) == l.r.limits.Names {
				b = &batch{removes: removes, busy: busy[k], oldest: j.due}
				open[k] = b
				waiting = append(waiting, b)
			}
			b.jobs = append(b.jobs, j)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *batch) int {
		if a.removes != b.removes {
			if a.removes {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.busy, b.busy), a.oldest.Compare(b.oldest))
	})
	return waiting, alone
}
