package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"patchbay/am"
	"patchbay/am/store"
)

// end is the position at which an audit continues, as its files have it.
type end struct {
	// next is the position after the last line that has one; "" if there is none.
	next string
	// settled is set by files of a program of schema 4: all journal entries up to this revision have
	// lines. No entry after the revision seen has one.
	settled *store.Rev
	seen    store.Rev
	// have contains the journal entries that have a line.
	have map[string]bool
	// enough means that earlier lines are not needed.
	enough bool
}

// Seen returns the last revision of a store that the audit file at path has recorded; 0
// if it has none. A store that continues after this revision never uses a recorded revision
// again.
func Seen(path string) (store.Rev, error) {
	e := end{have: map[string]bool{}}
	if err := e.addFile(path, true); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	rev, ok := store.JournalRev(e.next)
	if ok && e.next == store.Position(rev, 0) { // no line of rev is written
		rev--
	}
	return max(rev, e.seen), nil
}

// readEnd returns the position at which the audit at path continues. It reads older files only if necessary. isOld means that the audit may be one of schema 4.
func readEnd(path string, isOld bool) (end, error) {
	e := end{have: map[string]bool{}}
	if err := e.addFile(path, isOld); err != nil || e.enough {
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
		if err := e.addFile(name, isOld); err != nil {
			return e, errors.Join(fmt.Errorf("its position in the journal may be in %s, which cannot be read; move that file elsewhere to continue without it", name), err)
		}
	}
	return e, nil
}

// addFile adds to e what the lines of a file say about the position. Call it for the latest file first. isOld means that
// the file may be one of schema 4.
func (e *end) addFile(name string, isOld bool) error {
	next, settled, seen, firstSeen := "", e.settled, e.seen, ^store.Rev(0)
	err := readLines(name, func(text []byte) bool {
		if !bytes.Contains(text, []byte(`"next":"`)) && !(isOld && bytes.Contains(text, []byte(`"settled":`))) {
			return true
		}
		x, ok := decode(text)
		if ok && x.Next != "" {
			next = x.Next
		}
		if ok && x.Settled != nil {
			settled, seen, firstSeen = x.Settled, x.Seen, min(firstSeen, x.Seen)
			for _, id := range x.Journal {
				e.have[id] = true
			}
		}
		return true
	})
	e.next = cmp.Or(e.next, next)
	if e.settled == nil {
		e.settled, e.seen = settled, seen
	}
	if e.settled != nil {
		e.enough = firstSeen <= *e.settled // else earlier lines have entries after settled
	} else {
		e.enough = e.next != ""
	}
	return err
}

// takeOver writes the lines of the journal entries that a program of schema 4 has not written. If
// the process ends meanwhile, the next call continues: the ids of journal entries have the form of
// positions, so e.next shows which entries have a line.
func (l *Log) takeOver(e end) error {
	written := 0
	appended := true
	err := l.store.Read(func(v *store.View) error {
		return v.JournalAfter(*e.settled, func(entry am.JournalEntry) bool {
			rev, n, ok := store.ParsePosition(entry.ID)
			if !ok || e.have[entry.ID] || entry.ID < e.next {
				return true
			}
			x := entryLine(entry)
			x.Next = store.Position(rev, n+1)
			appended = l.append(x.encode())
			written++
			return appended
		})
	})
	switch {
	case err != nil:
		return err
	case !appended:
		return l.err()
	case written > 0:
		l.opt.Log.Warn("lines of the audit were missing and have been written now", "file", l.path, "lines", written)
	}
	return nil
}
