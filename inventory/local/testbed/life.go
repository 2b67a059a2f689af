package testbed

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"patchbay/inventory/provider"
)

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
	if rec.Base == 0 {
		return // it was never started
	}
	if r, ok := l.t.machines.Find(find, l.id); ok {
		l.began(r)
		l.earlier.ran = true
		l.reopen(rec)
		return
	}
	if died, boot := l.t.machines.Died(l.id); died && !rec.Asked.Removing {
		l.diedMeanwhile(boot)
	}
	if err := l.t.machines.Kill(find, l.id); err != nil && ctx.Err() == nil {
		l.t.log.Error("cannot end what is left of a node", "node", l.id, "error", err)
	}
	l.services.cut(cutAway)
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
	l.noteDeath(now)
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
			l.setState(provider.StateFailed, "it cannot be removed yet; that is tried again and again, and the testbed's operators can see why in the log")
			l.mu.Unlock()
		}
		return l.pauseAfter(l.attempts)
	case l.attempts < maxAttempts && !(isWords && words.final) && !l.earlier.failed:
		return l.pauseAfter(l.attempts)
	}
	l.earlier = earlier{}
	message := "the testbed could not make it so; its operators can see why in the log"
	if isWords {
		message = words.words
	}
	l.note(rec.Change, message)
	return 0
}
