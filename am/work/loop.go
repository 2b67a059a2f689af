package work

import (
	"context"
	"errors"
	"sync"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/inventory/provider"
)

// retryUnusable is the wait before the runner searches again for a provider that cannot
// be used, and before it repeats a failed read or write of the store.
const retryUnusable = time.Second

// loop owns the jobs and calls. Only the goroutine of run uses it; calls use copies.
type loop struct {
	r        *Runner
	jobs     map[string]*job   // by the sliver's key
	queues   map[string]*queue // by the provider's name
	setAlone map[string]bool   // slivers to set alone: their last set failed or did not end
	results  chan *call
	calls    sync.WaitGroup

	stale     bool      // the store may hold new tasks
	scanAfter time.Time // earliest time of the next scan
	scanBy    time.Time // latest time of the next scan
	scans     int
}

type job struct {
	id     string
	task   am.Task
	sliver am.Sliver // the record at the time when the task was read, with the outcomes since then
	scan   int       // the number of the last scan that saw the task

	queue     *queue // nil while the sliver's component is not in the inventory
	component string

	call     *call // the running call with this job, or nil
	obsolete bool  // the task no longer exists, but the call has not ended
	due      time.Time
	poll     time.Duration     // the wait after the next get
	getAlone bool              // a get of several failed: the next get reads this resource alone
	setting  bool              // the next call is a set; otherwise a get
	is       provider.Resource // result of the last get
	asked    bool              // a set for this generation was accepted
	missing  bool              // the last get did not find the resource
	since    time.Time         // when the resource was first seen changing
}

func newLoop(r *Runner) *loop {
	return &loop{
		r: r, jobs: map[string]*job{}, queues: map[string]*queue{}, setAlone: map[string]bool{},
		results: make(chan *call), stale: true,
	}
}

// run scans tasks, starts calls and applies their results, until ctx ends or the store is closed.
func (l *loop) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer l.calls.Wait()
	defer cancel()
	for {
		now := time.Now()
		l.stale = l.stale || !now.Before(l.scanBy)
		if l.stale && !now.Before(l.scanAfter) {
			if err := l.scan(ctx, now); errors.Is(err, store.ErrClosed) {
				return err
			} else if err != nil && ctx.Err() == nil {
				l.r.cfg.Log.Error("cannot read tasks", "error", err)
			}
		}
		next := earlier(l.dispatch(ctx, now), l.scanBy)
		if l.stale && l.scanAfter.After(now) {
			next = earlier(next, l.scanAfter)
		}
		t := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
		case <-l.r.tasks:
			l.stale = true
		case c := <-l.results:
			l.finish(c)
		case <-t.C:
		}
		t.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// scan reads the tasks from the store. It adds jobs for new tasks, removes the jobs of tasks that do not exist any more,
// and deletes tasks that are outdated. It sets the pause before the next scan to four times its own duration, so scans
// take at most a fifth of the time.
func (l *loop) scan(ctx context.Context, now time.Time) error {
	l.scans++
	var outdated []am.Task
	var unreadable error
	err := l.r.cfg.Store.Read(func(v *store.View) error {
		return v.Tasks(func(t am.Task) bool {
			id := t.Sliver.Key()
			j := l.jobs[id]
			known := j != nil && !j.obsolete && j.task.Generation == t.Generation
			if known && t.Goal != am.GoalUndo { // a job of GoalUndo also ends when its sliver is frozen
				j.scan = l.scans
				return true
			}
			s, _, err := v.Sliver(t.Sliver)
			switch {
			case err == nil && s.Frozen && t.Goal == am.GoalUndo: // a frozen sliver keeps everything for inspection
			case err == nil && known:
				j.scan = l.scans
			case errors.Is(err, store.ErrNotFound) || err == nil && s.Generation != t.Generation:
				outdated = append(outdated, t)
			case err != nil:
				unreadable = err
			default:
				l.addJob(id, t, s, now, v.Now())
			}
			return true
		})
	})
	l.scanAfter = time.Now().Add(4 * time.Since(now))
	if err = errors.Join(err, unreadable); err != nil {
		l.scanAfter = l.scanAfter.Add(retryUnusable)
		return err
	}
	l.stale, l.scanBy = false, now.Add(l.r.limits.Sweep)
	for id, j := range l.jobs {
		if j.scan != l.scans {
			j.obsolete = true
			l.forget(id, j)
		}
	}
	return l.r.discard(ctx, outdated)
}

