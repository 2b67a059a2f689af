package store

import (
	"context"
	"time"

	"patchbay/am"
)

// PruneJournal deletes at most limit journal entries, the oldest first. It deletes only entries
// that are older than cutoff. If it deletes fewer than limit entries, no such entry remains. It
// fails with the errors of Commit.
func (s *Store) PruneJournal(ctx context.Context, cutoff time.Time, limit int) (n int, err error) {
	err = s.Commit(ctx, func(v *View) (cs ChangeSet, err error) {
		n = 0
		err = v.Journal(func(e am.JournalEntry) bool {
			if n == limit || !e.At.Before(cutoff) {
				return false
			}
			cs.Remove(Key{Journal, e.ID})
			n++
			return true
		})
		return cs, err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
