// Package store keeps what the aggregate has promised: slices, slivers, the
// requests as received, tasks and the journal. A change is a decision: a pure
// function from a View to a ChangeSet. One committer runs decisions, callers by turns,
// each seeing what the earlier ones of its group have staged, writes the group
// in one transaction, and only then answers. Acknowledged means durable; a
// refused decision contributes nothing; a failed write undoes its whole group.
//
//	Commit(decision) ─┐                 ┌─ ChangeSet ─> overlay, Observer.Stage
//	Commit(decision) ─┼─> committer ────┤   …
//	Commit(decision) ─┘   (one group)   └─> Engine.Apply ─> Observer.Publish ─> answers
//	                                              └ failed ─> Observer.Rollback ─> ErrNotCommitted
//
// The engine is bbolt behind a narrow door (see Engine); no transaction of it
// leaves this package, so a replicated engine can stand there later. The bucket
// tree, changed only together with a numbered migration:
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
// It never talks to a provider, a client or a clock of its own.
package store
