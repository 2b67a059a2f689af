package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// WithNamespaceOwner runs f so that uid owns the user namespaces that f creates, for
// example by starting a process in a new one. It needs root.
//
// The kernel counts, for example, inotify instances, pending signals and bytes in message
// queues for each user. It counts those of a namespace's users also for the namespace's
// owner, whom the host's limits for one user restrict. If root owned the namespaces, all
// nodes and the host would share root's limits (by default 128 inotify instances), and one
// node could use them up. uid should be the first id of the node, because this user owns
// nothing outside the node.
//
// f runs on its own thread with effective user id uid and all capabilities; files that it
// creates belong to uid. The thread ends with f, so a process that f starts must not have
// a parent-death signal.
func WithNamespaceOwner(uid int, f func() error) error {
	if uid <= 0 {
		return fmt.Errorf("namespaces cannot be charged to user %d: the user id must be above 0", uid)
	}
	return onThread(func() error {
		if err := setEffectiveUID(uid); err != nil {
			return err
		}
		return f()
	})
}

// setEffectiveUID sets the effective user id of the calling thread, which keeps its
// capabilities.
func setEffectiveUID(uid int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("cannot read the capabilities of the thread: %w", err)
	}
	// Package syscall would change all threads.
	const same = ^uintptr(0)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); e != 0 {
		return fmt.Errorf("cannot take the user id %d: %w (it needs root)", uid, e)
	}
	// The change of the user id removed the effective capabilities.
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("cannot make capabilities effective again: %w", err)
	}
	return nil
}
