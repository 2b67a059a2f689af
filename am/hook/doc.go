// Package hook notifies executables and URLs of events, at least once and in order
// within a slice.
//
// A change and its events are one transaction: the store calls Outbox, a pure function
// from the records before and after and the journal entries to messages, and writes both or
// neither. So there is an event for each durable change, and for no other, even after a crash.
//
//	decision ─> change set ─> Outbox ─> one write ─┬─> answer of the call
//	                                               └─> reader ─> worker of each hook
//	                                                               │ send ─┬─ taken ─> note in the store ─> the next
//	leases that will end ─> Sliver.NotifiedEnd ─> Outbox           │       └─ not ───> again, later
//
// A worker sends the events of its hook one by one, in order. If a hook does not accept an
// event, only later events of that slice wait. The slices take turns. The next event of a
// slice is sent only after the store has recorded the last one. So after a crash a hook
// receives at most the last event of a slice again, with the same id.
//
// A hook that fails must not fill the disk. Beyond 100,000 events, or an age of 7 days,
// the oldest are dropped, which the log and Lost report. Events are stored by the names
// of hooks. The events of a hook that is no longer configured are removed at the next
// start; a new hook receives only later events.
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
//   - writing events: an event is written in the transaction of the change that it describes, so
//     none is lost: [Outbox].
//   - order: a hook gets the next event of a slice after the store has recorded the last one. So a
//     crash repeats at most one event, with the same id: [worker.deliver].
//   - failing hook: it is called again after 1 s to 5 min. Beyond 100,000 events or 7 days the
//     oldest events are dropped and logged: [Limits].
//   - URL of a hook: no redirects, no proxy and TLS 1.2 or later. The log does not show it,
//     because it may contain a secret: [Sign].
package hook
