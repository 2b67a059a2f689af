package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/node"
	"patchbay/inventory/provider"
)

// How long a phase may take, and what is done when one fails.
const (
	startTime     = time.Minute
	quickTime     = 5 * time.Second // for an agent that has answered in time before
	talkTime      = 30 * time.Second
	removeTime    = 2 * time.Minute
	maxAttempts   = 3           // at what was asked, before the node is failed
	pause         = time.Second // after the first attempt, and so much more after each
	maxPause      = 30          // of these, between attempts without end
	maxDeaths     = 3           // of PID 1 within deathsWithin
	deathsWithin  = 5 * time.Minute
	deathsMessage = "its system has ended again and again; restart it, or look what ends it"
)

// outcome says how a phase ended.
type outcome int

const (
	done   outcome = iota // the next phase runs
	retry                 // the round ends; another one begins later
	failed                // the same, but after maxAttempts the node is failed
)

// result is how a phase ended.
type result struct {
	outcome outcome
	// after is when another round begins, for retry without an error. Zero: when
	// something changes.
	after time.Duration
	err   error
}

// failure is the result of a phase that must succeed: done if err is nil.
func failure(err error) result {
	if err == nil {
		return result{}
	}
	return result{outcome: failed, err: err}
}

// phase is one step of making a node as asked.
type phase func(l *life, r *round) result

// round is one pass through the phases, for one state of the record.
type round struct {
	ctx context.Context
	// rec is the record as it was when the round began; phases add what they settle.
	rec record
	// pending is what could not be done and does not keep the node from being
	// ready. Another round tries it again.
	pending error

	users []user
	key   experimentKey
	peers peerLines
	same  bool // the agent was told these users and this hostname
	ready bool // besides, the logins were proven and the doors are open
	told  bool // the agent needs to be told nothing
}

// postpone notes that something could not be done yet.
func (r *round) postpone(err error) result {
	r.pending = errors.Join(r.pending, err)
	return result{}
}

// live starts the goroutine, once.
func (l *life) live() { l.once.Do(func() { l.t.work.Go(l.loop) }) }

// loop is the goroutine.
func (l *life) loop() {
	ctx := l.t.ctx
	l.adopt(ctx)
	for {
		wait, over := l.round(ctx)
		if over {
			return
		}
		var again <-chan time.Time
		if wait > 0 {
			again = time.After(wait)
		}
		select {
		case <-l.pokes:
		case run := <-l.died:
			if ctx.Err() == nil {
				l.death(run)
			}
		case <-again:
		case <-ctx.Done():
			listeners := []net.Listener{l.door.public, l.door.inside}
			if l.run != nil {
				listeners = append(listeners, l.run.geni)
			}
			for _, listener := range listeners {
				if listener != nil {
					listener.Close()
				}
			}
			return
		}
	}
}

// adopt finds the node that an earlier program left running, or makes sure that
// nothing of it runs.
func (l *life) adopt(ctx context.Context) {
	find, cancel := context.WithTimeout(ctx, talkTime)
	defer cancel()
	if l.broken != "" {
		return
	}
	rec := l.snapshot()
	l.change = rec.Change
	l.earlier.failed = rec.Failed != "" && rec.FailedAt == rec.Change
	l.earlier.retry = l.earlier.failed
	if rec.Base == 0 {
		return // it was never started
	}
	if r, ok := l.t.machines.Find(find, l.id); ok {
		l.began(r)
		l.earlier.ran = true
		l.reopen(rec)
		return
	}
	if err := l.t.machines.Kill(find, l.id); err != nil && ctx.Err() == nil {
		l.t.log.Error("cannot end what is left of a node", "node", l.id, "error", err)
	}
	l.services.cut(cutAway)
}

// began notes that the node runs, and watches it.
func (l *life) began(r node.Running) {
	run := new(run)
	l.run, l.started = run, true
	l.update(func(s *status) { s.pid = r.PID })
	l.t.work.Go(func() {
		for l.t.ctx.Err() == nil && !l.hasEnded(l.t.ctx) {
			sleep(l.t.ctx, time.Second)
		}
		if l.t.ctx.Err() != nil {
			return // the node goes on without this program
		}
		l.t.machines.Reap(r)
		select {
		case l.died <- run:
		case <-l.t.ctx.Done():
		}
	})
}

// hasEnded waits until the agent is gone or cannot be asked, and tells whether
// the node runs no more.
func (l *life) hasEnded(ctx context.Context) bool {
	c, err := l.t.machines.Agent(ctx, l.id)
	if err == nil {
		err = agent.Hold(ctx, c)
	}
	if err == nil {
		return true
	}
	find, cancel := context.WithTimeout(ctx, talkTime)
	defer cancel()
	_, ok := l.t.machines.Find(find, l.id)
	return !ok
}

