// Package disk makes file operations of a real process fail, for tests, and computes the
// possible contents of the disk after a power failure. For each system call that changes a
// file below a folder, the test decides whether the call is carried out, is carried out in
// part, fails, or kills the process. The Log of all calls then yields the possible Outcomes
// of a power failure.
//
//	test ── Run ──> this test's program (InstallFilter) ── exec ──> the program
//	  ^               └ installs the seccomp filter on itself        │ pwrite, fdatasync, rename, …
//	  └──────── Decide(Call) Fault <──── kernel (seccomp user notification)
//
// The test's process carries out the calls on the other process's open files, so the log
// has them in the order in which they happened. Syncs are only recorded, since no real
// power fails. Calls for other files are not changed. The package does not see the effects
// of opening a file (O_CREAT, O_TRUNC), writes through mapped memory or io_uring, and
// changes by other processes.
//
// Changes that were synced before a power failure survive it, and any part of the other
// changes may survive. A file's content is synced with the file, its name with its folder.
//
// It needs Linux 5.19 or later and no privileges. The test program must call InstallFilter
// before it does anything else. Only tests import this package.
package disk
