// Package store keeps the records of the aggregate in one bbolt file: slices,
// slivers, requests, tasks and the journal. A change is a Decision: a pure
// function from a View to a ChangeSet. One goroutine, the committer, collects the
// waiting changes into a group, in which callers take turns, and writes the group in
// one transaction. A decision of Commit reads that transaction, so it sees the
// accepted changes of the earlier ones; a decision that fails writes nothing.
// The committer answers all callers when the transaction is on the disk. If the commit
// fails, each caller gets ErrNotCommitted, and nothing has changed unless the error also
// wraps ErrInDoubt. If only one caller commits, its change is written at once.
//
//	Commit(decision) ─────────────────────────┐  group   ┌─ decide ─> ChangeSet ─> transaction
//	Commit(decision) ─────────────────────────┼────────> ┤   …
//	CommitFor(decision) ─> prepare, on a view ┘          └─ commit ─> answers
//	                       ^                                  ├ failed ─> ErrNotCommitted
//	                       └──────────────────────────────────┴ what it has read changed, if it is long
//
// A decision of CommitFor has run before on a view, unless the caller says that it is short. It runs
// again only if what it has read has changed.
//
// Calls go one way: Store (store.go) → committer (committer.go, queue.go) → database
// (database.go) → reader (reader.go), file.go and pages.go. Decisions of CommitFor run in
// prepare.go, calendar.go has the calendar, and changes.go what followers read. No transaction
// of bbolt leaves this package. The buckets, changed only together with the number of the schema:
//
//	v1/meta        schema, revision, site, identity of the file
//	v1/slices      slice URN             → am.Slice
//	v1/slivers     sliver URN            → am.Sliver
//	v1/requests    document id           → am.Document
//	v1/tasks       sliver URN            → am.Task
//	v1/journal     revision              → am.JournalEntry
//	v1/changes     revision              → Change, until all followers have read it; since schema 5
//	v1/cursors     follower              → Cursor; since schema 5
//	v1/calendar    component, start, sliver → am.Hold; since schema 3
//	v1/components  component URN         → am.FoundComponent; since schema 3
//	v1/by_slice    slice URN, sliver URN → nothing
//	v1/by_expiry   time, sliver URN      → nothing; only slivers with a running lease
//
// Open refuses a damaged file and does not change it. Damage that is found while the store
// is open is returned as an error that wraps ErrBroken. From then on the store accepts no
// change until it is opened again. After a panic inside bbolt the store does not use the
// file again, since bbolt's locks stay held.
//
// # Decisions
//
//   - followers: audit and hooks read the changes, each from its own cursor. So one record of a
//     change serves all of them, in the transaction of the change: [Change].
//   - follower that does not read: beyond 100,000 changes or 7 days the oldest are deleted, and a
//     gap is left in their place: [Store.PruneChanges].
//   - copies: the store records the inode of its file and the machine-id. A moved file keeps both;
//     Open refuses a copy: [ErrCopy].
//   - older schema: it is migrated in one write after a copy to "state.db.schemaN". A refused file
//     is never written: [schemaVersion].
//   - damage at the start: every page and record is checked before bbolt uses the file, because
//     bbolt's own check may crash on a flipped bit: [Check].
//   - damage while open: the store accepts no change until the next start, and can still read the
//     records that are not damaged: [ErrBroken].
//   - failed commit that may be on the disk: the answer says that it is in doubt, and the store
//     accepts no change until the next start: [ErrInDoubt].
//   - first write: both meta pages are written again and synced at the start, because the newer
//     one may be in memory only: [rewriteMetaPages].
//   - fairness: callers take turns. When the decisions of a write have taken 20 ms together, the
//     others wait for the next write: [Options].
//   - long decisions: those of callers run on a view. The commit checks the keys, ranges and entries of
//     the calendar that they have read against the operations of the latest revisions: [Store.CommitFor].
//   - address space: the file is mapped with 1 GiB or twice its size, so that no change waits for
//     a long read to end: [minMapSize].
//   - full disk: the server allocates 64 MiB beyond the file's size, so that slivers can still be
//     deleted after nodes have filled the disk: [database.preallocate].
package store
