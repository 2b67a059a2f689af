// Package work reconciles slivers with their desired state: tasks, retries and the
// end of leases. Methods of the API write the desired state into the store, as
// am.Sliver.Desired under a generation and an am.Task; the Runner reads the tasks,
// reads resources from providers, sets what differs, and records the
// result.
//
//	store ── tasks ──> scan ──> job ──┬─> look (get) ─> judge ─┬─ done, gave up, lost, gone ─> record
//	                            ^     │                        ├─ wait, retry ──────────> look, later
//	                            │     └── apply (set) <─ ask ──┘                               │
//	                            └──────────────────────────────────────────────────────────────┘
//	store ── leases ─> expire ── lease.Release ─> store
//	store ── slivers > sweep ─── get ── lost, drifted ─> store
//	providers ─────> watch orphans ─ get of all ─ without a record ─> log, removed
//	providers ─────> poll ─────── get of nothing ─── no answer ─> log, Polled
//
// A sliver belongs to the provider that its record names, whatever the inventory says
// later. What was made of one that is given up is undone, while its record stays; one
// that fails later keeps its node. A component is free again when its provider has said
// that nothing is left, and never before.
//
// All that must not be forgotten is in the store: what the runner keeps in
// memory only saves time, so it may be stopped at any line and started again.
// A provider is asked what is before it is asked for anything, a result counts
// only while the generation it was for is the current one, and no decision
// waits for a provider.
//
// One resource is in at most one set at a time, and a set holds resources of one slice.
// A provider has as many workers as it takes sets at once, and deletes go first. A set
// that dies or does not end is read back, and its resources are tried one by one, in all
// workers but one, so that one bad node stops nobody else. While a set of several takes
// long, a get looks at them: what has settled is recorded before the set ends. A get
// that takes long goes on beside the next.
//
// The package never answers a client and imports no package that does. It answers
// AM API v3, "Sliver operational states", and what the API says of expiry.
//
// # Decisions
//
//   - attempts: a sliver gets 8; a removal is tried forever, at most 5 minutes apart. A missing
//     provider or component counts as no attempt: [Limits].
//   - vanished resource: two reads must agree. Then the sliver has failed, and it is not made
//     again, because its data are gone: [judge].
//   - end of a removal: get reports absent, or two answers in a row lack the resource: [gone].
//   - error of kind unknown for a whole call: it says nothing of a single resource, so only get
//     for its name frees the component: [judge].
//   - sliver that cannot be made: it has failed, and its remains are removed. Its record holds the
//     component until Delete or the end of the lease: [patchbay/am.GoalUndo].
//   - drift of power or users: after two equal reads it is repaired, at most once an hour, and
//     journalled: [driftEvent].
//   - provider of a sliver: the one in its record, because inventories change:
//     [Runner.recordPlaces].
package work
