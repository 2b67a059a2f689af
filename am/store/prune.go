package store

import (
	"context"
	"time"

	"patchbay/am"
)

// PruneJournal deletes journal entries that were written before the time before and in the
// revision upTo or an earlier one: the oldest first, at most limit. It returns the number
// of deleted entries; less than limit means that no such entry remains. Its errors are
// those of Commit.
func (s *Store) PruneJournal(ctx context.Context, before time.Time, upTo Rev, limit int) (n int, err error) {
	err = s.Commit(ctx, func(v *View) (cs ChangeSet, err error) {
		n = 0
		err = v.Journal(func(e am.JournalEntry) bool {
			rev, ok := JournalRev(e.ID)
			if n == limit || !ok || rev > upTo || !e.At.Before(before) {
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
