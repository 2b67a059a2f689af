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

// maxWaiting bounds the lines that wait because they cannot be written, in bytes.
const maxWaiting = 4 << 20

// silence is how long nothing is written before a line tells that all is well:
// when a site ends without a word, it was alive that long ago at most.
const silence = 10 * time.Minute

// lookAfter is how often a Log looks after itself.
const lookAfter = 2 * time.Second

// Options are a Log's settings.
type Options struct {
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Log is told when lines cannot be written; nil for nobody.
	Log *slog.Logger
}

// Log is the audit of a site whose store is open. All methods may be called at
// the same time. Lines that cannot be written wait, as many as fit, and are
// written when that is possible again; Err tells meanwhile.
type Log struct {
	path  string
	store *store.Store
	opt   Options

	mu    sync.Mutex // guards all below
	file  *os.File   // nil while it cannot be opened
	last  time.Time  // when the last line was written
	lines int64      // written since Open

	waiting batch
	lost    int // lines that found no room in waiting
	// retell says that what slivers hold must be told again: lines of it may have been
	// lost, or are in another file.
	retell   bool
	holdings *holdings // nil before Start
	failure  error
	told     time.Time // when failure was last logged

	seen store.Rev
	// pending are the journal entries that have no line yet, and by which call
	// their line will come.
	pending map[string]store.Rev
	byCall  map[string][]string
	// stuck is the first revision whose line was lost; 0 for none.
	stuck store.Rev
}

// batch is lines that are written together.
type batch struct {
	text  []byte
	lines int
	first store.Rev // of the journal entries that they are of; 0 for none
}

// Open opens the audit in the file path, makes it if it is not there, and writes
// the lines that a crash has kept from being written. From then on, whatever the
// store's journal gets has its line: that of a call with Call, all else at once.
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
	if err := s.Observe(&follower{log: l}); err != nil {
		l.file.Close()
		return nil, err
	}
	return l, nil
}

// open opens the file; the caller has the lock, or nobody else has the Log.
func (l *Log) open() error {
	f, err := openFile(l.path)
	if err != nil {
		return err
	}
	l.file = f
	return nil
}

// openFile opens an audit to append to.
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
		return nil, fmt.Errorf("cannot open the audit: %s is not a regular file; name one that is, or will be", path)
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

// Act writes the line of what an operator did.
func (l *Log) Act(a Act) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(a.line(l.opt.Now()))
}

// Note writes the line of what an operator did into the audit in the file path,
// whose site may be served meanwhile or not.
func Note(path string, a Act) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	if a.At.IsZero() {
		a.At = time.Now()
	}
	err = appendTo(f, a.line(a.At).encode(), commandPatience)
	return errors.Join(err, f.Close())
}

// line is a line without a call.
func (l *Log) line(event string) *Line {
	return &Line{At: l.opt.Now().UTC().Format(timeLayout), Event: event}
}

// write writes a line, or has it wait. The caller has the lock.
func (l *Log) write(lines ...*Line) {
	ready := l.waiting.lines == 0 && l.lost == 0 && l.follow()
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
	if ready && l.put(text) {
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

// earlier is the first of two revisions; 0 is none.
func earlier(a, b store.Rev) store.Rev {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// marked are events whose lines have a mark although they are of no journal entry.
var marked = map[string]bool{eventStart: true, eventTold: true, eventAlive: true, eventOpen: true, eventStop: true}

// Settled is the revision of the store up to which the line of every journal entry
// is in the file; what is older is not needed to complete the audit.
func (l *Log) Settled() store.Rev {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written()
}

// written is settled without the lines that wait.
func (l *Log) written() store.Rev {
	rev := l.settled()
	if w := l.waiting.first; w > 0 {
		rev = min(rev, w-1)
	}
	return rev
}

// settled is the revision up to which every journal entry has a line.
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

// put writes text with one write.
func (l *Log) put(text []byte) bool {
	if err := appendTo(l.file, text, patience); err != nil {
		l.failed(err)
		return false
	}
	l.last = l.opt.Now()
	return true
}

// follow makes sure that the open file is the one at the path, and begins another
// where that was moved away. Lines that it is followed by must not count as
// written yet.
func (l *Log) follow() bool {
	err := l.find()
	if err != nil {
		l.failed(err)
	}
	return err == nil
}

func (l *Log) find() error {
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
	// Older files may be thrown away: each tells by itself what is held.
	l.retell = true
	return l.begin(Mark{l.written(), l.seen})
}

// begin begins an empty file with a mark, so that one need not look for it in
// others.
func (l *Log) begin(m Mark) error {
	info, err := l.file.Stat()
	if err != nil || info.Size() > 0 {
		return err
	}
	x := l.line(eventOpen)
	x.Mark = &m
	return appendTo(l.file, x.encode(), patience)
}

// failed keeps and tells why lines cannot be written, once a minute.
func (l *Log) failed(err error) {
	l.failure = err
	if now := l.opt.Now(); l.told.IsZero() || now.Sub(l.told) >= time.Minute {
		l.told = now
		l.opt.Log.Error("the audit cannot be written; make room, or give this user the right to write it",
			"file", l.path, "waiting", l.waiting.lines+1, "lost", l.lost, "error", err)
	}
}

// Err tells why lines cannot be written; nil when they can.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err()
}

func (l *Log) err() error {
	if l.failure == nil {
		return nil
	}
	return fmt.Errorf("the audit %s cannot be written, %d lines wait and %d are lost: %w", l.path, l.waiting.lines, l.lost, l.failure)
}

// Admit refuses whatever would need a line while lines cannot be written. Its
// error is an am.Error.
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

// Lines is how many lines were written since Open, and how many were not.
func (l *Log) Lines() (written, unwritten int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines, int64(l.waiting.lines + l.lost)
}

// flush writes what waits; the caller has the lock.
func (l *Log) flush() bool {
	if !l.follow() {
		return false
	}
	if w := l.waiting; w.lines > 0 {
		if !l.put(w.text) {
			return false
		}
		l.lines += int64(w.lines)
		l.waiting = batch{}
	}
	if l.lost > 0 {
		x := l.line(eventLost)
		x.Lost, x.Text = l.lost, "lines were not written; those of changes come back at the next start"
		if !l.put(x.encode()) {
			return false
		}
		l.lost = 0
		l.retell = true
	}
	if l.failure != nil {
		l.opt.Log.Info("the audit can be written again", "file", l.path)
	}
	l.failure, l.told = nil, time.Time{}
	return true
}

// Reopen opens the file anew, for it may have been moved away.
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

// Run looks after the Log until ctx ends: it writes what waits as soon as that is
// possible, and a sign of life when nothing else is written.
func (l *Log) Run(ctx context.Context) {
	t := time.NewTicker(lookAfter)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			l.tend()
			l.tellAgain(ctx)
		}
	}
}

func (l *Log) tend() {
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

// Close writes what waits and closes the file. The store must be closed, or
// nothing be committed any more.
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
