package audit

import (
	"context"
	"os"

	"patchbay/am"
	"patchbay/am/store"
)

// follower observes the store and writes a line for each journal entry. The line of a call's
// entry waits until the call is answered; all others are written immediately.
type follower struct {
	log    *Log
	staged []am.JournalEntry // only the committer uses it
}

func (f *follower) Stage(cs store.ChangeSet) {
	for _, r := range cs.Put {
		if e, ok := r.Value.(am.JournalEntry); ok {
			f.staged = append(f.staged, e)
		}
	}
}

func (f *follower) Rollback() { f.staged = f.staged[:0] }

// Publish writes the lines of the collected entries. Log.Call writes the lines of calls.
func (f *follower) Publish() {
	if len(f.staged) == 0 {
		return
	}
	l := f.log
	l.mu.Lock()
	defer l.mu.Unlock()
	var now []am.JournalEntry
	for _, e := range f.staged {
		rev, _ := store.JournalRev(e.ID)
		l.seen = max(l.seen, rev)
		l.pending[e.ID] = rev
		if e.Caller.IsZero() || e.Request == "" {
			now = append(now, e)
		} else {
			l.byCall[e.Request] = append(l.byCall[e.Request], e.ID)
		}
	}
	for _, e := range now {
		l.write(entryLine(e))
	}
	f.staged = f.staged[:0]
}

// Start writes a start line, and then a holds line for each sliver that holds something.
// Afterwards, the log writes a line when a sliver's holding changes.
func (l *Log) Start(site string) error {
	l.mu.Lock()
	x := l.line(eventStart)
	x.Site, x.PID = site, os.Getpid()
	l.write(x)
	l.mu.Unlock()
	h := &holdings{log: l, held: map[string]recordedState{}, again: true}
	if err := l.store.Observe(h); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(l.line(eventTold))
	l.holdings = h
	return nil
}

// recordAgain does nothing unless mustRecordAgain is set. If it fails, the next call tries
// again.
func (l *Log) recordAgain(ctx context.Context) {
	l.mu.Lock()
	h := l.holdings
	due := l.mustRecordAgain && h != nil
	if due {
		l.mustRecordAgain = false
	}
	l.mu.Unlock()
	if !due {
		return
	}
	if err := l.store.Commit(ctx, h.readAll); err != nil {
		l.mu.Lock()
		l.mustRecordAgain = true
		l.mu.Unlock()
	}
}

// Stop writes a stop line: the site has stopped.
func (l *Log) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(l.line(eventStop))
}
