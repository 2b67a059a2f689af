// Package operate lists what a site holds, and carries out the commands of its
// operators. Operations lists slices, slivers, nodes, tasks, the journal and
// node-hours, and releases, renews, shuts down and thaws:
//
//	command ── query ──> Endpoints ──> Operations ── one view ─────> store
//	        <─ rows, a JSON object a line ─┘
//	command ── order ──> Endpoints ──> Operations ── one decision ─> store
//
// A list comes from one consistent view. It is made in memory before it is sent, so a slow
// reader holds no transaction of the store. The number of lists at one time and their
// length are limited. An order changes all its slivers or none. The journal records it with
// the name of the operator. A refusal says what to do.
//
// Operators need no credential. The same code runs in the served site, behind its socket,
// and in a command that opens the store of a site that is not served.
//
// The package lifts the shutdown of a slice, which AM API v3, "Shutdown", leaves to
// operators. It never calls a provider.
//
// # Decisions
//
//   - commands: a command changes all its slivers or none, in one decision, and the journal names
//     the operator: [Release].
//   - lists: a list is made in memory, up to 64 MiB, and then sent, so that a slow reader does not
//     hold a transaction: [maxList].
package operate
