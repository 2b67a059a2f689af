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
	"patchbay/am/file"
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
	started         bool
	failure         error
	loggedAt        time.Time // when failure was last logged

	// next is the position of the first line of the changes that is not written, and saved the one
	// in the store's cursor.
	next, saved string
	// since has the times of the holds lines of slivers, as far as this process has written them.
	since map[string]string
}

// batch are lines that no change makes.
type batch struct {
	text  []byte
	lines int
}

// Open opens the audit file at path, creates it if necessary, and writes the lines of the changes
// that have none. Run writes those of later changes.
func Open(path string, s *store.Store, o Options) (*Log, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{path: path, store: s, opt: o, since: map[string]string{}}
	if err := l.open(); err != nil {
		return nil, err
	}
	if err := l.begin(); err != nil {
		l.file.Close()
		return nil, fmt.Errorf("cannot complete the audit %s: %w", path, err)
	}
	return l, nil
}

// open opens the file of the log. The caller holds the lock, or no other goroutine has the Log.
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
	err = file.AsOwner(filepath.Dir(path), func() (err error) {
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
	l.write(c.line(l.opt.Now()))
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

// write writes the line. It adds the line to those that wait if it cannot be written or others wait, and counts it as
// lost if too many wait. The caller holds the lock.
func (l *Log) write(x *Line) {
	ready := l.waiting.lines == 0 && l.lost == 0 && l.checkFile()
	text := x.encode()
	switch w := &l.waiting; {
	case ready && l.append(text):
		l.lines++
	case l.lost > 0 || len(w.text)+len(text) > maxWaiting:
		l.lost++
	default:
		w.text, w.lines = append(w.text, text...), w.lines+1
	}
}

func (l *Log) append(text []byte) bool {
	if err := appendTo(l.file, text, lockTimeout); err != nil {
		l.failed(err)
		return false
	}
	l.last = l.opt.Now()
	return true
}

// checkFile opens a new file if the open one was moved away.
func (l *Log) checkFile() bool {
	err := l.reopenIfMoved()
	if err != nil {
		l.failed(err)
	}
	return err == nil
}

// closeFile syncs the file first; see save.
func (l *Log) closeFile() error {
	err := errors.Join(l.file.Sync(), l.file.Close())
	l.file = nil
	return err
}

// reopenIfMoved opens a new file if the open file was moved away, or if none is open.
func (l *Log) reopenIfMoved() error {
	if l.file != nil {
		named, err := os.Stat(l.path)
		if err == nil {
			if opened, err := l.file.Stat(); err == nil && os.SameFile(named, opened) {
				return nil
			}
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		l.closeFile()
	}
	if err := l.open(); err != nil {
		return err
	}
	// Older files may be deleted, so each file must contain the holdings of all slivers.
	l.mustRecordAgain = true
	return l.beginFile()
}

// beginFile writes an open line with the position into an empty file, so that the next start need
// not search older files for it.
func (l *Log) beginFile() error {
	info, err := l.file.Stat()
	if err != nil || info.Size() > 0 {
		return err
	}
	return l.writeOpen()
}

func (l *Log) writeOpen() error {
	x := l.line(eventOpen)
	x.Next = l.next
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

// err does what Err does, for a caller that holds mu.
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
	if unwritten = int64(l.waiting.lines + l.lost); unwritten == 0 && l.failure != nil {
		unwritten = 1 // at least one change has no line
	}
	return l.lines, unwritten
}

// flush writes the lines that wait, a line about lost ones, and after a failure the lines of changes. It returns false if
// writing fails. The caller holds the lock.
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
		x.Lost, x.Text = l.lost, "lines were not written; the lines of changes are not among them"
		if !l.append(x.encode()) {
			return false
		}
		l.lost = 0
		l.mustRecordAgain = true
	}
	if l.failure != nil {
		if !l.follow() {
			return false
		}
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
		l.closeFile()
	}
	l.flush()
	return l.err()
}

// Close writes the lines of the last changes and closes the file. Close the store afterwards.
func (l *Log) Close() error {
	l.mu.Lock()
	l.follow()
	l.mu.Unlock()
	l.save(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	err := l.err()
	if l.file == nil {
		return err
	}
	return errors.Join(err, l.closeFile())
}
