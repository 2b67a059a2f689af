package agent

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runAs runs f with the effective identity of an account: user, groups, and no
// capability unless it is root. Real and saved ids stay root's, so that the
// account's processes cannot send signals to the thread. Whatever f opens by
// name it reaches only if the account may, and what it makes belongs to the
// account. f must not start goroutines that matter: they are not under it.
func runAs(user account, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread, not the first one, ends with the goroutine
		done <- catchPanic(func() error {
			if err := become(user); err != nil {
				return fmt.Errorf("cannot act as %s: %w", user.name, err)
			}
			return f()
		})
	}()
	return <-done
}

// become changes this thread alone, which the wrappers of package syscall do not.
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
