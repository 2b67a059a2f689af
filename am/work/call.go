package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"patchbay/am"
	"patchbay/inventory/provider"
)

type callKind int

const (
	getCall  callKind = iota // reads resources
	setCall                  // changes resources
	findCall                 // finds the provider, or records why the slivers must wait for it
	pollCall                 // reads resources whose set is still running
)

// call is one call of a provider. It runs in its own goroutine, which also records the
// outcomes.
type call struct {
	kind     callKind
	queue    *queue
	provider Provider
	jobs     []*job // used by the loop only
	items    []*item
	limit    time.Duration
	alone    bool // other gets do not wait for it, because it is a pollCall, or reads one resource whose last get failed
	started  time.Time
	pollAt   time.Time // for a set: the time when its next pollCall may start; used by the loop only
	polling  bool      // for a set: its pollCall is running; used by the loop only
	beside   *call     // for a pollCall: the running set whose resources it reads

	// The result. The call's goroutine sets these fields before it sends the call to the loop.
	took     time.Duration
	outcomes []outcome // one for each item; empty if the call failed
	err      error     // not nil if the call as a whole failed
	trouble  error     // for a findCall: why the provider cannot be used
	unstored error     // why the outcomes could not be recorded
}

func (j *job) removes() bool { return j.task.Goal.Removes() }

// begin starts the call in a goroutine, with copies of its jobs. The loop receives the call when it has ended.
func (l *loop) begin(ctx context.Context, c *call) {
	c.started = time.Now()
	for _, j := range c.jobs {
		if c.kind != pollCall {
			j.call = c
		}
		c.items = append(c.items, &item{job: j, sliver: j.sliver, task: j.task, component: j.component, port: l.r.cfg.Interfaces, strict: l.r.cfg.ServicesMustSucceed,
			is: j.is, asked: j.asked, missing: j.missing, since: j.since})
	}
	l.calls.Go(func() {
		l.r.perform(ctx, c)
		select {
		case l.results <- c:
		case <-ctx.Done():
		}
	})
}

// perform calls the provider and records the outcomes. An outcome that needs another attempt gets a delay, or becomes a
// failure after the last attempt. If ctx ends, perform records nothing.
func (r *Runner) perform(ctx context.Context, c *call) {
	if c.kind == findCall {
		c.find(r.cfg.Providers)
	} else {
		limited, cancel := context.WithTimeout(ctx, c.limit)
		defer cancel()
		switch c.kind {
		case getCall:
			c.get(limited, r.limits)
		case pollCall:
			c.get(limited, r.limits)
			c.keepSettled()
		default:
			c.set(limited)
		}
		c.took = time.Since(c.started)
	}
	if ctx.Err() != nil {
		return
	}
	if c.err != nil && len(c.items) == 1 && c.kind != pollCall && !errors.Is(c.err, provider.ErrNoPlace) {
		// The error of a call with only one resource counts as the error of this resource.
		c.outcomes = []outcome{c.items[0].errorOutcome(refusal(c.queue.name, c.err))}
	}
	for n, i := range c.items {
		if n == len(c.outcomes) {
			return
		}
		o := &c.outcomes[n]
		switch {
		case o.verdict == gone && c.kind == setCall:
			o.verdict = setAccepted // only a get shows that the resource is gone
		case o.verdict == retry && !i.removes() && i.task.Attempt+1 >= r.limits.Attempts:
			o.verdict = giveUp
		case o.verdict == retry:
			o.delay = r.limits.backoff(i.task.Attempt+1, i.removes())
		}
	}
	c.unstored = r.record(ctx, c.items, c.outcomes)
}

// find makes the outcome of each item unavailable, with the reason, if the provider cannot be used.
// The same happens if the call has no queue, because the inventory lacks the component. c.trouble
// is only for the operator's log, since it may name files.
func (c *call) find(providers func(string) (Provider, error)) {
	text := "its component is not in the inventory of this site"
	if c.queue != nil {
		if c.provider, c.trouble = providers(c.queue.name); c.trouble == nil {
			return
		}
		text = fmt.Sprintf("its provider %q cannot be used now", c.queue.name)
	}
	for range c.items {
		c.outcomes = append(c.outcomes, outcome{verdict: unavailable, text: text})
	}
}

