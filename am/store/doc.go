// Package store keeps the records of the aggregate in one bbolt file: slices, slivers,
// requests, tasks and the journal. A change is a Decision: a pure function from a View to a
// ChangeSet. One goroutine, the committer, collects the waiting decisions into a group, one
// caller after the other, and opens one write transaction for the group. Each decision reads
// that transaction, so it sees the accepted changes of those before it; a refused decision
// writes nothing. The committer answers when the transaction is on the disk. If the commit
// fails, nothing has changed and each member of the group gets ErrNotCommitted. It never
// delays a decision so that the group can grow.
//
//	Commit(decision) ─┐  group   ┌─ decide ─> ChangeSet ─> transaction, Observer.Stage
//	Commit(decision) ─┼────────> ┤   …
//	Commit(decision) ─┘          └─ commit ─> Observer.Publish ─> answers
//	                                  └ failed ─> Observer.Rollback ─> ErrNotCommitted
//
// Calls go one way: Store (store.go) → committer (committer.go, queue.go) → database
// (database.go) → reader (reader.go), file.go and pages.go. No transaction of bbolt
// leaves this package. The buckets, changed only together with the number of the schema:
//
//	v1/meta        schema, revision, site, identity of the file
//	v1/slices      slice URN             → am.Slice
//	v1/slivers     sliver URN            → am.Sliver
//	v1/requests    document id           → am.Document
//	v1/tasks       sliver URN            → am.Task
//	v1/journal     revision              → am.JournalEntry
//	v1/events      revision              → Message, until all have taken it; since schema 2
//	v1/by_slice    slice URN, sliver URN → nothing
//	v1/by_expiry   time, sliver URN      → nothing; what may expire
//
// A file that is damaged is refused when it is opened, and stays as it is. Damage that
// shows while the store is open becomes an error that wraps ErrBroken, and then no
// change is accepted until the store is opened again. After a panic inside bbolt the
// file is not used again, since bbolt's locks stay held.
//
// # Decisions
//
//   - copies: the file records its inode and the machine-id. A moved file keeps both; a copy is
//     refused: [ErrCopy].
//   - older schema: it is migrated in one write after a copy to "state.db.schemaN". A refused file
//     is never written: [schemaVersion].
//   - damage at the start: every page and record is checked before bbolt uses the file, because
//     bbolt's own check may crash on a flipped bit: [Check].
//   - damage while open: the store accepts no change until the next start, and still reads what it
//     can: [ErrBroken].
//   - failed commit that may be on the disk: the answer says that it is in doubt, and the store
//     accepts no change until the next start: [ErrInDoubt].
//   - first write: both meta pages are written again and synced at the start, because the newest
//     may be in memory only: [rewriteMetaPages].
//   - fairness: callers take turns, and the decisions of one write take at most 20 ms together:
//     [Store.CommitFor].
//   - address space: the file is mapped with 1 GiB or twice its size, so that no change waits for
//     a long read to end: [minMapSize].
//   - full disk: a served site allocates 64 MiB ahead, so that slivers can be deleted when nodes
//     have filled the disk: [database.takeAhead].
package store
