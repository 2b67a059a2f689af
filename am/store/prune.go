package store

import (
	"context"
	"time"

	"patchbay/am"
)

// PruneJournal deletes at most limit journal entries, the oldest first, until it finds one that is not
// older than cutoff. An older one may follow, since the times of entries differ from their order by the
// duration of a decision at most. PruneJournal fails with the errors of Commit.
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
