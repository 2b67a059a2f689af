package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func children() map[string]func() {
	return map[string]func(){
		"node":    execRestricted,
		"gateway": fakeGateway,
		"dies":    makeDeadlyCall,
		"vswitch": fakeVSwitch,
		"limits":  printLimits,
		"hoard":   takeAllInotify,
	}
}

// execRestricted restricts itself as a stage of a node does, and executes its arguments:
// another child's name, or a program.
func execRestricted() {
	must(SetLimits())
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(unix.Mount("proc", "/proc", "proc", 0, ""))
	must(Node())
	must(CloseOnExec(3))
	argv := os.Args[1:]
	if children()[argv[0]] != nil {
		must(os.Setenv(childWord, argv[0]))
		must(syscall.Exec("/proc/self/exe", argv, os.Environ()))
	}
	path, err := exec.LookPath(argv[0])
	must(err)
	must(os.Unsetenv(childWord))
	must(syscall.Exec(path, argv, os.Environ()))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(3)
	}
}

// An attempt is something that root in a node tries, and its expected result.
type attempt struct {
	name string
	want string
	try  func() error
}

func call(n uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, e := unix.RawSyscall6(n, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
			return e
		}
		return nil
	}
}

func path(p string) uintptr {
	b, err := unix.BytePtrFromString(p)
	must(err)
	return uintptr(unsafe.Pointer(b))
}

func socket(family, kind, protocol int) func() error {
	return func() error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

func errorName(err error) string {
	if err == nil {
		return "done"
	}
	if e, ok := err.(unix.Errno); ok {
		return unix.ErrnoName(e)
	}
	return err.Error()
}
