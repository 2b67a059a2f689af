// Package disk makes file operations of a real process fail, and computes what a power
// failure may leave of them, for tests. Each system call by which the process changes a
// file below a folder is carried out, fails, is carried out in part, or kills the process,
// as the test decides. The Log of all calls then yields the possible Outcomes of a power
// failure.
//
//	test ── Run ──> this test's program (InstallFilter) ── exec ──> the program
//	  ^               └ installs the seccomp filter on itself        │ pwrite, fdatasync, rename, …
//	  └──────── Decide(Call) Fault <──── kernel (seccomp user notification)
//
// The test's process carries out the calls on the other process's open files, so the log
// has them in the order in which they happened. Syncs are only recorded, since no real
// power fails. Calls about other files are not changed. Not watched are the effects of
// opening (O_CREAT, O_TRUNC), writes through mapped memory or io_uring, and changes by
// other processes.
//
// What was synced before a power failure survives it, and any part of the rest may. A
// file's name is synced with its folder, its bytes with the file.
//
// It needs Linux 5.19 or later and no privileges. The test program must call InstallFilter
// before it does anything else. Only tests import this package.
package disk