// death notes that PID 1 of a run has ended by itself.
func (l *life) death(run *run) {
	if run != l.run {
		return // we ended it
	}
	l.doing("its system has ended; it is being started again")
	l.ended()
	l.services.cut(cutDeath)
	now := time.Now()
	l.deaths = append(slices.DeleteFunc(l.deaths, func(t time.Time) bool { return now.Sub(t) > deathsWithin }), now)
	l.t.log.Warn("the system of a node has ended by itself; it is started again", "node", l.id, "times", len(l.deaths))
}

// round runs the phases until the node is as asked or has to wait. It says when
// to begin another round, 0 for when something changes, or that nothing of the
// node is left.
func (l *life) round(ctx context.Context) (wait time.Duration, over bool) {
	for ctx.Err() == nil {
		r := &round{ctx: ctx, rec: l.snapshot()}
		if r.rec.Change != l.change {
			l.change, l.attempts, l.waits, l.deaths, l.earlier = r.rec.Change, 0, 0, nil, earlier{}
		}
		end := l.pass(r)
		if end.err == nil && r.pending == nil {
			l.attempts, l.waits = 0, 0
		}
		switch {
		case ctx.Err() != nil:
			return 0, false
		case r.rec.Asked.Removing && end.outcome == done:
			return 0, true
		case l.snapshot().Change != r.rec.Change:
			// Something else is asked by now.
		case end.outcome == failed:
			if wait = l.attemptFailed(r.rec, end.err); wait > 0 {
				return wait, false
			}
		case end.err != nil:
			l.retried(end.err)
			if words, ok := errors.AsType[*wordsError](end.err); ok {
				l.doing(words.words + " yet; that is tried again and again")
			}
			return l.pauseAfter(l.waits), false
		case r.pending != nil:
			l.retried(r.pending)
			return l.pauseAfter(l.waits), false
		default:
			return end.after, false
		}
	}
	return 0, false
}

// pass runs the phases up to the first that is not done.
func (l *life) pass(r *round) result {
	for _, p := range l.phases(r.rec) {
		if end := p(l, r); end.outcome != done {
			return end
		}
	}
	return result{}
}

// pauseAfter is the pause after so many attempts.
func (l *life) pauseAfter(attempts int) time.Duration {
	return time.Duration(min(attempts, maxPause)) * l.t.pause
}

// retried counts an attempt that is repeated for as long as it takes.
func (l *life) retried(err error) {
	l.waits++
	l.t.log.Warn("something could not be done for a node yet; it is tried again", "node", l.id, "attempt", l.waits, "error", err)
}

// attemptFailed says when a failed round is repeated; 0: the node has failed.
func (l *life) attemptFailed(rec record, err error) (wait time.Duration) {
	l.attempts++
	l.t.log.Warn("a node is not as asked yet", "node", l.id, "attempt", l.attempts, "error", err)
	words, isWords := errors.AsType[*wordsError](err)
	switch {
	case rec.Asked.Removing:
		if l.attempts >= maxAttempts {
			l.mu.Lock()
			l.say(provider.StateFailed, "it cannot be removed yet; that is tried again and again, and the testbed's operators can see why in the log")
			l.mu.Unlock()
		}
		return l.pauseAfter(l.attempts)
	case l.attempts < maxAttempts && !(isWords && words.final) && !l.earlier.retry:
		return l.pauseAfter(l.attempts)
	}
	l.earlier.retry = false
	message := "the testbed could not make it so; its operators can see why in the log"
	if isWords {
		message = words.words
	}
	l.note(rec.Change, message)
	return 0
}

// note writes down why the node has failed at change; empty: it has not.
func (l *life) note(change uint64, failed string) {
	set := func(r *record) { r.Failed, r.FailedAt = failed, change }
	if err := l.settle(set); err != nil {
		l.t.log.Error("cannot write down whether a node has failed", "node", l.id, "error", err)
		l.mu.Lock()
		set(&l.rec)
		l.mu.Unlock()
	}
}

// wordsError is an error with words for experimenters; err is for the log.
type wordsError struct {
	words string
	err   error
	final bool // another attempt is of no use
}

func (e *wordsError) Error() string { return fmt.Sprintf("%s: %v", e.words, e.err) }

func (e *wordsError) Unwrap() error { return e.err }

func inWords(words string, err error) error {
	if err == nil {
		return nil
	}
	return &wordsError{words: words, err: err}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
