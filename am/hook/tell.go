package hook

import (
	"slices"
	"strings"
	"time"
)

// quietTime is how often at most the log tells of one hook that fails.
const quietTime = time.Minute

// failed tells of a delivery that failed.
func (l *loop) failed(d *delivery) {
	q := d.q
	if !q.broken {
		q.broken, q.since, q.failed = true, time.Now(), 0
	}
	q.failed++
	q.unsaid++
	q.because = d.err.Error()
	q.because = strings.ToValidUTF8(q.because[:min(len(q.because), maxText)], "")
	l.r.failing.Store(int64(len(l.failing())))
	if now := time.Now(); now.After(q.silent) {
		l.r.cfg.Log.Warn("a hook did not take an event; it will be told again", "hook", q.hook.Name, "event", d.id, "slice", d.slice,
			"attempt", d.lane.failures, "failures", q.unsaid, "error", d.err)
		q.silent, q.unsaid = now.Add(quietTime), 0
	}
}

// well tells of a hook that works again.
func (l *loop) well(d *delivery) {
	q := d.q
	if q.broken && d.retrying {
		l.r.cfg.Log.Info("a hook takes events again", "hook", q.hook.Name)
	}
	q.broken = false
	l.r.failing.Store(int64(len(l.failing())))
}

// State is how a hook does.
type State struct {
	Name string
	// Waiting is how many events it has yet to take, those that it is just being told
	// included.
	Waiting int
	// Failing says that it did not take the last event that it was told; then it has
	// refused Failures of them since Since, the last one with Error.
	Failing  bool
	Since    time.Time `json:",omitzero"`
	Failures int       `json:",omitempty"`
	Error    string    `json:",omitempty"`
}

// States tells how each hook does, in the order of Config.Hooks.
func (r *Runner) States() []State { return slices.Clone(*r.states.Load()) }

// publish has States tell what is so now.
func (l *loop) publish() {
	all := make([]State, len(l.queues))
	for i, q := range l.queues {
		all[i] = State{Name: q.hook.Name, Waiting: q.count}
		if q.broken {
			all[i].Failing, all[i].Since, all[i].Failures, all[i].Error = true, q.since, q.failed, q.because
		}
	}
	l.r.states.Store(&all)
}

// awaited are the names of the hooks that are being told of something.
func (l *loop) awaited() []string {
	var names []string
	for _, q := range l.queues {
		if q.running > 0 {
			names = append(names, q.hook.Name)
		}
	}
	return names
}

// failing are the names of the hooks that did not take their last event.
func (l *loop) failing() []string {
	var names []string
	for _, q := range l.queues {
		if q.broken {
			names = append(names, q.hook.Name)
		}
	}
	return names
}
