package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Gateway restricts the whole process, with all its threads, to the rights of the SSH gateway.
// The process becomes user uid and group gid, which must not be 0. It has no other groups and
// no capabilities, and is not dumpable. It has no_new_privs and the gateway's filter. It can
// use its descriptors, receive further ones, and create threads and pipes, but no files and no
// sockets. Any exec kills the process. Gateway needs root. After an error the process may be
// partly restricted and must end.
func Gateway(uid, gid int) error { return restrict("gateway", uid, gid, gatewayFilter(os.Getpid())) }

// VSwitch is like Gateway, with the vswitch's filter: the process can only use its
// descriptors, receive further ones, and create threads. It must create its epoll descriptors
// before the call.
func VSwitch(uid, gid int) error { return restrict("vswitch", uid, gid, vswitchFilter(os.Getpid())) }

// restrict makes this process a user without groups and capabilities, and installs the filter b of system
// calls. The parameter name is the program's name for errors.
func restrict(name string, uid, gid int, b block) error {
	if uid <= 0 || gid <= 0 {
		return fmt.Errorf("the %s cannot run as user %d, group %d: both must be above 0", name, uid, gid)
	}
	_, _ = time.Now().Zone() // reads the time zone's file while the process can still open it

	// Package syscall changes all threads, package unix only this one. The change of the user
	// id removes all capabilities.
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("cannot give up groups: %w (it needs root)", err)
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return fmt.Errorf("cannot become group %d: %w", gid, err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("cannot become user %d: %w", uid, err)
	}
	if err := checkNoCapabilities(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot make the process not dumpable: %w", err)
	}
	// The installation of the filter copies no_new_privs of this thread to all threads.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot set no_new_privs: %w", err)
	}
	if err := install(b, unix.SECCOMP_FILTER_FLAG_TSYNC); err != nil {
		return fmt.Errorf("cannot install the filter of system calls: %w", err)
	}
	return nil
}

// checkNoCapabilities fails if the thread has capabilities. The change of the user id
// removes them, unless secure bits prevent that.
func checkNoCapabilities() error {
	var sets [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0]); err != nil {
		return fmt.Errorf("cannot read the capabilities of the thread: %w", err)
	}
	for _, s := range sets {
		if s.Permitted|s.Effective != 0 {
			return errors.New("the process still has capabilities after the change of user; start the program without secure bits")
		}
	}
	return nil
}
