package agent

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runAs runs f with the effective identity of an account: its user, its groups and,
// unless it is root, no capabilities. f can open only files that the account may open,
// and the account owns its new files. The real and saved ids stay root's, so that
// processes of the account cannot signal the thread. f must not start goroutines, since
// they would run as root again.
func runAs(user account, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: so the thread ends with the goroutine
		done <- catchPanic(func() error {
			if err := become(user); err != nil {
				return fmt.Errorf("cannot act as %s: %w", user.name, err)
			}
			return f()
		})
	}()
	return <-done
}

// become gives this thread the ids and groups of the account. The functions of package syscall would change
// all threads.
func become(user account) (err error) {
	defer func() { err = errors.Join(err, hideMemory()) }()
	groups := append([]uint32{user.gid}, user.groups...)
	const keep = ^uintptr(0)
	_, _, errno := syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(user.gid), keep)
	}
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(user.uid), keep)
	}
	if errno != 0 {
		return errno
	}
	return nil
}
