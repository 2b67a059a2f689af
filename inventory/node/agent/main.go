package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/fdsocket"
)

const (
	listenerFile = 3
	jobsVariable = "PATCHBAY_JOBS"
	nodeVariable = "PATCHBAY_NODE"
)

// Arguments with which PID 1 starts the executable again.
const (
	argSFTP    = "sftp"
	argKillOwn = "end"
)

func init() {
	if len(os.Args) > 0 && os.Args[0] == Argv0 {
		runtime.LockOSThread() // Main needs the first thread: see ignoreSignals
	}
}

// Main is the main function of PID 1 and of the helpers that PID 1 starts. It does not
// return. PID 1 serves operations at the inherited listening socket (descriptor 3).
// Package node starts it with two variables. PATCHBAY_NODE is the node's id.
// PATCHBAY_JOBS lists the descriptors of the cgroup.procs files for its jobs, separated
// by commas.
func Main() {
	var err error
	switch word := strings.Join(os.Args[1:], " "); word {
	case "":
		err = serve()
	case argSFTP:
		err = ServeSFTP()
	case argKillOwn:
		err = killOwn()
	default:
		err = fmt.Errorf("unknown argument %q", word)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "patchbay-agent:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs the agent as PID 1 of the node. It returns only on errors.
func serve() error {
	if os.Getpid() != 1 {
		return errors.New("this program runs only as PID 1 of a node, started by patchbay-local")
	}
	if err := hideMemory(); err != nil {
		return err
	}
	ended, err := ignoreSignals()
	if err != nil {
		return err
	}
	jobs, err := descriptors(os.Getenv(jobsVariable))
	if err != nil {
		return err
	}
	if err := unix.CloseRange(listenerFile, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	f := os.NewFile(listenerFile, "listener")
	l, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("descriptor %d is not a listening socket: %w", listenerFile, err)
	}
	f.Close()
	u, ok := l.(*net.UnixListener)
	if !ok {
		return fmt.Errorf("descriptor %d is not a Unix socket", listenerFile)
	}
	// The first collection starts at 2 MiB. In an idle node, a collection would free less
	// memory than the runtime permanently allocates for it.
	debug.SetGCPercent(50)
	a := newAgent(os.Getenv(nodeVariable), jobs)
	go func() {
		for range ended {
			a.children.reap()
		}
	}()
	go a.accept(u)
	select {} // the first thread only waits: see ignoreSignals
}

// accept closes connections of processes inside the node.
func (a *agent) accept(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil { // out of descriptors or memory, until other connections end
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if conn := fdsocket.New(c); isFromHost(conn) {
			a.serve(conn)
		} else {
			conn.Close()
		}
	}
}

// isFromHost reports whether the client is outside of this node. Only a process inside
// has a process id here; for others the kernel reports 0. On the host, the modes of the
// socket and its folder decide which users may connect.
func isFromHost(c *fdsocket.Conn) bool {
	peer, err := c.Peer()
	return err == nil && peer.Pid == 0
}

// hideMemory prevents other processes of the node from reading this one's memory and
// descriptors. A change of user ids in any thread may undo this, so hideMemory must be
// called again after it.
func hideMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot hide the memory of PID 1 from other processes: %w", err)
	}
	return nil
}

// ignoreSignals prevents signals from ending PID 1, and returns a channel that reports
// ended children. Most signals are caught and discarded. Signals that the runtime would
// take for its own faults are ignored, so that only a real fault ends PID 1. The
// runtime does not handle the signals 32 to 34. The kernel discards them unless the
// first thread blocks them, which it would do while it runs a signal handler. So the
// first thread blocks all other signals, and never runs a handler. Started programs get
// the default actions of all signals: exec removes handlers, and the runtime restores
// the actions that it changed.
func ignoreSignals() (<-chan os.Signal, error) {
	signal.Notify(make(chan os.Signal, 1)) // the full channel drops all signals
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	for _, s := range []unix.Signal{
		unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS,
	} {
		if err := setSignalAction(s, ignored); err != nil {
			return nil, err
		}
	}
	// The parent may have set these signals to be ignored.
	mask := ^uint64(0)
	for _, s := range []unix.Signal{32, 33, 34} {
		if err := setSignalAction(s, defaults); err != nil {
			return nil, err
		}
		mask &^= 1 << (s - 1)
	}
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&mask)), 0, 8, 0, 0); e != 0 {
		return nil, fmt.Errorf("cannot block signals: %w", e)
	}
	return ended, nil
}

// Signal actions of the kernel: SIG_DFL and SIG_IGN.
const (
	defaults = 0
	ignored  = 1
)

// setSignalAction sets the kernel's action for a signal, bypassing the runtime.
func setSignalAction(s unix.Signal, kernelAction uintptr) error {
	action := [4]uintptr{kernelAction} // the kernel's struct sigaction
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0); e != 0 {
		return fmt.Errorf("cannot set the action of signal %d: %w", s, e)
	}
	return nil
}

func descriptors(list string) ([]int, error) {
	var fds []int
	for s := range strings.SplitSeq(list, ",") {
		if s == "" {
			continue
		}
		fd, err := strconv.Atoi(s)
		if err != nil || fd <= listenerFile {
			return nil, fmt.Errorf("%s holds %q, which is not an inherited descriptor", jobsVariable, s)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func waitForClose(c *fdsocket.Conn) {
	for {
		var r request
		if _, err := c.Receive(&r, answerLimit, 0); errors.Is(err, io.EOF) || err != nil {
			return
		}
	}
}
