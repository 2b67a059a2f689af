package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"patchbay/am"
	"patchbay/am/store"
)

// end is what the files of an audit say about its position.
type end struct {
	// next is the position after the last line that has one; "" if there is none.
	next string
	// mark is the last mark of a program of schema 4; nil if there is none.
	mark *mark
	// have contains the journal entries after the mark that have a line.
	have map[string]bool
	// needsMark means that mark and have are needed.
	needsMark bool
	// enough means that earlier lines are not needed.
	enough bool
}

// mark is the position of a line of a program of schema 4. All journal entries up to the revision
// settled have lines; no entry after the revision seen has one.
type mark struct{ settled, seen store.Rev }

// Seen returns the last revision of a store that the audit file at path has recorded; 0
// if it has none. A store that continues after this revision never uses a recorded revision
// again.
func Seen(path string) (seen store.Rev, err error) {
	e := end{have: map[string]bool{}, needsMark: true}
	if err := e.addFile(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	if rev, ok := store.JournalRev(e.next); ok {
		seen = rev - 1
		if e.next > store.Position(rev, 0) { // some lines of rev are written
			seen = rev
		}
	}
	if e.mark != nil {
		seen = max(seen, e.mark.seen)
	}
	return seen, nil
}

// readEnd reads older files only if necessary.
func readEnd(path string, needsMark bool) (end, error) {
	e := end{have: map[string]bool{}, needsMark: needsMark}
	if err := e.addFile(path); err != nil || e.enough {
		return e, err
	}
	files, err := Files(path)
	if err != nil {
		return e, err
	}
	for _, name := range slices.Backward(files) {
		if name == path || e.enough {
			continue
		}
		if err := e.addFile(name); err != nil {
			return e, errors.Join(fmt.Errorf("its position in the journal may be in %s, which cannot be read; move that file elsewhere to continue without it", name), err)
		}
	}
	return e, nil
}

// addFile must be called for the latest file first.
func (e *end) addFile(name string) error {
	isNew := e.next == ""
	err := readLines(name, func(text []byte) bool {
		if isNew && bytes.Contains(text, []byte(`"next":"`)) {
			if x, ok := decode(text); ok && x.Next != "" {
				e.next = x.Next
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	if !e.needsMark {
		e.enough = e.next != ""
		return nil
	}
	marked := func(f func(*Line)) error {
		return readLines(name, func(text []byte) bool {
			if bytes.Contains(text, []byte(`"settled":`)) {
				if x, ok := decode(text); ok && x.Settled != nil {
					f(&x)
				}
			}
			return true
		})
	}
	if e.mark == nil {
		if err := marked(func(x *Line) { e.mark = &mark{*x.Settled, x.Seen} }); err != nil {
			return err
		}
	}
	if e.mark == nil {
		e.enough = e.next != ""
		return nil
	}
	return marked(func(x *Line) {
		for _, id := range x.Journal {
			if rev, ok := store.JournalRev(id); ok && rev > e.mark.settled {
				e.have[id] = true
			}
		}
		e.enough = e.enough || x.Seen <= e.mark.settled
	})
}

// takeOver writes the lines of the journal entries that a program of schema 4 has not written. If
// the process ends meanwhile, the next call continues.
func (l *Log) takeOver(e end) error {
	written := 0
	ok := true
	err := l.store.Read(func(v *store.View) error {
		return v.JournalAfter(e.mark.settled, func(entry am.JournalEntry) bool {
			rev, is := store.JournalRev(entry.ID)
			n, err := strconv.ParseUint(entry.ID[strings.IndexByte(entry.ID, '-')+1:], 16, 32)
			if !is || err != nil || e.have[entry.ID] || entry.ID < e.next {
				return true
			}
			x := entryLine(entry)
			x.Next = store.Position(rev, int(n)+1)
			ok = l.append(x.encode())
			written++
			return ok
		})
	})
	switch {
	case err != nil:
		return err
	case !ok:
		return l.err()
	case written > 0:
		l.opt.Log.Warn("lines of the audit were missing and have been written now", "file", l.path, "lines", written)
	}
	return nil
}
