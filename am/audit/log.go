package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"patchbay/am"
	"patchbay/am/fileowner"
	"patchbay/am/store"
)

// maxWaiting limits the lines that wait in memory to be written, in bytes.
const maxWaiting = 4 << 20

// silence is the longest time without a line. After it, Run writes a line "alive". So the
// last line shows when a site crashed, within about this time.
const silence = 10 * time.Minute

const checkInterval = 2 * time.Second

// Options are a Log's settings.
type Options struct {
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Log receives an error when lines cannot be written; nil for none.
	Log *slog.Logger
}

// Log is the audit of a site whose store is open. All methods may be called
// concurrently. Lines that cannot be written wait in memory, up to maxWaiting, and are
// written as soon as possible; meanwhile Err returns the reason.
type Log struct {
	path  string
	store *store.Store
	opt   Options

	mu    sync.Mutex // guards all below
	file  *os.File   // nil while it cannot be opened
	last  time.Time  // when the last line was written
	lines int64      // written since Open

	waiting batch
	lost    int // lines dropped because waiting was full
	// mustRecordAgain means that the holds lines of all slivers must be repeated, because
	// some may have been lost, or are in another file.
	mustRecordAgain bool
	holdings        *holdings // nil before Start
	failure         error
	loggedAt        time.Time // when failure was last logged

	seen store.Rev
	// pending has the ids of the journal entries without a line.
	pending map[string]store.Rev
	// byCall has, by request id, the pending entries whose line Call will write.
	byCall map[string][]string
	// stuck is the first revision whose line was lost; 0 for none.
	stuck store.Rev
}

type batch struct {
	text  []byte
	lines int
	first store.Rev // the first revision of their journal entries; 0 for none
}

// Open opens the audit file at path, creates it if necessary, and writes the lines that
// are missing because of a crash. From then on, each journal entry gets its line: Call
// writes the line of a call's entry; all other lines are written immediately.
func Open(path string, s *store.Store, o Options) (*Log, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{path: path, store: s, opt: o, pending: map[string]store.Rev{}, byCall: map[string][]string{}}
	if err := l.open(); err != nil {
		return nil, err
	}
	if err := l.recover(); err != nil {
		l.file.Close()
		return nil, fmt.Errorf("cannot complete the audit %s: %w", path, err)
	}
	if err := s.Watch(l.follow); err != nil {
		l.file.Close()
		return nil, err
	}
	return l, nil
}

// open requires that the caller holds the lock, or that no other goroutine has the Log.
func (l *Log) open() error {
	f, err := openFile(l.path)
	if err != nil {
		return err
	}
	l.file = f
	return nil
}

func openFile(path string) (_ *os.File, err error) {
	var f *os.File
	err = fileowner.As(filepath.Dir(path), func() (err error) {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOCTTY, 0o600)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot open the audit: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot open the audit: %s is not a regular file; name a regular file or a new one", path)
	}
	return f, nil
}

// Call writes the line of a call.
func (l *Log) Call(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := c.line(l.opt.Now())
	x.Journal = l.byCall[c.ID]
	delete(l.byCall, c.ID)
	l.write(x)
}

// Act writes the line of an operator's action.
func (l *Log) Act(a Act) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(a.line(l.opt.Now()))
}

// Note writes the line of an operator's action into the audit file at path. The site
// may be running.
func Note(path string, a Act) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	if a.At.IsZero() {
		a.At = time.Now()
	}
	err = appendTo(f, a.line(a.At).encode(), commandLockTimeout)
	return errors.Join(err, f.Close())
}

func (l *Log) line(event string) *Line {
	return &Line{At: l.opt.Now().UTC().Format(timeLayout), Event: event}
}

// write adds the lines to waiting if they cannot be written. The caller holds the lock.
func (l *Log) write(lines ...*Line) {
	ready := l.waiting.lines == 0 && l.lost == 0 && l.checkFile()
	var text []byte
	var first store.Rev
	for _, x := range lines {
		for _, id := range x.Journal {
			first = earlier(first, l.pending[id])
			delete(l.pending, id)
		}
		if len(x.Journal) > 0 || marked[x.Event] {
			x.Mark = &Mark{l.settled(), l.seen}
		}
		text = append(text, x.encode()...)
	}
	if ready && l.append(text) {
		l.lines += int64(len(lines))
		return
	}
	if l.lost > 0 || len(l.waiting.text)+len(text) > maxWaiting {
		l.lost += len(lines)
		l.stuck = earlier(l.stuck, first)
		return
	}
	w := &l.waiting
	w.text, w.lines, w.first = append(w.text, text...), w.lines+len(lines), earlier(w.first, first)
}

