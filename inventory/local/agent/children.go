package agent

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stuckTime is how often it is looked whether a child cannot go on.
const stuckTime = 50 * time.Millisecond

// starterName is the name of the thread that forks, and so of its children
// until they are what they shall be.
const starterName = "patchbay-start"

// children starts programs and reaps what ends, orphans of the node too.
type children struct {
	jobs      []int       // descriptors of cgroup.procs files
	starts    chan func() // run by the one thread that forks and traces
	startOnce sync.Once   // begins that thread

	mu   sync.Mutex        // held while a child is traced, so that nobody else waits for it
	ends map[int]chan Exit // by process id
}

func newChildren(jobs []int) *children {
	return &children{jobs: jobs, starts: make(chan func()), ends: make(map[int]chan Exit)}
}

// starter is the thread that forks, for ptrace is of a thread.
func (c *children) starter() {
	runtime.LockOSThread()
	// This thread keeps its P while it waits for a fork: one more for watch. A number
	// that was set stays: changes of it, as by taskset, would stop all threads.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	name, _ := unix.BytePtrFromString(starterName)
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0)
	for f := range c.starts {
		f()
	}
}

// start starts a program in a session of its own, within the group of jobs from
// its first instruction on. The channel tells its end.
func (c *children) start(path string, argv []string, attr *syscall.ProcAttr) (pid int, end <-chan Exit, err error) {
	c.startOnce.Do(func() { go c.starter() }) // most nodes are idle, and a thread is memory
	done := make(chan struct{})
	c.starts <- func() {
		defer close(done)
		err = catchPanic(func() (err error) {
			pid, end, err = c.fork(path, argv, attr)
			return err
		})
	}
	<-done
	return pid, end, err
}

func (c *children) fork(path string, argv []string, attr *syscall.ProcAttr) (int, <-chan Exit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := make(chan struct{})
	defer close(done)
	go killStopped(done)
	attr.Sys.Setsid, attr.Sys.Ptrace = true, true
	resume := pauseGC()
	pid, err := syscall.ForkExec(path, argv, attr)
	resume()
	hidden := hideMemory()
	if err == nil && hidden != nil {
		unix.Kill(pid, unix.SIGKILL)
	}
	if err = errors.Join(err, hidden); err != nil {
		return 0, nil, err
	}
	end := make(chan Exit, 1)
	ended, err := c.resume(pid)
	switch {
	case ended != nil:
		end <- *ended
	case err != nil:
		unix.Kill(pid, unix.SIGKILL)
		return 0, nil, err
	default:
		c.ends[pid] = end
	}
	return pid, end, nil
}

// gcThreshold is a heap of which no garbage collection begins, in bytes: the
// runtime begins them at more than the double.
const gcThreshold = 512 << 10

// pauseGC makes sure that no garbage collection runs until resume is
// called. The kernel holds the thread that forks until the child has its program,
// and a collection that waits for this thread holds all others, watch too: whoever
// stopped the child then would keep the node from starting anything. SetGCPercent
// keeps new ones from beginning, and GC returns when one that had begun is over.
// In most nodes none ever runs, and its own memory is saved.
func pauseGC() (resume func()) {
	percent := debug.SetGCPercent(-1)
	figures := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(figures)
	if figures[0].Value.Uint64() > 0 || figures[1].Value.Uint64() > gcThreshold {
		runtime.GC()
	}
	return func() { debug.SetGCPercent(percent) }
}

// resume lets a traced child go, once it is where it belongs. It may have
// ended before.
func (c *children) resume(pid int) (*Exit, error) {
	for {
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, 0, nil); err == unix.EINTR {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("cannot wait for a new process: %w", err)
		}
		if exit := exitOf(status); exit != nil {
			return exit, nil
		}
		if status.StopSignal() == unix.SIGTRAP {
			break
		}
		if err := unix.PtraceCont(pid, int(status.StopSignal())); err != nil {
			return nil, fmt.Errorf("cannot start a new process: %w", err)
		}
	}
	text := strconv.AppendInt(nil, int64(pid), 10)
	for _, fd := range c.jobs {
		if _, err := unix.Write(fd, text); err != nil {
			return nil, fmt.Errorf("cannot put a new process under the node's limits: %w", err)
		}
	}
	// PID 1 is spared when memory ends; what it starts is not.
	if err := os.WriteFile("/proc/"+string(text)+"/oom_score_adj", []byte("0"), 0); err != nil {
		return nil, err
	}
	if err := unix.PtraceDetach(pid); err != nil {
		return nil, fmt.Errorf("cannot start a new process: %w", err)
	}
	return nil, nil
}

// reap takes in all processes that ended.
func (c *children) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if pid <= 0 || err != nil {
			return
		}
		exit := exitOf(status)
		end := c.ends[pid]
		if exit != nil && end != nil {
			delete(c.ends, pid)
			end <- *exit
		}
	}
}

// signal sends a signal to the group of a process that was started here and has
// not ended.
func (c *children) signal(pid int, number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends[pid] != nil {
		unix.Kill(-pid, unix.Signal(number))
	}
}

// isEmpty tells whether the node has no process but this one: all others descend
// from its children.
func (c *children) isEmpty() bool {
	c.reap()
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD
}

// exitOf is how a process ended, nil if it has not.
func exitOf(s unix.WaitStatus) *Exit {
	switch {
	case s.Exited():
		return &Exit{Status: s.ExitStatus()}
	case s.Signaled():
		return &Exit{Status: 128 + int(s.Signal()), Signal: int(s.Signal())}
	}
	return nil
}

// killStopped ends children that a signal of their user stopped between fork and
// exec. Nobody else could let them go on, while the thread that forked waits
// for them in the kernel, and all that is to be started waits for it.
func killStopped(done <-chan struct{}) {
	look := time.NewTicker(stuckTime)
	defer look.Stop()
	for {
		select {
		case <-done:
			return
		case <-look.C:
		}
		eachProcess(func(p process) {
			if p.parent == 1 && p.name == starterName && p.stopped {
				unix.Kill(p.pid, unix.SIGKILL)
			}
		})
	}
}
