// Package hook notifies executables and URLs of events, at least once and in order
// within a slice.
//
// A change and the events that tell of it are one transaction: the store asks Outbox,
// a pure function from records before and after to messages, and writes both or
// neither. So nothing is told that did not last, and nothing that lasts is untold,
// whatever ends the server.
//
//	decision ─> change set ─> Outbox ─> one write ─┬─> answer of the call
//	                                               └─> reader ─> worker of each hook
//	                                                               │ send ─┬─ taken ─> note in the store ─> the next
//	leases that will end ─> Sliver.NotifiedEnd ─> Outbox                  │       └─ not ───> again, later
//
// A worker sends the events of its hook one by one, in order. An event that is not taken
// keeps back those of its slice alone, which take turns with the others. The next event
// of a slice is sent only when the store has noted the last: after a crash a hook gets
// again, under the same id, at most the last event of a slice.
//
// Who fails for long must not fill the disk. Beyond 100,000 events, or an age of 7
// days, the oldest are lost: the log and Lost tell. Events wait for hooks by name: one
// that is no longer configured loses its claims at the next start, and one that is new
// hears what comes after.
//
// An executable gets the event as JSON on standard input, an environment of its own and
// a time, and takes the event by ending with 0. A URL gets a POST, signed if there is
// a secret, and takes it with a status 2xx; redirects are not followed, and no proxy is
// asked. Event is the form, which only grows.
//
// The package never refuses a change and never makes one but noting that leases' ends
// were told. It answers no section of the AM API: this is for the site.
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
