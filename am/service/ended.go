package service

import (
	"errors"
	"fmt"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// errNoSlivers is in the refusal of a slice that has no slivers; see withHistory.
var errNoSlivers = errors.New("the slice has no slivers")

// journalLook is how many of the latest journal entries are searched for the history of a
// slice, which takes some milliseconds.
const journalLook = 20_000

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
		history, err := lastOf(v, full.URN)
		full.Msg += history
		return err
	})
	if failed != nil {
		return err // which is right without the history, too
	}
	return &full
}

// lastOf says how the last slivers of a slice without slivers ended.
func lastOf(v *store.View, slice urn.URN) (string, error) {
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
	text := ": no reservation for it is on record"
	err = v.JournalOf(slice, journalLook, func(e am.JournalEntry) bool {
		at, nodes := e.At.UTC().Format(time.RFC3339), nodesAre(len(e.Slivers), "was", "were")
		switch {
		case e.Event == string(am.EventExpire):
			text = fmt.Sprintf(" any more: its lease was over, and its %s released at %s", nodes, at)
		case e.Event != string(am.EventDelete):
			return true
		case e.Operator != "":
			text = fmt.Sprintf(" any more: its %s released by an operator of this aggregate at %s", nodes, at)
			if e.Text != "" {
				text += ": " + e.Text
			}
		default:
			text = fmt.Sprintf(" any more: its %s deleted by %s at %s", nodes, e.Caller, at)
		}
		return false
	})
	return text, err
}

// nodesAre returns "node was" or "3 nodes were".
func nodesAre(n int, one, several string) string {
	if n == 1 {
		return "node " + one
	}
	return fmt.Sprintf("%d nodes %s", n, several)
}
