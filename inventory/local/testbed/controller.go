package testbed

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"patchbay/inventory/provider"
)

// start starts the goroutine, once.
func (nc *nodeController) start() { nc.once.Do(func() { nc.t.work.Go(nc.loop) }) }

// loop is the goroutine.
func (nc *nodeController) loop() {
	ctx := nc.t.ctx
	nc.adoptRunning(ctx)
	for {
		wait, over := nc.reconcile(ctx)
		if over {
			return
		}
		var again <-chan time.Time
		if wait > 0 {
			again = time.After(wait)
		}
		select {
		case <-nc.wakeups:
		case run := <-nc.died:
			if ctx.Err() == nil {
				nc.handleDeath(run)
			}
		case <-again:
		case <-ctx.Done():
			listeners := []net.Listener{nc.endpoint.public, nc.endpoint.inside}
			if nc.run != nil {
				listeners = append(listeners, nc.run.geni)
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

// adoptRunning finds the node that an earlier program left running, or makes sure that
// nothing of it runs.
func (nc *nodeController) adoptRunning(ctx context.Context) {
	find, cancel := context.WithTimeout(ctx, slowAgentTime)
	defer cancel()
	if nc.broken != "" {
		return
	}
	rec := nc.snapshot()
	nc.currentChange = rec.Change
	nc.earlier.failed = rec.Failed != "" && rec.FailedAt == rec.Change
	if rec.Base == 0 {
		return // it was never started
	}
	if r, ok := nc.t.runtime.Find(find, nc.id); ok {
		nc.trackRun(r)
		nc.earlier.ran = true
		nc.reopenEndpoint(rec)
		return
	}
	if died, boot := nc.t.runtime.Died(nc.id); died && !rec.Desired.Removing {
		nc.saveDeathWhileStopped(boot)
	}
	if err := nc.t.runtime.Kill(find, nc.id); err != nil && ctx.Err() == nil {
		nc.t.log.Error("cannot end what is left of a node", "node", nc.id, "error", err)
	}
	nc.steps.recordInterruption(whileStopped)
}

// handleDeath notes that PID 1 of a run has ended by itself.
func (nc *nodeController) handleDeath(run *run) {
	if run != nc.run {
		return // we ended it
	}
	nc.reportProgress("its system has ended; it is being started again")
	nc.clearRun()
	nc.steps.recordInterruption(byDeath)
	now := time.Now()
	nc.saveDeath(now)
	nc.deaths = append(slices.DeleteFunc(nc.deaths, func(t time.Time) bool { return now.Sub(t) > deathsWithin }), now)
	nc.t.log.Warn("the system of a node has ended by itself; it is started again", "node", nc.id, "times", len(nc.deaths))
}

// reconcile runs the phases until the node is as asked or has to wait. It says when
// to begin another round, 0 for when something changes, or that nothing of the
// node is left.
func (nc *nodeController) reconcile(ctx context.Context) (wait time.Duration, over bool) {
	for ctx.Err() == nil {
		r := &round{ctx: ctx, rec: nc.snapshot()}
		if r.rec.Change != nc.currentChange {
			nc.currentChange, nc.attempts, nc.retries, nc.deaths, nc.earlier = r.rec.Change, 0, 0, nil, earlier{}
		}
		end := nc.runPhases(r)
		if end.err == nil && r.pending == nil {
			nc.attempts, nc.retries = 0, 0
		}
		switch {
		case ctx.Err() != nil:
			return 0, false
		case r.rec.Desired.Removing && end.outcome == done:
			return 0, true
		case nc.snapshot().Change != r.rec.Change:
			// Something else is asked by now.
		case end.outcome == failed:
			if wait = nc.handleFailure(r.rec, end.err); wait > 0 {
				return wait, false
			}
		case end.err != nil:
			nc.countRetry(end.err)
			if words, ok := errors.AsType[*userError](end.err); ok {
				nc.reportProgress(words.message + " yet; that is tried again and again")
			}
			return nc.backoff(nc.retries), false
		case r.pending != nil:
			nc.countRetry(r.pending)
			return nc.backoff(nc.retries), false
		default:
			return end.retryAfter, false
		}
	}
	return 0, false
}

// runPhases runs the phases up to the first that is not done.
func (nc *nodeController) runPhases(r *round) result {
	for _, p := range nc.phases(r.rec) {
		if end := p(nc, r); end.outcome != done {
			return end
		}
	}
	return result{}
}

// backoff is the pause after so many attempts.
func (nc *nodeController) backoff(attempts int) time.Duration {
	return time.Duration(min(attempts, maxPause)) * nc.t.pause
}

// countRetry counts an attempt that is repeated for as long as it takes.
func (nc *nodeController) countRetry(err error) {
	nc.retries++
	nc.t.log.Warn("something could not be done for a node yet; it is tried again", "node", nc.id, "attempt", nc.retries, "error", err)
}

// handleFailure says when a failed round is repeated; 0: the node has failed.
func (nc *nodeController) handleFailure(rec record, err error) (wait time.Duration) {
	nc.attempts++
	nc.t.log.Warn("a node is not as asked yet", "node", nc.id, "attempt", nc.attempts, "error", err)
	words, isWords := errors.AsType[*userError](err)
	switch {
	case rec.Desired.Removing:
		if nc.attempts >= maxAttempts {
			nc.mu.Lock()
			nc.setState(provider.StateFailed, "it cannot be removed yet; that is tried again and again, and the testbed's operators can see why in the log")
			nc.mu.Unlock()
		}
		return nc.backoff(nc.attempts)
	case nc.attempts < maxAttempts && !(isWords && words.final) && !nc.earlier.failed:
		return nc.backoff(nc.attempts)
	}
	nc.earlier = earlier{}
	message := "the testbed could not make it so; its operators can see why in the log"
	if isWords {
		message = words.message
	}
	nc.saveFailure(rec.Change, message)
	return 0
}