// addJob adds the job of a task, in place of the job of an older task. now is the time of this process's timers. clock is the
// time of the store's clock, which sets the times in tasks.
func (l *loop) addJob(id string, t am.Task, s am.Sliver, now, clock time.Time) {
	old := l.jobs[id]
	j := &job{id: id, task: t, sliver: s, scan: l.scans, due: now, poll: l.r.limits.PollMin}
	if t.Attempt > 0 {
		// Limit the wait, because the clock may have jumped.
		limit := l.r.limits.RetryMax
		if t.Goal.Removes() {
			limit = l.r.limits.RemoveMax
		}
		j.due = now.Add(max(0, min(t.NotBefore.Sub(clock), limit)))
	}
	if old != nil {
		j.call, j.getAlone = old.call, old.getAlone // both jobs have the same resource
	}
	l.jobs[id] = j
}

// forget removes an obsolete job, unless a call with the job is running. Two calls must not
// have the same resource at the same time.
func (l *loop) forget(id string, j *job) {
	if j.call == nil {
		delete(l.jobs, id)
		delete(l.setAlone, id)
	}
}

// discard deletes tasks of slivers that no longer exist or have a newer generation.
func (r *Runner) discard(ctx context.Context, tasks []am.Task) error {
	if len(tasks) == 0 {
		return nil
	}
	return r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		for _, t := range tasks {
			now, _, err := v.Task(t.Sliver)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return cs, err
			}
			switch s, _, err := v.Sliver(t.Sliver); {
			case errors.Is(err, store.ErrNotFound) || err == nil && s.Generation != now.Generation:
				cs.Remove(store.TaskKey(t.Sliver))
			case err != nil: // a sliver that cannot be read may still exist
				return cs, err
			}
		}
		return cs, nil
	})
}

// dispatch begins the calls for all jobs that are due and have no call. It returns the time at which it must run
// again. It must run earlier if a call ends or a task arrives.
func (l *loop) dispatch(ctx context.Context, now time.Time) time.Time {
	next := now.Add(time.Minute)
	for _, q := range l.queues {
		q.toGet, q.soon, q.toSet = q.toGet[:0], q.soon[:0], q.toSet[:0]
	}
	var unplaced []*job
	for _, j := range l.jobs {
		switch {
		case j.call != nil:
		case j.due.After(now) && j.queue != nil && !j.getAlone && j.due.Sub(now) <= j.poll/2: // a get of others that begins now reads it, too
			j.queue.soon = append(j.queue.soon, j)
			next = earlier(next, j.due)
		case j.due.After(now):
			next = earlier(next, j.due)
		case !l.findQueue(j):
			unplaced = append(unplaced, j)
		case j.setting:
			j.queue.toSet = append(j.queue.toSet, j)
		default:
			j.queue.toGet = append(j.queue.toGet, j)
		}
	}
	if len(unplaced) > 0 {
		l.begin(ctx, &call{kind: findCall, jobs: unplaced})
	}
	for _, q := range l.queues {
		next = earlier(next, l.startCalls(ctx, q, now))
	}
	return next
}

// findQueue sets the queue of a job. It returns false if the inventory lacks the sliver's component, so that the
// provider is unknown.
func (l *loop) findQueue(j *job) bool {
	if j.queue != nil {
		return true
	}
	component, name, ok := l.r.placeOf(&j.sliver)
	if !ok {
		return false
	}
	if l.queues[name] == nil {
		l.queues[name] = &queue{name: name, gets: map[*call]bool{}, sets: map[*call]bool{}}
	}
	j.queue, j.component = l.queues[name], component
	return true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
