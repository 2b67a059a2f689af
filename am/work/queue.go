package work

import (
	"cmp"
	"context"
	"slices"
	"time"
)

const (
	// slowGet is the longest time that a get delays the next get of the same provider.
	slowGet = time.Second
	// slowSet is the time after which a running set of several resources is called slow. Then
	// the resources are polled, at intervals of slowSet.
	slowSet = 2 * time.Second
	// slowGets limits the slow gets of a provider. A get is slow if it runs longer than
	// slowGet, or if it reads only one resource, because the last get of that resource failed.
	slowGets = 8
)

// queue holds the work for one provider. Only the loop uses it.
type queue struct {
	name     string
	provider Provider // nil until a findCall has found it
	finding  bool     // whether a findCall runs
	trouble  string   // why the provider cannot be used, as logged last

	nextGet time.Time      // when the next get of several may start
	gets    map[*call]bool // running gets
	sets    map[*call]bool // running sets, one in each worker

	toGet, toSet []*job // jobs that are due for a get or a set
	soon         []*job // jobs that will soon be due for a get
}

// startCalls begins calls for the jobs of q that are due. It returns the time at which it must run again.
func (l *loop) startCalls(ctx context.Context, q *queue, now time.Time) time.Time {
	never := now.Add(time.Minute)
	if len(q.toGet)+len(q.toSet)+len(q.gets)+len(q.sets) == 0 {
		return never
	}
	if q.provider == nil {
		if !q.finding {
			q.finding = true
			l.begin(ctx, &call{kind: findCall, queue: q, jobs: slices.Concat(q.toGet, q.toSet)})
		}
		return never
	}
	l.startSets(ctx, q)
	return earlier(l.pollSets(ctx, q, now), l.startGets(ctx, q, now))
}

// pollSets polls the resources of each long set, since one resource may hang while others are
// done. It skips sets of only one resource and sets that remove resources. It returns the time
// at which it must run again.
func (l *loop) pollSets(ctx context.Context, q *queue, now time.Time) time.Time {
	next := now.Add(time.Minute)
	for c := range q.sets {
		if len(c.jobs) < 2 || c.jobs[0].removes() || c.polling || len(q.gets) > slowGets {
			continue // the loop runs this again when a call ends
		}
		if c.pollAt.IsZero() {
			c.pollAt = c.started.Add(slowSet)
		}
		if c.pollAt.After(now) {
			next = earlier(next, c.pollAt)
			continue
		}
		var jobs []*job
		for _, j := range c.jobs {
			if j.call == c && !j.obsolete && l.jobs[j.id] == j {
				jobs = append(jobs, j)
			}
		}
		if len(jobs) == 0 {
			continue
		}
		c.polling = true
		p := &call{kind: pollCall, beside: c, queue: q, provider: q.provider, alone: true, jobs: jobs, limit: timeLimit(q.provider, "get", l.r.limits.Get)}
		q.gets[p] = true
		l.begin(ctx, p)
	}
	return next
}

// startGets starts one get for all due resources, even while slow gets still run, if there are
// at most slowGets of them. A resource whose last get failed is read alone, and this get counts
// as slow. startGets returns the time at which it must run again.
func (l *loop) startGets(ctx context.Context, q *queue, now time.Time) time.Time {
	next, busy := now.Add(time.Minute), false
	for c := range q.gets {
		if overdue := c.started.Add(slowGet); !c.alone && overdue.After(now) {
			next, busy = earlier(next, overdue), true
		}
	}
	get := func(jobs []*job, alone bool) {
		c := &call{kind: getCall, queue: q, provider: q.provider, alone: alone, jobs: jobs[:min(len(jobs), l.r.limits.Names)], limit: timeLimit(q.provider, "get", l.r.limits.Get)}
		q.gets[c] = true
		l.begin(ctx, c)
	}
	slices.SortFunc(q.toGet, func(a, b *job) int { return a.due.Compare(b.due) })
	var all []*job
	for _, j := range q.toGet {
		switch {
		case !j.getAlone:
			all = append(all, j)
		case len(q.gets) < slowGets:
			get([]*job{j}, true)
		}
	}
	switch {
	case len(all) == 0 || busy || len(q.gets) > slowGets:
	case q.nextGet.After(now):
		next = earlier(next, q.nextGet)
	default:
		get(append(all, q.soon...), false)
	}
	return next
}

// startSets starts due sets while workers are free. Resources that are set alone, because
// their last set failed or did not end, may use all workers but one.
func (l *loop) startSets(ctx context.Context, q *queue) {
	workers := max(1, q.provider.Parallel())
	alone := 0
	for c := range q.sets {
		if l.setAlone[c.jobs[0].id] {
			alone++
		}
	}
	l.postponeConflicts(q)
	for _, jobs := range l.batches(q) {
		if len(q.sets) == workers {
			return
		}
		if l.setAlone[jobs[0].id] {
			if alone >= max(1, workers-1) {
				continue
			}
			alone++
		}
		c := &call{kind: setCall, queue: q, provider: q.provider, jobs: jobs, limit: timeLimit(q.provider, "set", l.r.limits.Set)}
		q.sets[c] = true
		l.begin(ctx, c)
	}
}

// postponeConflicts removes some nodes from q.toSet: those that share a client_id or a link
// with a node of the same slice that is being removed. These nodes wait until the provider has
// accepted the removal, or until the removal has failed Limits.Attempts times.
func (l *loop) postponeConflicts(q *queue) {
	type name struct{ slice, kind, id string }
	names := func(j *job) (all []name) {
		slice := j.sliver.Slice.Key()
		all = append(all, name{slice, "node", j.sliver.ClientID})
		for _, in := range j.sliver.Interfaces {
			all = append(all, name{slice, "link", in.Link})
		}
		return all
	}
	if !slices.ContainsFunc(q.toSet, func(j *job) bool { return !j.removes() }) {
		return
	}
	removing := map[name]bool{}
	for _, j := range l.jobs {
		if j.queue == q && j.removes() && !j.asked && j.task.Attempt < l.r.limits.Attempts {
			for _, n := range names(j) {
				removing[n] = true
			}
		}
	}
	q.toSet = slices.DeleteFunc(q.toSet, func(j *job) bool {
		return !j.removes() && slices.ContainsFunc(names(j), func(n name) bool { return n.id != "" && removing[n] })
	})
}

// batches groups due resources into sets. The resources of a set belong to one slice, and
// either all or none of them are removed. A resource whose last set failed or did not end
// is alone in its set. Removals come first, then the resources that have been due longest.
func (l *loop) batches(q *queue) (groups [][]*job) {
	slices.SortFunc(q.toSet, func(a, b *job) int {
		if a.removes() != b.removes() {
			if a.removes() {
				return -1
			}
			return 1
		}
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id))
	})
	type kind struct {
		slice   string
		removes bool
	}
	open := map[kind]int{} // indexes in groups
	for _, j := range q.toSet {
		k := kind{j.sliver.Slice.Key(), j.removes()}
		n, ok := open[k]
		if l.setAlone[j.id] || !ok || len(groups[n]) == l.r.limits.Names {
			if !l.setAlone[j.id] {
				open[k] = len(groups)
			}
			groups = append(groups, []*job{j})
			continue
		}
		groups[n] = append(groups[n], j)
	}
	return groups
}
