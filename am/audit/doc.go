// Package audit writes the audit log, and finds the user of an address in it.
//
// Lines are only appended to the file, each with one write. A line is one JSON object
// in ASCII, so that no name in it can look like a line. The file may be moved away at any
// time; the next line then begins a new file.
//
//	event      written
//	start      when the site begins to serve; after a start or lost line, all current
//	           holds lines are written again
//	told       after these holds lines: a sliver that has no such line has no addresses
//	call       before the answer to a call that may change something is sent; refused
//	           calls without a trusted certificate share one line for each minute and address
//	act        when an operator does something
//	work       when the aggregate itself ends something: a lease, a task that failed
//	holds      when the addresses, endpoints or outside ports of a sliver change
//	gone       when the sliver has none of them any more
//	alive      when nothing else was written for 10 minutes
//	open       at the beginning of a file that follows another
//	lost       when lines could not be written: the number of these lines
//	stop       when the site stops
//
// The store's journal records each change in the same transaction. So a line that a
// crash prevented is written at the next start, marked "recovered". To find these lines,
// each line contains the ids of its journal entries and two revisions of the store. Up to
// the revision settled every journal entry has a line; seen is the last revision with an
// entry:
//
//	journal ──┬── settled ──┬── some entries have a line ──┬── seen
//
// The search for these lines runs backwards. It ends at the first line whose seen is not
// after settled.
//
// A crash may lose the line of a refused call, which changed nothing.
//
// The file contains no secrets: of credentials only SHA-256 sums, of keys nothing.
//
// # Decisions
//
//   - lines that a crash prevents: each line names its journal entries, so the next start can
//     write the missing lines, marked "recovered": [Log.recover].
//   - several processes: each locks the file before it appends, and begins a new line after an
//     incomplete line that a crash left: [appendTo].
//   - addresses without a gone line: a line is written at least every 10 minutes, so the addresses
//     ended between the last line and the next start: [query.end].
//   - audit file that cannot be written: its lines are kept in memory until it can be written.
//     With audit_required, calls that change something are refused with 5: [Log.Admit].
package audit
