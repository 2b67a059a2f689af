package disk

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filterEnv and programEnv are environment variables that Run sets for InstallFilter. filterEnv
// contains the descriptor of a socket that is connected to Run. programEnv contains the path of the
// program to execute.
const (
	filterEnv  = "PATCHBAY_TEST_DISK_STAGE"
	programEnv = "PATCHBAY_TEST_DISK_PROGRAM"
)

// InstallFilter installs the seccomp filter and executes the requested program, if Run has
// started this process. Otherwise it does nothing.
func InstallFilter() {
	word := os.Getenv(filterEnv)
	if word == "" {
		return
	}
	program := os.Getenv(programEnv)
	os.Unsetenv(filterEnv)
	os.Unsetenv(programEnv)
	fmt.Fprintln(os.Stderr, installAndExec(word, program))
	os.Exit(125)
}

// installAndExec installs the filter, passes its listener to Run, and executes the program. It returns
// only on failure.
func installAndExec(word, program string) error {
	socket, err := strconv.Atoi(word)
	if err != nil {
		return err
	}
	unix.CloseOnExec(socket)
	env := os.Environ()
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot set no_new_privs: %w", err)
	}
	filter := filterProgram()
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	var number uint64
	var answer byte
	// Until Run answers calls, this thread must not make a call that the filter watches.
	listener, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&prog)))
	number = uint64(listener)
	if e != 0 {
		return fmt.Errorf("cannot install the filter: %w", e)
	}
	if _, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(socket), uintptr(unsafe.Pointer(&number)), 8, 0, 0, 0); e != 0 {
		return fmt.Errorf("cannot send the number of the listener: %w", e)
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_READ, uintptr(socket), uintptr(unsafe.Pointer(&answer)), 1); e != 0 {
		return fmt.Errorf("the test does not answer: %w", e)
	}
	return fmt.Errorf("cannot execute %s: %w", program, syscall.Exec(program, os.Args, env))
}

// kinds are the watched system calls. The filter refuses calls that copy between files inside
// the kernel, so that the program copies with write calls instead.
var kinds = map[uint32]Kind{
	unix.SYS_WRITE:           Write,
	unix.SYS_PWRITE64:        Write,
	unix.SYS_FSYNC:           Sync,
	unix.SYS_FDATASYNC:       Sync,
	unix.SYS_FTRUNCATE:       Truncate,
	unix.SYS_FALLOCATE:       Allocate,
	unix.SYS_RENAMEAT:        Rename,
	unix.SYS_RENAMEAT2:       Rename,
	unix.SYS_LINKAT:          Link,
	unix.SYS_UNLINKAT:        Remove,
	unix.SYS_COPY_FILE_RANGE: refused,
	unix.SYS_SENDFILE:        refused,
}

const refused Kind = "refused"

// filterProgram returns a filter that sends the calls in kinds to the supervisor, and allows all
// other calls.
func filterProgram() []unix.SockFilter {
	const number = 0 // the offset of the call's number in struct seccomp_data
	b := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number}}
	left := uint8(len(kinds)) // the distance of the next comparison to the last instruction
	for call := range kinds {
		b = append(b, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: left})
		left--
	}
	return append(b, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
}
