// Package audit writes the audit log, and finds the user of an address in it.
//
// Lines are only appended to the file, each with one write. A line is one JSON object
// in ASCII, so that no name in it can look like a line. The file may be moved away at any
// time; the next line then begins a new file.
//
//	event      written
//	start      when the site begins to serve; all holds lines are repeated after it,
//	           and after lost
//	told       after the repeated holds lines; a holding without such a line has ended
//	call       before the answer to a call that may change something is sent; refused
//	           calls without a trusted certificate share one line a minute and address
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
// crash prevented is written at the next start, marked "recovered". To find these, a line
// contains the ids of its journal entries, the revision up to which every entry has a
// line (settled), and the last revision with an entry (seen):
//
//	journal ──┬── settled ──┬── some have a line, some not yet ──┬── seen
//	          every entry   │  their lines come after the last   │
//	          has a line    │  line whose seen is not after      │
//	                        │  settled: the search ends there    │
//
// A crash may lose the line of a refused call, which changed nothing.
//
// The file contains no secrets: of credentials only SHA-256 sums, of keys nothing.
//
// # Decisions
//
//   - lines that a crash prevents: each line names its journal entries, so the next start can
//     write the missing lines, marked "recovered": [Log.recover].
//   - several processes: each locks the file before it appends, and removes the half line that a
//     crash left: [appendTo].
//   - end of a holding that has no line: the log has a sign of life every 10 minutes, so the end
//     lies between the last one and the next start: [query.end].
//   - audit file that cannot be written: lines wait in memory. With audit_required, calls that
//     change something are refused with 5: [Log.Admit].
package audit
