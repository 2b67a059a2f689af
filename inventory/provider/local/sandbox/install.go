package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// install installs the filter on this thread. flags are SECCOMP_FILTER_FLAG_* values.
func install(b block, flags uintptr) error {
	program := unix.SockFprog{Len: uint16(len(b)), Filter: &b[0]}
	thread, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	switch {
	case e != 0:
		return e
	case thread != 0:
		return fmt.Errorf("thread %d has a different filter", thread)
	}
	return nil
}
