package site

import (
	"context"
	"errors"
	"time"

	"patchbay/am/store"
)

const (
	// pruneEvery is how often the journal is looked at for entries that are old.
	pruneEvery = time.Hour
	// pruneBatch is how many of them one change forgets, and pruneRest the time
	// between two, so that calls do not wait for it.
	pruneBatch = 256
	pruneRest  = 100 * time.Millisecond
)

// pruneJournal forgets entries of the journal that are older than journal_keep and
// whose lines the audit has, until ctx ends.
func (s *Site) pruneJournal(ctx context.Context) {
	if s.config.JournalKeep == 0 {
		return
	}
	for {
		s.pruneOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pruneEvery):
		}
	}
}

func (s *Site) pruneOnce(ctx context.Context) {
	forgotten := 0
	for {
		n, err := s.store.PruneJournal(ctx, s.store.Now().Add(-s.config.JournalKeep), s.audit.Settled(), pruneBatch)
		forgotten += n
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			s.log.Warn("old entries of the journal cannot be removed; they stay until the next hour", "error", err)
		}
		if n < pruneBatch {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(pruneRest):
		}
	}
	if forgotten > 0 {
		s.log.Info("old entries of the journal were removed", "entries", forgotten, "journal_keep", s.config.JournalKeep)
	}
}