// earlier returns the earlier of two revisions; 0 stands for none.
func earlier(a, b store.Rev) store.Rev {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// marked are events whose lines have a mark although these lines belong to no journal entry.
var marked = map[string]bool{eventStart: true, eventTold: true, eventAlive: true, eventOpen: true, eventStop: true}

// Settled returns the revision of the store up to which each journal entry has its line
// in the file. The audit no longer needs these entries.
func (l *Log) Settled() store.Rev {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writtenUpTo()
}

// writtenUpTo does what Settled does, for a caller that holds the lock. Unlike in settled, waiting lines do
// not count as written.
func (l *Log) writtenUpTo() store.Rev {
	rev := l.settled()
	if w := l.waiting.first; w > 0 {
		rev = min(rev, w-1)
	}
	return rev
}

// settled returns the revision up to which every journal entry has a line, written or
// waiting.
func (l *Log) settled() store.Rev {
	rev := l.seen
	if l.stuck > 0 {
		rev = min(rev, l.stuck-1)
	}
	for _, p := range l.pending {
		rev = min(rev, p-1)
	}
	return rev
}

func (l *Log) append(text []byte) bool {
	if err := appendTo(l.file, text, lockTimeout); err != nil {
		l.failed(err)
		return false
	}
	l.last = l.opt.Now()
	return true
}

// checkFile must be called while the journal entries of the next lines are still pending.
// Otherwise, the mark of a new file would count these lines as written.
func (l *Log) checkFile() bool {
	err := l.reopenIfMoved()
	if err != nil {
		l.failed(err)
	}
	return err == nil
}

// reopenIfMoved opens a new file if the open file was moved away, or if none is open.
func (l *Log) reopenIfMoved() error {
	if l.file != nil {
		there, err := os.Stat(l.path)
		if err == nil {
			if mine, err := l.file.Stat(); err == nil && os.SameFile(there, mine) {
				return nil
			}
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		l.file.Close()
		l.file = nil
	}
	if err := l.open(); err != nil {
		return err
	}
	// Older files may be deleted, so each file must contain the holdings of all slivers.
	l.mustRecordAgain = true
	return l.begin(Mark{l.writtenUpTo(), l.seen})
}

// begin writes an open line with the mark m into an empty file, so that the next start need
// not search older files for a mark.
func (l *Log) begin(m Mark) error {
	info, err := l.file.Stat()
	if err != nil || info.Size() > 0 {
		return err
	}
	x := l.line(eventOpen)
	x.Mark = &m
	return appendTo(l.file, x.encode(), lockTimeout)
}

// failed logs the error at most once a minute.
func (l *Log) failed(err error) {
	l.failure = err
	if now := l.opt.Now(); l.loggedAt.IsZero() || now.Sub(l.loggedAt) >= time.Minute {
		l.loggedAt = now
		l.opt.Log.Error("the audit cannot be written; make room, or give this user the right to write it",
			"file", l.path, "waiting", l.waiting.lines+1, "lost", l.lost, "error", err)
	}
}

// Err returns the reason why lines cannot be written; nil if they can.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err()
}

// err requires that the caller holds mu.
func (l *Log) err() error {
	if l.failure == nil {
		return nil
	}
	return fmt.Errorf("the audit %s cannot be written, %d lines wait and %d are lost: %w", l.path, l.waiting.lines, l.lost, l.failure)
}

// Admit returns nil if lines can be written, and else the am.Error with which a call that
// changes something is refused.
func (l *Log) Admit() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flush() {
		return nil
	}
	return &am.Error{
		Code: am.ServerError, Detail: am.NoDetail, Err: l.err(),
		Msg: "the aggregate cannot write its audit, and without it nothing is changed here; try again later, or ask its operators",
	}
}

// Lines returns the number of lines written since Open, and the number of lines not
// written.
func (l *Log) Lines() (written, unwritten int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines, int64(l.waiting.lines + l.lost)
}

// flush returns false if writing fails. The caller holds the lock.
func (l *Log) flush() bool {
	if !l.checkFile() {
		return false
	}
	if w := l.waiting; w.lines > 0 {
		if !l.append(w.text) {
			return false
		}
		l.lines += int64(w.lines)
		l.waiting = batch{}
	}
	if l.lost > 0 {
		x := l.line(eventLost)
		x.Lost, x.Text = l.lost, "lines were not written; the lines that record changes are written when the service next starts"
		if !l.append(x.encode()) {
			return false
		}
		l.lost = 0
		l.mustRecordAgain = true
	}
	if l.failure != nil {
		l.opt.Log.Info("the audit can be written again", "file", l.path)
	}
	l.failure, l.loggedAt = nil, time.Time{}
	return true
}

// Reopen opens the file again, because it may have been moved away.
func (l *Log) Reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
	l.flush()
	return l.err()
}

// Run writes waiting lines as soon as possible, and a line "alive" after a silence,
// until ctx ends.
func (l *Log) Run(ctx context.Context) {
	t := time.NewTicker(checkInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			l.maintain()
			l.recordAgain(ctx)
		}
	}
}

// maintain writes waiting lines, or a line "alive" if it is due.
func (l *Log) maintain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != nil {
		l.flush()
		return
	}
	if l.opt.Now().Sub(l.last) >= silence {
		l.write(l.line(eventAlive))
	}
}

// Close writes waiting lines and closes the file. Close the store first.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	err := l.err()
	if l.file == nil {
		return err
	}
	err = errors.Join(err, l.file.Close())
	l.file = nil
	return err
}
