// Package operate lists what a site holds, and carries out the commands of its
// operators. Operations lists slices, slivers, nodes, tasks, the journal and
// node-hours, and releases, renews and thaws:
//
//	command ── query ──> Endpoints ──> Operations ── one view ─────> store
//	        <─ rows, a JSON object a line ─┘
//	command ── order ──> Endpoints ──> Operations ── one decision ─> store
//
// A list is of one consistent view. It is made in memory before the first of it is
// sent, so a slow reader holds nothing of the store; how many lists there are at one
// time, and how long one may be, is bounded. An order is all or nothing, stands in the journal with the name of the
// operator, and is refused in plain words with the remedy.
//
// What an operator does needs no credential, and none binds it. The same code
// works in the served site, behind its socket, and in a command over the store
// of a site that is not served.
//
// It lifts what AM API v3, "Shutdown", leaves to operators. It never asks a
// provider.
//
// # Decisions
//
//   - commands: a command changes all its slivers or none, in one decision, and the journal names
//     the operator: [Release].
//   - lists: a list is made in memory, up to 64 MiB, and then sent, so that a slow reader does not
//     hold a transaction: [maxList].
package operate
