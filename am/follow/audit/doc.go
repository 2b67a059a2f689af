// Package audit writes the audit log, and finds the user of an address in it.
//
// Lines are only appended to the file, each with one write. A line is one JSON object
// in ASCII, so that no name in it can look like a line. The file may be moved away at any
// time; the next line then begins a new file.
//
//	event      written
//	start      when the site begins to serve; after a start, a gap or lost lines, all current
//	           holds lines are written again
//	told       after these holds lines: a sliver that has no such line has no addresses
//	call       before the answer to a call that may change something is sent; refused
//	           calls without a trusted certificate share one line for each minute and address
//	act        when an operator does something
//	change     when a call has changed something; its request is the id of the call
//	work       when the aggregate itself ends something: a lease, a task that failed
//	holds      when the addresses, endpoints or outside ports of a sliver change
//	gone       when the sliver has none of them any more
//	gap        in place of the lines of changes that the store has deleted, because the audit
//	           could not be written for too long
//	alive      when nothing else was written for 10 minutes
//	open       at the beginning of a file that follows another
//	lost       when lines about calls or acts could not be written: the number of these lines
//	stop       when the site stops
//
// The audit follows the changes of the store: each change has its lines, act, change, work, holds
// and gone, with the time of the change. They are written soon after the change, or at the next
// start. Each such line has the position in the changes after it, so the last line of the file
// says where the audit continues. A cursor in the store says up to which position the store may
// delete changes. All other lines are written directly; a crash may lose the line of a call, never
// that of a change.
//
// The file contains no secrets: of credentials only SHA-256 sums, of keys nothing.
//
// # Decisions
//
//   - no line twice: the lines of a change are always the same, so the audit continues within a
//     change that a crash has cut: [Log.follow].
//   - file of schema 4: its lines name journal entries in any order. The first start writes the
//     missing ones: [Log.takeOver].
//   - several processes: each locks the file before it appends, and begins a new line after an
//     incomplete line that a crash left: [appendTo].
//   - addresses without a gone line: a line is written at least every 10 minutes, so the addresses
//     ended between the last line and the next start: [query.end].
//   - audit file that cannot be written: its lines are kept in memory until it can be written.
//     With audit_required, calls that change something are refused with 5: [Log.Admit].
package audit
