// Package service implements the methods of the aggregate manager in Go terms. Each
// method takes a Grant, decides on the store's data, commits, and returns an Outcome.
//
// A method stores the desired state of slivers (Desired, Generation) and a task, and
// wakes the runner. The runner stores the results, and Status and Describe read only the
// store. A method never waits for a provider, with one exception: a provider may want a
// dry run before a reservation (Prober). A decision never waits.
//
//	Grant, Targets ─ resolve ─> slivers ─ am.Next, binder.Bind ─> ChangeSet ─> Commit ─> Outcome
//
// SetInventory replaces the inventory between two decisions, so each decision sees one
// inventory. The record of a sliver keeps what was reserved, even if the inventory
// changes later.
//
// No method acts on a sliver before Grant.Over has confirmed the right to its slice;
// most do this in resolve. A file holds one method, or two similar ones. The package
// implements AM API v3, "API operations".
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
