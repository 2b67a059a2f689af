package audit

import "patchbay/am/store"

// Settled is the revision of the store up to which the line of every journal entry
// is in the file; what is older is not needed to complete the audit.
func (l *Log) Settled() store.Rev {
	l.mu.Lock()
	defer l.mu.Unlock()
	rev := l.settled()
	for _, b := range l.waiting {
		if b.first > 0 {
			rev = min(rev, b.first-1)
		}
	}
	return rev
}
