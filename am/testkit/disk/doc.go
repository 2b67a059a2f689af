// Package disk is a disk under a real process that fails and loses power, for
// tests. Each call by which the process changes a file below a folder is carried
// out, fails, is torn, or kills the process, as the test decides. And it writes
// down what was done, from which follows what a power cut may leave.
//
//	test ── Run ──> stage (this test's program) ── exec ──> the program
//	  ^               └ puts the filter on itself                  │ pwrite, fdatasync, rename, …
//	  └──────── Decide(Call) Fault <──── kernel (seccomp user notification)
//
// The calls are done by the test's own process, on the other's open files, so
// that the log has them in the order in which they happened; syncs are only written
// down, since no real power is cut. Calls about other files go on untouched. What opening does (O_CREAT, O_TRUNC), what is written
// through mapped memory or rings, and what others do to the same files is not
// seen.
//
// A log tells what of it a power cut may leave (Log.Cuts): what was synced before
// it, and any part of what was not, also half-written sectors' neighbours. A file's
// name lasts when its folder was synced, its bytes when it was.
//
// It needs Linux 5.19 or later, no privileges, and a stage: a test program calls
// Stage before it does anything else.
//
// Only tests import it.
package disk
