// Package lease releases slivers inside a decision, for Delete and for leases that
// end. Release takes slivers from their slice; Forget drops the records of slivers
// of which nothing is left, and with the last of them the request documents and
// the slice.
//
//	Release ─┬─ allocated:   nothing was ever made ─────────────> Forget
//	         └─ provisioned: desired absent, a task to remove it ─ … ─> Forget
//
// A released sliver's record keeps its component reserved until the provider has
// confirmed that nothing is left. Then package work calls Forget.
//
// The package implements AM API v3, "Delete" and "Sliver allocation states". It never
// commits, waits or reads a clock.
package lease
