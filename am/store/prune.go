package store

import (
	"context"
	"time"

	"patchbay/am"
)

// PruneJournal deletes journal entries that are older than cutoff and have the revision upTo or
// an earlier one. It deletes the oldest entries first, and at most limit entries. It returns
// the number of deleted entries. If this number is less than limit, no such entry remains.
// PruneJournal fails with the errors of Commit.
func (s *Store) PruneJournal(ctx context.Context, cutoff time.Time, upTo Rev, limit int) (n int, err error) {
	err = s.Commit(ctx, func(v *View) (cs ChangeSet, err error) {
		n = 0
		err = v.Journal(func(e am.JournalEntry) bool {
			rev, ok := JournalRev(e.ID)
			if n == limit || !ok || rev > upTo || !e.At.Before(cutoff) {
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