// get reads the resources and judges each result. It sets LeftOut in the result of a resource that the provider's answer
// does not contain.
func (c *call) get(ctx context.Context, limits Limits) {
	names := make([]string, len(c.items))
	for n, i := range c.items {
		names[n] = i.name()
	}
	found, err := c.provider.Get(ctx, names)
	if c.err = err; err != nil {
		return
	}
	for _, i := range c.items {
		res, listed := found[i.name()]
		res.LeftOut = res.LeftOut || !listed
		c.outcomes = append(c.outcomes, judge(c.provider, i, res, limits.Changing))
	}
}

// keepSettled keeps the outcomes of resources that have the requested attributes, and are done,
// failed or lost. It drops all other outcomes, because the running set may still be working on
// their resources.
func (c *call) keepSettled() {
	var items []*item
	var outcomes []outcome
	for n, o := range c.outcomes {
		i := c.items[n]
		accepted := o.is != nil && len(provider.Diff(o.is, wanted(c.provider, i))) == 0
		if accepted && (o.verdict == done || o.verdict == giveUp || o.verdict == lost) {
			items, outcomes = append(items, i), append(outcomes, o)
		}
	}
	c.items, c.outcomes = items, outcomes
}

// set sends what differs from the desired state. The outcome of each resource is that the provider has accepted that,
// or its refusal.
func (c *call) set(ctx context.Context) {
	updates := make([]provider.Update, len(c.items))
	for n, i := range c.items {
		updates[n] = provider.Update{Name: i.name(), Is: i.is, Should: toSet(c.provider, i)}
	}
	changes, err := c.provider.Set(ctx, updates, false)
	if c.err = err; err != nil {
		return
	}
	refused := map[string]*provider.Error{}
	for _, ch := range changes {
		refused[ch.Name] = ch.Err
	}
	for _, i := range c.items {
		o := outcome{verdict: setAccepted}
		if e := refused[i.name()]; e != nil {
			o = i.errorOutcome(e)
		}
		c.outcomes = append(c.outcomes, o)
	}
}

// refusal returns the error of a call as that of its resource. It hides the cause from experimenters if the error does not
// come from the provider itself. Then only the log has the cause.
func refusal(name string, err error) *provider.Error {
	if e, ok := errors.AsType[*provider.Error](err); ok {
		if e.Kind == provider.Unknown { // the error of a whole call does not mean that this resource is gone
			about := *e
			about.Kind = provider.Failed
			return &about
		}
		return e
	}
	return &provider.Error{Kind: provider.Failed, Msg: "its provider " + name + " did not answer", Temporary: true, Err: err}
}

// finish applies the outcomes of a call to its jobs, unless they are obsolete or newer tasks have replaced them.
func (l *loop) finish(c *call) {
	now := time.Now()
	l.release(c)
	if c.kind == pollCall {
		l.finishPoll(c)
		return
	}
	for n, i := range c.items {
		j := l.jobs[i.job.id]
		if j == nil {
			continue
		}
		j.call = nil
		switch {
		case j.obsolete:
			l.forget(j.id, j)
			continue
		case j != i.job: // the job of a newer task has replaced i.job
			j.getAlone = i.job.getAlone
			continue
		case c.unstored != nil:
			j.setting, j.asked, j.due = false, false, now.Add(retryUnusable)
			continue
		case n >= len(c.outcomes):
			j.setting, j.asked, j.due = false, false, now // the call failed as a whole; read the resource again
			continue
		}
		l.applyToJob(j, c.outcomes[n], now)
	}
	if c.unstored != nil {
		l.r.cfg.Log.Error("cannot record the results of providers", "error", c.unstored)
	}
}

