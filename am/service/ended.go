package service

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// errNoSlivers is wrapped by the error of noSlivers; see withHistory.
var errNoSlivers = errors.New("the slice has no slivers")

// maxJournalRead is the number of entries that endings reads the first time, the newest ones.
const maxJournalRead = 20_000

// endings caches texts about the end of each slice's last slivers. It reads each journal entry
// once, so frequent calls about slices without slivers cause little work.
type endings struct {
	mu     sync.Mutex
	upTo   store.Rev         // the revision of the newest journal entry that was read
	isRead bool              // upTo and texts are valid
	texts  map[string]string // by the slice's key
}

// fromJournal returns the text about the end of the slice's last slivers; "" if no entry that it has read is about
// one. It first reads the entries since its last call.
func (n *endings) fromJournal(v *store.View, slice urn.URN) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.isRead || len(n.texts) > 2*maxJournalRead {
		n.texts = map[string]string{}
		left := maxJournalRead
		err := v.JournalBackwards(func(e am.JournalEntry) bool {
			n.add(&e, false)
			left--
			return left > 0
		})
		n.isRead, n.upTo = err == nil, v.Revision()
		return n.texts[slice.Key()], err
	}
	now := v.Revision()
	if now <= n.upTo {
		return n.texts[slice.Key()], nil
	}
	err := v.JournalAfter(n.upTo, func(e am.JournalEntry) bool { n.add(&e, true); return true })
	if n.isRead = err == nil; n.isRead {
		n.upTo = now
	}
	return n.texts[slice.Key()], err
}

// add stores the text of an entry that ended slivers. newer means that the entry is newer than
// all entries that were added before. An entry that is not newer replaces no text.
func (n *endings) add(e *am.JournalEntry, newer bool) {
	slice := e.Slice.Key()
	if text := endText(e); text != "" && (newer || n.texts[slice] == "") {
		n.texts[slice] = text
	}
}

// endText continues a message like "slice X has no slivers". It returns "" if the entry is not
// about the end of slivers.
func endText(e *am.JournalEntry) string {
	at, nodes := e.At.UTC().Format(time.RFC3339), nodesWithVerb(len(e.Slivers), "was", "were")
	switch {
	case e.Event == lease.EventNoShow:
		return fmt.Sprintf(" any more: its reservation began and was not provisioned in time, and its %s released at %s", nodes, at)
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

func noSlivers(slice urn.URN) error {
	return &am.Error{Code: am.SearchFailed, URN: slice, Msg: fmt.Sprintf("slice %s has no slivers at this aggregate", slice), Err: errNoSlivers}
}

// withHistory adds a text about the end of the slice's last slivers to an error of noSlivers. It
// returns other errors unchanged. It reads the store, so call it outside of decisions. Only
// callers with a right to the slice get an error of noSlivers, so the text reveals nothing to
// other callers.
func (s *Service) withHistory(err error) error {
	refusal, ok := errors.AsType[*am.Error](err)
	if !ok || !errors.Is(err, errNoSlivers) {
		return err
	}
	full := *refusal
	failed := s.cfg.Store.Read(func(v *store.View) error {
		history, err := s.endings.describe(v, full.URN)
		full.Msg += history
		return err
	})
	if failed != nil {
		return err // correct even without the history
	}
	return &full
}

// describe returns the text about the end of a slice that has no live slivers. If slivers have expired and are not released yet,
// the text is about them. Otherwise it comes from the journal.
func (n *endings) describe(v *store.View, slice urn.URN) (string, error) {
	all, err := v.SliversOf(slice)
	if err != nil {
		return "", err
	}
	over, end := 0, time.Time{}
	for _, x := range all {
		if x.Status.Allocation != am.Unallocated { // not ended yet
			over++
			if at := x.ReleaseTime(); at.After(end) {
				end = at
			}
		}
	}
	if over > 0 {
		return fmt.Sprintf(" any more: its lease ended at %s, and its %s released", end.UTC().Format(time.RFC3339), nodesWithVerb(over, "is", "are")), nil
	}
	text, err := n.fromJournal(v, slice)
	return cmp.Or(text, ": no reservation for it is on record"), err
}

// nodesWithVerb returns a subject and verb such as "3 nodes were"; for one node "node was".
func nodesWithVerb(n int, singular, plural string) string {
	if n == 1 {
		return "node " + singular
	}
	return fmt.Sprintf("%d nodes %s", n, plural)
}
