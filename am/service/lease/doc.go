// Package lease computes the changes to the database that release slivers, for Delete
// and for leases that end. Release takes slivers from their slice. Forget deletes the
// records of slivers that have no resource left. With the last sliver it also deletes
// the request documents and the slice, unless the slice has definitions that last.
//
//	Release ─┬─ allocated:   no resource was created ─────────────> Forget
//	         └─ provisioned: desired absent, a task to remove it ─ … ─> Forget
//
// A released sliver's record keeps its component reserved until the provider has
// confirmed that no resource is left. Then package work calls Forget.
//
// Begin, Mover and Displaced are for slivers that were reserved for later: their start, other components
// for them, and those that a longer lease displaces.
//
// The package implements AM API v3, "Delete" and "Sliver allocation states". It never
// commits, waits or reads a clock.
//
// # Decisions
//
//   - components that cannot be used at the start: a sliver whose user did not ask for its component, and that has no
//     links, gets an equal one; another waits, and its deadline moves: [Mover].
//   - reservations that nobody uses: they are released at their deadline, without a penalty: [EventNoShow].
package lease
