// Package store keeps the records of the aggregate in one bbolt file: slices,
// slivers, the requests as received, tasks and the journal. A change is a Decision: a
// pure function from a View to a ChangeSet. One goroutine, the committer, takes the
// decisions that wait as a group, callers by turns, and opens one write transaction
// for them. Each decision reads that transaction, so it sees the accepted changes of
// those before it; a refused decision writes nothing. The committer answers when the
// transaction is on the disk. If the commit fails, nothing has changed and each member
// of the group gets ErrNotCommitted. A lone caller waits for nobody.
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
package store
