package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// serve makes the whole process, with all its threads, one that serves others
// with what it was given: user uid and group gid without other groups, no
// capabilities, no_new_privs, nobody's to look into, the filter b.
func serve(uid, gid int, b block) error {
	_, _ = time.Now().Zone() // reads the time zone's file while that can be opened

	// Package syscall does it for all threads; package unix would for groups
	// only do it for this one. With root's user id go all capabilities.
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("cannot give up groups: %w (it needs root)", err)
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return fmt.Errorf("cannot become group %d: %w", gid, err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("cannot become user %d: %w", uid, err)
	}
	if err := noCapabilities(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot close the process to others: %w", err)
	}
	// What is set on this thread the filter takes along to the others.
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

// noCapabilities says whether they went with the user id, as they do unless
// somebody set the bits that prevent it.
func noCapabilities() error {
	var sets [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0]); err != nil {
		return fmt.Errorf("cannot ask for capabilities: %w", err)
	}
	for _, s := range sets {
		if s.Permitted|s.Effective != 0 {
			return errors.New("capabilities outlived the change of user: start the program without secure bits")
		}
	}
	return nil
}
