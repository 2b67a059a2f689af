// Package hook notifies executables and URLs of events, at least once and in order
// within a slice.
//
// Each hook follows the changes of the store from a cursor of its own. The events of a change are
// a pure function of the change: the slivers before and after, and the journal entries. So there
// is an event for each durable change, and for no other, even after a crash.
//
//	decision ─> change set and Change ─> one write ─┬─> answer of the call
//	                                                └─> reader ─> worker of each hook
//	                                                               │ send ─┬─ taken ─> cursor in the store ─> the next
//	leases that will end ─> Sliver.NotifiedEnd ─> Change           │       └─ not ───> again, later
//
// A worker sends the events of its hook one by one, in order. If a hook does not accept an
// event, only later events of that slice wait. The slices take turns. The next event of a
// slice is sent only after the store has recorded the last one. So after a crash a hook
// receives at most the last event of a slice again, with the same id. While an older event
// waits, further cursors record the events taken of other slices.
//
// A hook that fails must not fill the disk: the store deletes the oldest changes beyond its
// limits, which the log and Lost report. Cursors have the names of hooks. The cursors of a hook
// that is no longer configured are removed when the store is next opened; a new hook receives
// only later events.
//
// An executable receives the event as JSON on standard input, in an environment of its
// own and with a timeout. Exit status 0 means that it took the event. A URL receives a
// POST, signed if there is a secret, and takes the event with a status 2xx. Redirects are
// not followed, and no proxy is used. Members of Event may be added, never removed.
//
// The package never refuses a change. The only change it makes is to record that hooks
// were notified of the end of a lease. It implements no section of the AM API.
//
// # Decisions
//
//   - new hook: it gets the events of changes after the store was first opened with it in the
//     configuration, also of changes by commands: [Follow].
//   - order: a hook gets the next event of a slice after the store has recorded the last one. So a
//     crash repeats at most one event, with the same id: [worker.advance].
//   - failing hook: it is called again after 1 s to 5 min. Events of changes that the store has
//     deleted are dropped and logged: [Runner.Lost].
//   - URL of a hook: no redirects, no proxy and TLS 1.2 or later. The log does not show it,
//     because it may contain a secret: [Sign].
package hook
