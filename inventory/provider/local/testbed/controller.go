package testbed

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
)

func (nc *nodeController) start() { nc.once.Do(func() { nc.t.work.Go(nc.loop) }) }

// loop reconciles the node whenever it is woken, its PID 1 ends, or a retry is due. It
// returns when the node was removed or the testbed stops.
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

// adoptRunning takes over a node that an earlier run of this program started and that still
// runs. If the node does not run, adoptRunning kills its remaining processes, and records
// that its last run has ended.
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
		return // it never ran
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
		nc.t.log.Error("cannot end the remaining processes of a node", "node", nc.id, "error", err)
	}
	nc.interruptSteps(steprunner.WhileStopped)
}

// handleDeath ignores runs that this program ended.
func (nc *nodeController) handleDeath(run *run) {
	if run != nc.run {
		return
	}
	nc.reportProgress("its system has ended; it is being started again")
	nc.clearRun()
	nc.interruptSteps(steprunner.ByDeath)
	now := time.Now()
	nc.saveDeath(now)
	nc.deaths = append(slices.DeleteFunc(nc.deaths, func(t time.Time) bool { return now.Sub(t) > deathsWithin }), now)
	nc.t.log.Warn("the system of a node ended unexpectedly; restarting it", "node", nc.id, "times", len(nc.deaths))
}

// reconcile runs the phases until the node is in its desired state or must wait. If wait is 0,
// only a wakeup begins the next round. The result removed means that the node was removed
// completely.
func (nc *nodeController) reconcile(ctx context.Context) (wait time.Duration, removed bool) {
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
			// The desired state has changed meanwhile.
		case end.outcome == failed:
			if wait = nc.handleFailure(r.rec, end.err); wait > 0 {
				return wait, false
			}
		case end.err != nil:
			nc.countRetry(end.err)
			if userErr, ok := errors.AsType[*userError](end.err); ok {
				nc.reportProgress(userErr.message + " yet; retrying")
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

// runPhases returns the result of the first phase that is not done.
func (nc *nodeController) runPhases(r *round) result {
	for _, p := range nc.phases(r.rec) {
		if end := p(nc, r); end.outcome != done {
			return end
		}
	}
	return result{}
}

func (nc *nodeController) backoff(attempts int) time.Duration {
	return time.Duration(min(attempts, maxPause)) * nc.t.pause
}

// countRetry counts and logs an attempt that is repeated without limit.
func (nc *nodeController) countRetry(err error) {
	nc.retries++
	nc.t.log.Warn("part of a node's desired state could not be reached yet; retrying", "node", nc.id, "attempt", nc.retries, "error", err)
}

// handleFailure returns the pause before the next round. After the last attempt it saves the
// failure and returns 0. Removals are repeated without limit. A final error is not retried, nor
// is a node that had already failed before this program started.
func (nc *nodeController) handleFailure(rec record, err error) (wait time.Duration) {
	nc.attempts++
	nc.t.log.Warn("a node is not in its desired state yet", "node", nc.id, "attempt", nc.attempts, "error", err)
	userErr, isUserError := errors.AsType[*userError](err)
	switch {
	case rec.Desired.Removing:
		if nc.attempts >= maxAttempts {
			nc.mu.Lock()
			nc.setState(provider.StateFailed, "it cannot be removed yet; the testbed keeps retrying, and its operators can see why in the log")
			nc.mu.Unlock()
		}
		return nc.backoff(nc.attempts)
	case nc.attempts < maxAttempts && !(isUserError && userErr.final) && !nc.earlier.failed:
		return nc.backoff(nc.attempts)
	}
	nc.earlier = earlier{}
	message := "the testbed could not reach the requested state; its operators can see why in the log"
	if isUserError {
		message = userErr.message
	}
	nc.saveFailure(rec.Change, message)
	return 0
}
