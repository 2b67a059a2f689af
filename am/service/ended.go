package service

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// errNoSlivers is in the refusal of a slice that has no slivers; see withHistory.
var errNoSlivers = errors.New("the slice has no slivers")

// journalLook is how many entries of the journal are read for the ends of slices, the
// latest first.
const journalLook = 20_000

// endings are what became of the last slivers of slices, by the slice's key. Each entry
// of the journal is read once, so that calls about slices without slivers cost little,
// however many a client makes.
type endings struct {
	mu   sync.Mutex
	upTo store.Rev // the journal is read up to here
	read bool      // it was read at all
	of   map[string]string
}

// last says what became of the last slivers of a slice, as far as the journal that a view
// shows tells; empty if it tells nothing.
func (n *endings) last(v *store.View, slice urn.URN) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.read || len(n.of) > 2*journalLook {
		n.of = map[string]string{}
		left := journalLook
		err := v.JournalBackwards(func(e am.JournalEntry) bool {
			n.add(&e, false)
			left--
			return left > 0
		})
		n.read, n.upTo = err == nil, v.Revision()
		return n.of[slice.Key()], err
	}
	now := v.Revision()
	if now <= n.upTo {
		return n.of[slice.Key()], nil
	}
	err := v.JournalAfter(n.upTo, func(e am.JournalEntry) bool { n.add(&e, true); return true })
	if n.read = err == nil; n.read {
		n.upTo = now
	}
	return n.of[slice.Key()], err
}

// add keeps what an entry tells, if it is about an end and newer than what is known.
func (n *endings) add(e *am.JournalEntry, newer bool) {
	slice := e.Slice.Key()
	if text := endOf(e); text != "" && (newer || n.of[slice] == "") {
		n.of[slice] = text
	}
}

// endOf says what an entry of the journal tells of the end of slivers; empty if it is
// about something else.
func endOf(e *am.JournalEntry) string {
	at, nodes := e.At.UTC().Format(time.RFC3339), nodesAre(len(e.Slivers), "was", "were")
	switch {
	case e.Event == string(am.EventExpire):
		return fmt.Sprintf(" any more: its lease was over, and its %s released at %s", nodes, at)
	case e.Event != string(am.EventDelete):
		return ""
	case e.Operator == "":
		return fmt.Sprintf(" any more: its %s deleted by %s at %s", nodes, e.Caller, at)
	case e.Text == "":
		return fmt.Sprintf(" any more: its %s released by an operator of this aggregate at %s", nodes, at)
	}
	return fmt.Sprintf(" any more: its %s released by an operator of this aggregate at %s: %s", nodes, at, e.Text)
}

// noSlivers returns the refusal of a slice without slivers.
func noSlivers(slice urn.URN) error {
	return &am.Error{Code: am.SearchFailed, URN: slice, Msg: fmt.Sprintf("slice %s has no slivers at this aggregate", slice), Err: errNoSlivers}
}

// withHistory adds to the refusal of a slice without slivers how its last slivers ended.
// It returns other errors unchanged. It reads the store, so call it outside of decisions.
// Only callers with a right to the slice get that refusal.
func (s *Service) withHistory(err error) error {
	refusal, ok := errors.AsType[*am.Error](err)
	if !ok || !errors.Is(err, errNoSlivers) {
		return err
	}
	full := *refusal
	failed := s.cfg.Store.Read(func(v *store.View) error {
		history, err := s.endings.lastOf(v, full.URN)
		full.Msg += history
		return err
	})
	if failed != nil {
		return err // which is right without the history, too
	}
	return &full
}

// lastOf says how the last slivers of a slice without slivers ended.
func (n *endings) lastOf(v *store.View, slice urn.URN) (string, error) {
	all, err := v.SliversOf(slice)
	if err != nil {
		return "", err
	}
	over, end := 0, time.Time{}
	for _, x := range all {
		if x.Status.Allocation != am.Unallocated { // not ended yet
			over++
			if x.Expires.After(end) {
				end = x.Expires
			}
		}
	}
	if over > 0 {
		return fmt.Sprintf(" any more: its lease ended at %s, and its %s released", end.UTC().Format(time.RFC3339), nodesAre(over, "is", "are")), nil
	}
	text, err := n.last(v, slice)
	return cmp.Or(text, ": no reservation for it is on record"), err
}

// nodesAre returns "node was" or "3 nodes were".
func nodesAre(n int, one, several string) string {
	if n == 1 {
		return "node " + one
	}
	return fmt.Sprintf("%d nodes %s", n, several)
}
