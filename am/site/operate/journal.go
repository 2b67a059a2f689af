package operate

import (
	"cmp"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/store"
)

// clockMargin is how far the times of entries may go back, in the order of the journal.
const clockMargin = time.Hour

// Journal lists entries of the journal, oldest first; with a limit, only the latest entries.
// Journal fails like Slices.
func (d *Operations) Journal(f Filter, row func(Entry) error) error {
	w := d.parseFilter(f)
	p := &page[Entry]{row: row}
	return d.cfg.Store.Read(func(v *store.View) error {
		if f.Limit == 0 {
			err := v.Journal(func(e am.JournalEntry) bool { return !w.matchesEntry(&e) || p.add(entryRow(&e)) })
			return cmp.Or(p.err, err)
		}
		var last []am.JournalEntry
		err := v.JournalBackwards(func(e am.JournalEntry) bool {
			if w.matchesEntry(&e) {
				last = append(last, e)
			}
			return len(last) < f.Limit && !e.At.Before(w.Since.Add(-clockMargin))
		})
		for _, e := range slices.Backward(last) {
			if err != nil || !p.add(entryRow(&e)) {
				break
			}
		}
		return cmp.Or(p.err, err)
	})
}

// matchesEntry reports whether the filter selects an entry. The filter's user applies to the
// caller, the speaker and the operator, and the filter's state to the event.
func (w *parsedFilter) matchesEntry(e *am.JournalEntry) bool {
	first := e.At
	if !e.Since.IsZero() {
		first = e.Since
	}
	return !e.At.Before(w.Since) && (w.Until.IsZero() || first.Before(w.Until)) &&
		(w.slice.matchAll() || w.slice.matchURN(e.Slice)) &&
		(w.state.matchAll() || w.state.matchName(e.Event)) &&
		(w.user.matchAll() || w.user.matchURN(e.Caller) || w.user.matchURN(e.Speaker) || w.user.matchName(e.Operator)) &&
		(w.sliver.matchAll() || slices.ContainsFunc(e.Slivers, w.sliver.matchURN))
}

func entryRow(e *am.JournalEntry) Entry {
	return Entry{
		ID: e.ID, At: e.At, Event: e.Event, Caller: e.Caller, Speaker: e.Speaker, Operator: e.Operator, Slice: e.Slice, Slivers: e.Slivers,
		Text: e.Text, Method: e.Method, API: e.API, Remote: e.Remote, Request: e.Request, Times: e.Times, Since: e.Since,
	}
}
