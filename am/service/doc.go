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
//
// # Decisions
//
//   - memory of parsed requests: one budget; one caller gets at most a part of it, and beyond it
//     the call is SERVERBUSY before anything changes: [Memory].
//   - requests of one slice: bounded together like one request, so that Describe can always
//     answer: [Service.ManifestOf].
//   - a large slice: its decision runs on a read view first, so that a refusal takes no time of
//     the committer: [largeSlice].
//   - keys of accounts: at most 4 MiB over a slice, because every record and manifest repeats
//     them: [maxKeyBytes].
//   - renewals that repeat each other: one journal entry with their count; each has its line in
//     the audit: [joinRepeated].
//   - more held than a new inventory has: slivers stay, and nothing new is placed until it fits:
//     [Service.SetInventory].
//   - a component under live slivers: start and reload refuse to give its name to another
//     component, since providers know machines by name: [patchbay/inventory.Clash].
package service