// finishPoll ends the jobs of resources that have settled while their set still runs.
// Until that set has ended, these resources get no new set.
func (l *loop) finishPoll(c *call) {
	for n, i := range c.items {
		j := l.jobs[i.job.id]
		if c.unstored != nil || n >= len(c.outcomes) || j != i.job {
			continue
		}
		l.stale = l.stale || c.outcomes[n].verdict == giveUp
		j.obsolete = true
		l.forget(j.id, j)
	}
}

// release takes the call from its queue. If the call failed as a whole, it marks the call's resources, so that the
// next calls read or set them one by one.
func (l *loop) release(c *call) {
	q, log := c.queue, l.r.cfg.Log
	switch {
	case q == nil: // the call was for components that are not in the inventory
	case c.kind == findCall:
		q.finding, q.provider = false, c.provider
		if c.trouble != nil && c.trouble.Error() != q.trouble {
			q.trouble = c.trouble.Error()
			log.Error("a provider cannot be used", "provider", q.name, "error", c.trouble)
		}
	case c.kind == pollCall:
		delete(q.gets, c)
		c.beside.polling, c.beside.pollAt = false, time.Now().Add(slowSet)
	case c.kind == getCall:
		delete(q.gets, c)
		if !c.alone {
			q.nextGet = time.Now().Add(min(c.took, l.r.limits.PollMin))
		}
		for _, i := range c.items {
			i.job.getAlone = c.err != nil
		}
		if c.err != nil && len(c.items) > 1 {
			log.Warn("a get failed; its resources are read one by one", "provider", q.name, "resources", len(c.items), "error", c.err)
		}
	default:
		delete(q.sets, c)
		if errors.Is(c.err, provider.ErrNoPlace) { // this error is no sign of a bad resource
			log.Warn("a set had no place; its resources are read again", "provider", q.name, "resources", len(c.items), "error", c.err)
			return
		}
		for _, i := range c.items {
			if c.err != nil {
				l.setAlone[i.job.id] = true
			} else {
				delete(l.setAlone, i.job.id)
			}
		}
		if c.err != nil && len(c.items) > 1 {
			log.Warn("a set failed; its resources are tried one by one", "provider", q.name, "resources", len(c.items), "error", c.err)
		}
	}
}

// applyToJob keeps the job like the records that applyOutcome has written, and sets when and how its next call is made.
func (l *loop) applyToJob(j *job, o outcome, now time.Time) {
	j.setting = false
	if clearsError(&j.sliver, o) {
		j.sliver.Error = ""
	}
	switch o.verdict {
	case wait:
		j.missing, j.sliver.Observed = o.vanished, o.observed
		if o.vanished && j.removes() { // a resource left out of one answer may be left out of the next
			j.due = now.Add(l.r.limits.PollMax)
			break
		}
		if j.since.IsZero() {
			j.since = now
		}
		j.due = now.Add(j.poll)
		j.poll = min(j.poll*3/2, l.r.limits.PollMax)
		if o.runs {
			j.poll = min(j.poll, l.r.limits.PollStage)
		}
		if o.open && j.task.Goal == am.GoalMake {
			j.task.Goal = am.GoalStart
		}
	case needSet:
		j.missing, j.sliver.Observed = false, o.observed
		j.setting, j.is, j.due = true, o.is, now
	case setAccepted:
		j.asked, j.since, j.poll, j.due = true, now, l.r.limits.PollMin, now
	case retry:
		j.asked, j.missing, j.since = false, false, time.Time{}
		j.task.Attempt++
		j.sliver.Error, j.sliver.Observed = o.text, o.observed
		j.due = now.Add(o.delay)
	case unavailable:
		j.sliver.Error, j.due = o.text, now.Add(retryUnusable)
	case done, gone, giveUp, lost:
		l.stale = l.stale || o.verdict == giveUp // the store may have a new task with GoalUndo
		delete(l.jobs, j.id)
		if o.verdict != giveUp {
			delete(l.setAlone, j.id)
		}
	}
}
