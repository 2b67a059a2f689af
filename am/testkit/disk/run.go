package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

// Options of a Run.
type Options struct {
	// Folder is the folder whose files are watched, at any depth.
	Folder string
	// Decide returns the fault of a call. If Decide is nil, there are no faults. Only one
	// goroutine calls Decide, and the process waits until Decide returns.
	Decide func(Call) Fault
}

// Run runs a program until it ends or a fault kills it. It returns the events and the result of
// cmd.Wait. It also watches the calls of the program's child processes. To capture the standard
// output, set cmd.Stdout.
func Run(cmd *exec.Cmd, o Options) (Log, error) {
	folder, err := filepath.EvalSymlinks(o.Folder)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", filterEnv, 2+len(cmd.ExtraFiles)), programEnv+"="+cmd.Path)
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // the race detector would delay the program's end by a second
	cmd.Path = "/proc/self/exe"
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return nil, err
	}
	w := &supervisor{folder: folder, decide: o.Decide}
	if err := w.listen(ours, cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		return nil, errors.Join(err, cmd.Wait())
	}
	ended := make(chan error, 1)
	go func() { ended <- w.serve() }()
	exit := cmd.Wait()
	if err := <-ended; err != nil {
		return w.log, err
	}
	return w.log, exit
}

// listen receives the listener of the process's seccomp filter.
func (w *supervisor) listen(socket *os.File, pid int) error {
	var number [8]byte
	if n, err := socket.Read(number[:]); err != nil || n != len(number) {
		return fmt.Errorf("the program did not install the filter: it must call disk.InstallFilter (%w)", err)
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	if w.listener, err = unix.PidfdGetfd(pidfd, int(binary.NativeEndian.Uint64(number[:])), 0); err != nil {
		return fmt.Errorf("cannot get the listener: %w", err)
	}
	_, err = socket.Write([]byte{1})
	return err
}

// Available skips the test if the kernel, or a sandbox, does not allow one process to
// supervise the system calls of another.
func Available(t testing.TB) {
	t.Helper()
	log, err := Run(exec.Command("/bin/sh", "-c", `echo x >"$0/x"`, t.TempDir()), Options{Folder: t.TempDir()})
	if err == nil && log.Calls() == 0 {
		return
	}
	if require.Required("seccomp") {
		t.Fatalf("required by PATCHBAY_REQUIRE: cannot supervise a process: %v", err)
	}
	t.Skipf("cannot supervise a process: %v", err)
}

func (w *supervisor) below(path string) bool {
	rest, ok := strings.CutPrefix(path, w.folder)
	return ok && (rest == "" || rest[0] == '/')
}
