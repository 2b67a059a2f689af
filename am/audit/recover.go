package audit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"patchbay/am"
	"patchbay/am/store"
)

// recover writes the lines of journal entries that have none: a crash came
// between the change and its line. An audit without a mark is new, and begins
// where the journal is now.
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
			l.opt.Log.Warn("the store is older than the audit, as if it were another one or had been restored from a backup; the audit goes on from what it says now",
				"file", l.path)
		}
		l.seen = top
		return l.begin(Mark{top, top})
	}
	l.seen = top
	if err := l.begin(Mark{t.Settled, top}); err != nil {
		return err
	}
	recovered := 0
	for to, more := t.Settled, true; more; {
		var missing []am.JournalEntry
		if missing, to, more, err = l.missing(to, t.have); err != nil {
			return err
		}
		l.stuck = 0
		if more {
			l.stuck = to + 1
		}
		for _, e := range missing {
			x := entryLine(e)
			x.Recovered = true
			l.write(x)
		}
		recovered += len(missing)
	}
	if recovered > 0 {
		l.opt.Log.Warn("lines of the audit were missing and have been written now", "file", l.path, "lines", recovered)
	}
	return nil
}

// atOnce is about how many journal entries are read at once.
var atOnce = 4096

// missing are the journal entries after revision from that have no line, up to the
// revision to; more says that others follow.
func (l *Log) missing(from store.Rev, have map[string]bool) (list []am.JournalEntry, to store.Rev, more bool, err error) {
	to = from
	n := 0
	err = l.store.Read(func(v *store.View) error {
		return v.JournalAfter(from, func(e am.JournalEntry) bool {
			rev, ok := store.JournalRev(e.ID)
			if !ok {
				return true
			}
			if n >= atOnce && rev > to {
				more = true
				return false
			}
			n++
			to = rev
			if !have[e.ID] {
				l.pending[e.ID] = rev
				list = append(list, e)
			}
			return true
		})
	})
	return list, to, more, err
}

// tail is what the end of an audit tells.
type tail struct {
	found bool
	Mark
	// have are the journal entries beyond settled that have a line.
	have map[string]bool
	// enough says that earlier lines tell nothing more.
	enough bool
}

func (t *tail) take(x *Line) {
	for _, id := range x.Journal {
		if rev, ok := store.JournalRev(id); ok && rev > t.Settled {
			t.have[id] = true
		}
	}
	t.enough = t.enough || x.Seen <= t.Settled
}

// readTail reads the audit in the file path, and what was moved away from there if it
// must.
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
			return t, errors.Join(fmt.Errorf("where it stands would have to be read from %s; move that file elsewhere to go on without", name), err)
		}
	}
	return t, nil
}

// addFile takes in a file; the latest comes first.
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
	return marks(t.take)
}
