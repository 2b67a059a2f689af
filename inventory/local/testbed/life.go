package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"patchbay/inventory/local/node"
	"patchbay/inventory/provider"
)

// How long a step may take, and what is done when it fails.
const (
	startTime     = time.Minute
	quickTime     = 5 * time.Second // for an agent to do as told, at first
	talkTime      = 30 * time.Second
	removeTime    = 2 * time.Minute
	maxAttempts   = 3           // of what was asked, before the node is failed
	pause         = time.Second // after the first, and so much more after each
	maxPause      = 30          // of these, between attempts without end
	maxDeaths     = 3           // of PID 1 within deathsWithin
	deathsWithin  = 5 * time.Minute
	deathsMessage = "its system has ended again and again; restart it, or look what ends it"
)

// life is one node. Its goroutine alone does anything about the node; others
// write down what is asked and poke it.
type life struct {
	t  *Testbed
	id string
	// slice is nil for a node without; never changed.
	slice *slice
	// ifaces are its interfaces and network their links, nil without; never changed.
	ifaces  []iface
	network *network
	heavy   int // what they weigh, 0 if they are light
	// services are its setup, nil for a node without; never changed.
	services *services
	// broken is why it can only be removed, for experimenters; set when it is found.
	broken string
	once   sync.Once // starts the goroutine
	pokes  chan struct{}
	died   chan uint64 // the run that ended

	mu             sync.Mutex // guards what follows; held while the record is written
	rec            record
	gone           bool // nothing is left
	state, message string
	setting        bool // the message is what the services do
	open           bool // the doors can be used
	root           bool // also as root, with the keys of all accounts
	pid            int  // 0 when it is not running

	manifest manifest      // of a node without slice
	fetching chan struct{} // has room for the manifest that is told

	// The goroutine's own.
	runs     uint64 // counts starts, and adoptions
	up       bool
	deaths   []time.Time
	attempts int // of change
	waits    int // attempts that do not count
	change   uint64
	// The change at which it was found running; at which it had failed by then,
	// which is tried once more; and at which it had not, which is tried for ever.
	found, again, adopted uint64
	slow                  bool   // its agent did not answer in time
	linked                bool   // it has its interfaces since it was started
	outsideRun            uint64 // the run for which it has its way outside
	// What the running node was told last.
	told      bool
	toldUsers []user
	toldHost  string
	toldPeers uint64
	proven    bool
	// Claimed, though perhaps not noted yet.
	base uint32
	port int
	// Listeners; public and inside are the gateway's to close.
	public, inside net.Listener
	doorUsers      []user // whom the gateway lets in
	geni           net.Listener
}

// say tells get what the node does, with l.mu held.
func (l *life) say(state, message string) { l.state, l.message, l.setting = state, message, false }

// doing says so unless the node is ready and shall look so.
func (l *life) doing(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.rec.Asked.Removing || message == removing {
		l.say(provider.StateChanging, message)
	}
}

func (l *life) poke() {
	select {
	case l.pokes <- struct{}{}:
	default:
	}
}

// snapshot is the record as it is now.
func (l *life) snapshot() record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rec
}

// wordsError is what goes wrong in words for experimenters; Err is for the log.
type wordsError struct {
	words string
	err   error
	final bool // trying again is of no use
}

func (e *wordsError) Error() string { return fmt.Sprintf("%s: %v", e.words, e.err) }

func (e *wordsError) Unwrap() error { return e.err }

// laterError is tried again for as long as it takes: it is no reason to give a
// node up. A node may be ready all the same.
type laterError struct {
	error
	ready bool
}

func (e *laterError) Unwrap() error { return e.error }

func inWords(words string, err error) error {
	if err == nil {
		return nil
	}
	return &wordsError{words: words, err: err}
}

// run is the goroutine.
func (l *life) run() {
	ctx := l.t.ctx
	l.adopt(ctx)
	var again <-chan time.Time
	for {
		wait, over := l.round(ctx)
		if over {
			return
		}
		if wait > 0 {
			again = time.After(wait)
		} else {
			again = nil
		}
		select {
		case <-l.pokes:
		case run := <-l.died:
			if ctx.Err() == nil {
				l.death(run)
			}
		case <-again:
		case <-ctx.Done():
			for _, listener := range []net.Listener{l.geni, l.public, l.inside} {
				if listener != nil {
					listener.Close()
				}
			}
			return
		}
	}
}

