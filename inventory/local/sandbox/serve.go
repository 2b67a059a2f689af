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

// Gateway makes the whole process, with all its threads, what the SSH gateway
// may be: user uid and group gid, both not 0, without other groups; no
// capabilities, no_new_privs, nobody's to look into, the gateway's filter.
// Descriptors it holds stay usable, and others can be received; by itself it can
// then make threads and pipes only, no files and no sockets. Any exec kills it. It needs root. After an error the process is
// something between and must end.
func Gateway(uid, gid int) error { return serve("gateway", uid, gid, gatewayFilter(os.Getpid())) }

// VSwitch makes the whole process, with all its threads, what the vswitch
// may be: as Gateway, with the vswitch's filter. Descriptors it holds stay usable,
// and others can be received; by itself it can then make threads only. It must
// have made what it waits with. It needs root. After an error the process is
// something between and must end.
func VSwitch(uid, gid int) error { return serve("vswitch", uid, gid, vswitchFilter(os.Getpid())) }

// serve makes the whole process, with all its threads, one that serves others
// with what it was given: user uid and group gid without other groups, no
// capabilities, no_new_privs, nobody's to look into, the filter b.
func serve(name string, uid, gid int, b block) error {
	if uid <= 0 || gid <= 0 {
		return fmt.Errorf("the %s cannot run as user %d, group %d: both must be above 0", name, uid, gid)
	}
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
