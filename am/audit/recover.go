package audit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"patchbay/am"
	"patchbay/am/store"
)

// recover writes missing lines: a crash can happen after a change was stored and before its
// line was written. An audit without a mark is new, and begins at the journal's current
// revision.
func (l *Log) recover() error {
	var top store.Rev
	if err := l.store.Read(func(v *store.View) error { top = v.Revision(); return nil }); err != nil {
		return err
	}
	t, err := readTail(l.path)
	if err != nil {
		return err
	}
	if !t.found || t.Seen > top {
		if t.found {
			l.opt.Log.Warn("the store is older than the audit, as after a restore from a backup; the audit continues from the store's current state",
				"file", l.path)
		}
		l.seen = top
		return l.begin(Mark{top, top})
	}
	l.seen = top
	if err := l.begin(Mark{t.Settled, top}); err != nil {
		return err
	}
	n := 0
	var last *am.JournalEntry // written after the next entry became pending, so that its mark does not cover the next entry
	write := func() {
		x := entryLine(*last)
		x.Recovered = true
		l.write(x)
		n++
	}
	err = l.store.Read(func(v *store.View) error {
		return v.JournalAfter(t.Settled, func(e am.JournalEntry) bool {
			if rev, ok := store.JournalRev(e.ID); ok && !t.have[e.ID] {
				l.pending[e.ID] = rev
				if last != nil {
					write()
				}
				last = &e
			}
			return true
		})
	})
	if last == nil || err != nil {
		return err
	}
	write()
	l.opt.Log.Warn("lines of the audit were missing and have been written now", "file", l.path, "lines", n)
	return nil
}

type tail struct {
	found bool
	Mark
	// have contains the journal entries after Settled that have a line.
	have map[string]bool
	// enough means that earlier lines are not needed.
	enough bool
}

func (t *tail) addLine(x *Line) {
	for _, id := range x.Journal {
		if rev, ok := store.JournalRev(id); ok && rev > t.Settled {
			t.have[id] = true
		}
	}
	t.enough = t.enough || x.Seen <= t.Settled
}

// readTail reads older files only if necessary.
func readTail(path string) (tail, error) {
	t := tail{have: map[string]bool{}}
	if err := t.addFile(path); err != nil || t.enough {
		return t, err
	}
	files, err := Files(path)
	if err != nil {
		return t, err
	}
	for _, name := range slices.Backward(files) {
		if name == path || t.enough {
			continue
		}
		if err := t.addFile(name); err != nil {
			return t, errors.Join(fmt.Errorf("its position in the journal may be in %s, which cannot be read; move that file elsewhere to continue without it", name), err)
		}
	}
	return t, nil
}

// addFile must be called for the latest file first.
func (t *tail) addFile(name string) error {
	marks := func(f func(*Line)) error {
		return readLines(name, func(text []byte) bool {
			if bytes.Contains(text, []byte(`"settled":`)) {
				if x, ok := decode(text); ok && x.Mark != nil {
					f(&x)
				}
			}
			return true
		})
	}
	if !t.found {
		err := marks(func(x *Line) { t.found, t.Mark = true, *x.Mark })
		if err != nil || !t.found {
			return err
		}
	}
	return marks(t.addLine)
}
