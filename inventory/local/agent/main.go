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

	"patchbay/inventory/local/fdsocket"
)

const (
	listenerFile = 3
	jobsVariable = "PATCHBAY_JOBS"
	nodeVariable = "PATCHBAY_NODE"
)

// What the program is when PID 1 starts it again, by its first argument.
const (
	argSFTP    = "sftp"
	argKillOwn = "end"
)

func init() {
	if len(os.Args) > 0 && os.Args[0] == Argv0 {
		runtime.LockOSThread() // Main shall have the first thread: see withstand
	}
}

// Main is PID 1: it serves operations at the inherited listening socket
// (descriptor 3) and never returns while it can. It is run by the package
// node's last stage, with PATCHBAY_NODE, the node's id, and PATCHBAY_JOBS, the
// descriptors of the cgroup.procs files that take its jobs, with commas.
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

func serve() error {
	if os.Getpid() != 1 {
		return errors.New("this is PID 1 of a node, which patchbay-local starts; it does nothing elsewhere")
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
		return fmt.Errorf("descriptor %d is no listening socket: %w", listenerFile, err)
	}
	f.Close()
	u, ok := l.(*net.UnixListener)
	if !ok {
		return fmt.Errorf("descriptor %d is no Unix socket", listenerFile)
	}
	// From 2 MiB on. What the first collection finds in a node that nobody uses is
	// less than what the runtime takes for good to keep account of collections.
	debug.SetGCPercent(50)
	a := newAgent(os.Getenv(nodeVariable), jobs)
	go func() {
		for range ended {
			a.children.reap()
		}
	}()
	go a.accept(u)
	select {} // the first thread does nothing more
}

// accept serves connections for ever.
func (a *agent) accept(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil { // without descriptors or memory: others will end
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

// isFromHost tells whether who connected is no process of this node: those have
// numbers here. Whose the others are the host looks after, by the mode of the
// socket and of its folder; from in here they are all nobody.
func isFromHost(c *fdsocket.Conn) bool {
	peer, err := c.Peer()
	return err == nil && peer.Pid == 0
}

// hideMemory keeps other processes of the node out of this one's memory and
// descriptors. A change of user ids in any thread may undo it.
func hideMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot hide the memory of PID 1 from other processes: %w", err)
	}
	return nil
}

// ignoreSignals makes signals harmless and returns a channel that tells the end of
// children. Signals are caught and forgotten, except two kinds. Those that the
// runtime would take for its own faults when a process queues them are ignored,
// so that a true fault ends PID 1 and nothing else does. Those that the runtime
// leaves alone are withheld by the kernel, but only if the first thread does
// not block them at that moment, as it would in a handler: it handles nothing.
// What starts later has all defaults back: exec forgets handlers, and the
// runtime restores what it once handled.
func ignoreSignals() (<-chan os.Signal, error) {
	signal.Notify(make(chan os.Signal, 1)) // full once and for all
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	for _, s := range []unix.Signal{
		unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS,
	} {
		if err := setSignalAction(s, ignored); err != nil {
			return nil, err
		}
	}
	// What started this program may have had them ignored, as posix_spawn does.
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

// What the kernel does with a signal: SIG_DFL and SIG_IGN.
const (
	defaults = 0
	ignored  = 1
)

// setSignalAction tells the kernel what to do with a signal, past the runtime.
func setSignalAction(s unix.Signal, what uintptr) error {
	action := [4]uintptr{what} // the kernel's struct sigaction
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0); e != 0 {
		return fmt.Errorf("cannot set what signal %d does: %w", s, e)
	}
	return nil
}

// descriptors reads a list of descriptors.
func descriptors(list string) ([]int, error) {
	var fds []int
	for s := range strings.SplitSeq(list, ",") {
		if s == "" {
			continue
		}
		fd, err := strconv.Atoi(s)
		if err != nil || fd <= listenerFile {
			return nil, fmt.Errorf("%s holds %q, which is no inherited descriptor", jobsVariable, s)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// waitForClose waits until the other end is gone.
func waitForClose(c *fdsocket.Conn) {
	for {
		var r request
		if _, err := c.Receive(&r, answerLimit, 0); errors.Is(err, io.EOF) || err != nil {
			return
		}
	}
}
