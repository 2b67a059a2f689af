package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// WithNamespaceOwner runs f with uid as the owner of the user name spaces that f makes, as
// by starting a process in one. It needs root.
//
// The kernel charges inotify instances, pending signals, bytes in message
// queues and the like to a name space's users and, above, to its owner, under
// the host's limits for one user. Were that root, then one node could use up
// what the host's root has (by default 128 inotify instances), and what other
// nodes have, too. uid is best the first id of the node, which owns nothing
// outside of it.
//
// f runs on a thread of its own, whose effective user id is uid, with all
// capabilities; files that it makes belong to uid. The thread ends with f, so a
// process that f starts must not ask for a signal at the end of its parent.
func WithNamespaceOwner(uid int, f func() error) error {
	if uid <= 0 {
		return fmt.Errorf("name spaces cannot be charged to user %d: it must be above 0", uid)
	}
	return aside(func() error {
		if err := chargeTo(uid); err != nil {
			return err
		}
		return f()
	})
}

func chargeTo(uid int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("cannot ask for capabilities: %w", err)
	}
	// Not through package syscall, which would do it to all threads.
	const same = ^uintptr(0)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); e != 0 {
		return fmt.Errorf("cannot take the user id %d: %w (it needs root)", uid, e)
	}
	// Leaving root's effective id took them out of effect.
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("cannot put capabilities back in effect: %w", err)
	}
	return nil
}
