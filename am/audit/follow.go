package audit

import (
	"context"
	"os"

	"patchbay/am"
	"patchbay/am/store"
)

// follow writes the lines of the journal entries in written. The line of a
// call's entry waits until Log.Call; all others are written immediately.
func (l *Log) follow(written []store.ChangeSet) {
	var entries []am.JournalEntry
	for _, cs := range written {
		entries = append(entries, cs.Journal...)
	}
	if len(entries) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var now []am.JournalEntry
	for _, e := range entries {
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
	if err := l.store.Watch(h.written); err != nil {
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
	if err := l.store.Commit(ctx, h.recordAll); err != nil {
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
