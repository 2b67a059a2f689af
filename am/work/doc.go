// Package work reconciles slivers with their desired state: tasks, retries and the
// end of leases. Methods of the API write promises into the store, as
// am.Sliver.Desired under a generation and an am.Task; the Runner reads the tasks,
// asks providers what is, asks them for what differs, and writes down what came of
// it.
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
// The package never answers a client and imports no room that does. It answers
// AM API v3, "Sliver operational states", and what the API says of expiry.
//
// # Decisions
//
//   - attempts: 8 to make a sliver; removal is tried forever, at most 5 minutes apart; a missing
//     provider or component counts none: [Limits].
//   - a resource that vanishes: read twice before it is believed; then the sliver has failed and
//     is not made anew, since its data are gone: [judge].
//   - removal: done when get reports absent; if it is only missing in the answer, when the next
//     one lacks it too: [gone].
//   - an error of kind unknown for a whole call: says nothing of a resource; only get for its name
//     frees a component: [judge].
//   - a sliver that cannot be made: failed, and what was made of it is removed; component and
//     record stay until Delete or the end of the lease: [patchbay/am.GoalUndo].
//   - power or users that differ from the desired state: seen twice, repaired at most once an
//     hour, journalled: [driftEvent].
//   - provider of a sliver: the one in its record since binding, because inventories change:
//     [Runner.settlePlaces].
package work