// adopt finds the node that an earlier program left running, or makes sure that
// nothing runs.
func (l *life) adopt(ctx context.Context) {
	find, cancel := context.WithTimeout(ctx, talkTime)
	defer cancel()
	if l.broken != "" {
		return
	}
	rec := l.snapshot()
	failed := rec.Failed != "" && rec.FailedAt == rec.Change
	if failed {
		l.again = rec.Change
	}
	if rec.Base == 0 {
		return // it never began
	}
	if r, ok := l.t.machines.Find(find, l.id); ok {
		l.began(r)
		l.found = rec.Change
		if !failed {
			l.adopted = rec.Change
		}
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
	l.up, l.linked, l.told, l.proven = true, false, false, false
	l.setPID(r.PID)
	l.runs++
	run := l.runs
	l.t.work.Go(func() {
		for l.t.ctx.Err() == nil {
			err := l.t.machines.Hold(l.t.ctx, l.id)
			if err == nil {
				break
			}
			find, cancel := context.WithTimeout(l.t.ctx, talkTime)
			_, ok := l.t.machines.Find(find, l.id)
			cancel()
			if !ok {
				break
			}
			sleep(l.t.ctx, time.Second)
		}
		if l.t.ctx.Err() != nil {
			return // it goes on without us
		}
		l.t.machines.Reap(r)
		select {
		case l.died <- run:
		case <-l.t.ctx.Done():
		}
	})
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// death notes that PID 1 has ended by itself.
func (l *life) death(run uint64) {
	if run != l.runs || !l.up {
		return // we ended it
	}
	l.ended()
	l.services.cut(cutDeath)
	now := time.Now()
	l.deaths = append(slices.DeleteFunc(l.deaths, func(t time.Time) bool { return now.Sub(t) > deathsWithin }), now)
	l.t.log.Warn("the system of a node has ended by itself; it is started again", "node", l.id, "times", len(l.deaths))
}

// round does what is to be done, and says when to try again, or that nothing of
// the node is left.
func (l *life) round(ctx context.Context) (wait time.Duration, over bool) {
	for ctx.Err() == nil {
		rec := l.snapshot()
		if rec.Change != l.change {
			l.change, l.attempts, l.waits, l.deaths = rec.Change, 0, 0, nil
		}
		var err error
		switch {
		case rec.Asked.Removing:
			if err = l.remove(ctx); err == nil {
				return 0, true
			}
		case l.broken != "":
			return l.stayDown(rec.Change), false
		case rec.Failed != "" && rec.FailedAt == rec.Change && l.again != rec.Change:
			l.finish(rec.Change, provider.StateFailed, rec.Failed)
			return 0, false
		default:
			err = l.bring(ctx, rec)
		}
		later, isLater := errors.AsType[*laterError](err)
		ready := err == nil || isLater && later.ready
		held, wait := false, time.Duration(0)
		if ready {
			held, wait = l.serve(rec)
		}
		if held {
			l.settingUp(rec.Change)
		}
		if ready && !held && l.again == rec.Change {
			l.again = 0
			l.note(rec.Change, "")
		}
		if err == nil {
			l.attempts, l.waits = 0, 0
		}
		switch {
		case ctx.Err() != nil:
			return 0, false
		case held && !isLater && l.snapshot().Change == rec.Change:
			return wait, false
		case ready && !held && l.finish(rec.Change, provider.StateReady, "") && !isLater:
			return 0, false
		case err == nil || l.snapshot().Change != rec.Change:
			continue // something else is asked by now
		}
		words, isWords := errors.AsType[*wordsError](err)
		if isLater {
			l.waits++
			l.t.log.Warn("a node could not be told all yet; that is tried again", "node", l.id, "attempt", l.waits, "error", err)
			if !ready && isWords {
				l.doing(words.words + " yet; that is tried again and again")
			}
			return time.Duration(min(l.waits, maxPause)) * l.t.pause, false
		}
		l.attempts++
		l.t.log.Warn("a node is not as asked yet", "node", l.id, "attempt", l.attempts, "error", err)
		if rec.Asked.Removing {
			if l.attempts >= maxAttempts {
				l.trouble()
			}
			return time.Duration(min(l.attempts, maxPause)) * l.t.pause, false
		}
		if l.attempts < maxAttempts && !(isWords && words.final) && l.again != rec.Change {
			return time.Duration(l.attempts) * l.t.pause, false
		}
		l.again = 0
		l.fail(rec.Change, err)
	}
	return 0, false
}

// stayDown makes sure that a broken node does nothing more, and says when to try
// that again.
func (l *life) stayDown(change uint64) (wait time.Duration) {
	err := l.kill()
	l.finish(change, provider.StateFailed, l.broken)
	if err == nil {
		return 0
	}
	l.waits++
	l.t.log.Error("cannot end a broken node; that is tried again", "node", l.id, "attempt", l.waits, "error", err)
	return time.Duration(min(l.waits, maxPause)) * l.t.pause
}

// finish says that the node is as it was asked at change, unless more was asked.
func (l *life) finish(change uint64, state, message string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rec.Change != change {
		return false
	}
	l.say(state, message)
	return true
}

// fail gives the node up until something else is asked.
func (l *life) fail(change uint64, err error) {
	message := "the testbed could not make it so; its operators can see why in the log"
	if words, ok := errors.AsType[*wordsError](err); ok {
		message = words.words
	}
	l.note(change, message)
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

// trouble tells of a node that cannot be removed, which is tried for ever.
func (l *life) trouble() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.say(provider.StateFailed, "it cannot be removed yet; that is tried again and again, and the testbed's operators can see why in the log")
}
