// Package work reconciles slivers with their desired state: tasks, retries and the
// end of leases. Methods of the API write the desired state into the store:
// am.Sliver.Desired with a new generation, and an am.Task. The Runner reads the tasks,
// reads resources from providers, sets the attributes that differ, and records the
// result.
//
//	store ── tasks ──> scan ──> job ──┬─> get ──> judge ───────┬─ done, giveUp, lost, gone ──> record
//	                            ^     │                        ├─ wait, retry ──────────> get, later
//	                            │     └── set <── needSet ─────┘                               │
//	                            └──────────────────────────────────────────────────────────────┘
//	store ── leases ─> expire ── lease.Release ─> store
//	store ── starts ─> expire ── Config.Begin ──> store
//	store ── slivers > sweep ─── get ── lost, drifted ─> store
//	store ── slivers > plans ─── next stage, or why none begins ─> store
//	providers ─────> watch orphans ─ get of all ─ without a record ─> log, removed
//	providers ─────> poll ─────── get of nothing ─── no answer ─> log, Polled
//
// In loop.go are scan and the dispatch of jobs to providers, in queue.go the choice of the next calls, in
// call.go get and set, in judge.go the verdicts, and in record.go the results. Files named expiry.go,
// sweep.go, plan.go, orphans.go and poll.go have the other lines.
//
// A sliver belongs to the provider that its record names, even if the inventory later
// names another one. If a sliver cannot be created, the runner removes its remains and
// keeps its record. A sliver that fails later keeps its node. A component is free again
// only when its provider has reported that nothing is left.
//
// All state that must not be lost is in the store. The state in memory only saves time,
// so the runner may be stopped at any point and started again. The runner reads a
// resource with a get before it changes the resource with a set. A result counts only
// while its generation is the current one. No decision waits for a provider.
//
// One resource is in at most one set at a time, and a set holds resources of one slice.
// A provider has one worker for each set that it accepts at once. Sets that remove
// resources go first. After a set that fails or does not end, its resources are read
// again. Each of them then gets a set of its own, in all workers except one, so that one
// bad node does not stop the others. While a set of several resources takes long, the
// resources are polled, and results are recorded before the set ends. The next get does
// not wait for the end of a slow one.
//
// The package never answers a client and imports no package that does. It implements
// AM API v3, "Sliver operational states", and the rules of the API about expiry.
//
// # Decisions
//
//   - attempts: a task gets 8. A removal is tried forever, with waits of at most 5 minutes. While
//     a provider or component is missing, no attempts are counted: [Limits].
//   - vanished resource: two reads must agree. Then the sliver has failed. Its resource is not
//     created again, because its data are lost: [judge].
//   - end of a removal: a get reports the resource as absent, or the answers of two gets in a row
//     do not contain the resource: [gone].
//   - error of kind "unknown" for a whole call: it does not say which resource is unknown. So a
//     component becomes free only after a get of its resource alone: [judge].
//   - sliver whose resource cannot be created: it has failed, and the remains of the resource are
//     removed. The record holds the component until Delete or the end of the lease:
//     [patchbay/am.GoalUndo].
//   - drift of power or users: after two equal reads it is repaired, at most once an hour, and
//     journalled: [driftEvent].
//   - capabilities of a node that holds its component exclusively: they belong to the component,
//     and stay after the node is gone: [recordFound].
//   - plan of a setup: it belongs to one request document, and is computed from the records of its
//     slivers after each change and once a second, so no event can be missed:
//     [patchbay/am.PlanOf].
//   - command in the foreground of stage 0: the stage has ended when the provider says ready, because
//     a server may run forever: [patchbay/am.Sliver.StageEnded].
//   - provider of a sliver: the one in its record, because inventories change:
//     [Runner.recordPlaces].
package work
