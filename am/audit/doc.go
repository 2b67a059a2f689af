// Package audit writes the audit log, and finds the user of an address in it.
//
// The file is only ever appended to, one JSON object a line and one write a line,
// in ASCII, so that no name that somebody chose can look like a line. It may be
// moved away at any time: the next line begins a new one.
//
//	event      written
//	start      when the site begins to serve; all slivers are told again after it,
//	           and after lost
//	told       when they have been told; what was not has ended in between
//	call       before the answer to a call that may change something is sent; calls
//	           of strangers, which change nothing, share one a minute and address
//	act        when an operator does something
//	work       when the aggregate itself ends something: a lease, a task given up
//	holds      when a sliver gets addresses, doors or ports outside, or others
//	gone       when it has none any more
//	alive      when nothing else was written for a while
//	open       at the beginning of a file that follows another
//	lost       when lines could not be written: how many
//	stop       when the site stops
//
// What a call has changed is in the store's journal with the change itself. So a
// line that a crash has kept from being written is written at the next start, and
// says "recovered". To know which, a line tells the numbers of its entries in the
// journal, up to which revision every entry had a line, and the last revision of
// which there was an entry:
//
//	journal ──┬── settled ──┬── some have a line, some not yet ──┬── seen
//	          every entry   │  their lines come after the last   │
//	          has a line    │  line whose seen is not beyond     │
//	                        │  settled: only so far one looks    │
//
// Of calls that were refused, and changed nothing, a crash may lose the line.
//
// There are no secrets in it: of credentials only SHA-256 sums, of keys nothing.
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
