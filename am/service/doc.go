// Package service is the aggregate manager's methods in Go terms: each takes a
// Grant, decides over the store, commits, and renders what came out of it.
//
// A method does not wait for a provider, but where one wants to be asked before
// something is promised (Prober); a decision never does. A method writes what is
// promised (a sliver's Desired, its Generation) and a task, and wakes the runner;
// what is seen of the work later appears in the store, which is all that Status
// and Describe read.
//
//	Grant, Targets ─ resolve ─> slivers ─ am.Next, binder.Bind ─> ChangeSet ─> Commit ─> Outcome
//
// The inventory may be changed while all goes on (SetInventory): between two
// decisions, so that each sees one. A sliver's own record tells what was promised,
// whatever the inventory says later.
//
// No method acts on a sliver before it has asked Grant.Over for the slice;
// resolve is where most do. A file holds one method, or two that are alike. It answers AM API v3,
// "API operations".
package service
