package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Check tests whether this kernel supports the filters of Node and Gateway. The error names the
// missing feature. The test runs on a thread that ends afterwards.
func Check() error { return onThread(check) }

// check restricts the calling thread as Node does, and checks that a forbidden call fails.
func check() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs cannot be set: %w", err)
	}
	if err := install(nodeFilter(), 0); err != nil {
		return fmt.Errorf("system calls cannot be filtered: %w (the kernel needs CONFIG_SECCOMP_FILTER, and a container that runs this program must allow seccomp)", err)
	}
	// Without flags, unshare does nothing and succeeds if no filter forbids it.
	if err := unix.Unshare(0); err != unix.EPERM {
		return fmt.Errorf("a filter of system calls was installed and does not work: a forbidden call returned %v", err)
	}
	return nil
}
