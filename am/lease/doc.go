// Package lease releases slivers inside a decision, for Delete and for leases that
// end. Release takes slivers from their slice; Forget drops the records of slivers
// of which nothing is left, and with the last of them the request documents and
// the slice.
//
//	Release ─┬─ allocated:   nothing was ever made ─────────────> Forget
//	         └─ provisioned: desired absent, a task to remove it ─ … ─> Forget
//
// A released sliver's record stays as the reservation of its component until
// its provider has confirmed that nothing is left; the room that talks to
// providers then calls Forget.
//
// It answers AM API v3, "Delete" and "Sliver allocation states"; it never
// commits, waits or looks at a clock.
package lease
