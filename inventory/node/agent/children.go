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

// stuckTime is the time between two checks of killStopped.
const stuckTime = 50 * time.Millisecond

// starterName is the name of the thread that forks, and of its children until they execute
// their program.
const starterName = "patchbay-start"

// children starts programs and reaps all ended children, adopted orphans included.
type children struct {
	jobs      []int       // descriptors of cgroup.procs files
	starts    chan func() // run by the starter thread
	startOnce sync.Once   // starts that thread

	mu   sync.Mutex        // held while a child is traced, so that no other goroutine reaps it
	ends map[int]chan Exit // by process id
}

func newChildren(jobs []int) *children {
	return &children{jobs: jobs, starts: make(chan func()), ends: make(map[int]chan Exit)}
}

// starter runs all functions on one thread, since ptrace works per thread.
func (c *children) starter() {
	runtime.LockOSThread()
	// A thread that waits for a fork occupies one of the runtime's processors (Ps), and
	// killStopped needs another one. After an explicit call, the runtime never changes
	// the number, for which it would stop all threads.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	name, _ := unix.BytePtrFromString(starterName)
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0)
	for f := range c.starts {
		f()
	}
}

// start starts a program in a session of its own. From its first instruction on, the
// program is in the cgroup of jobs.
func (c *children) start(path string, argv []string, attr *syscall.ProcAttr) (pid int, end <-chan Exit, err error) {
	c.startOnce.Do(func() { go c.starter() }) // started late, since most nodes are idle and a thread takes memory
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

// fork starts a traced child, moves it into the cgroup of jobs, and lets it run. It returns the child's id
// and the channel of its end. It must run on the starter thread, since ptrace works per thread.
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

// gcThreshold is a heap size in bytes. While the heap is smaller, no garbage collection
// has begun, because the first one begins at more than twice this size.
const gcThreshold = 512 << 10

// pauseGC prevents garbage collections until resume is called. The kernel blocks the
// forking thread until the child executes its program. A collection would wait for the
// forking thread, and meanwhile stop all other threads, also that of killStopped. Then a
// user could stop the child, and so keep the node from starting programs. SetGCPercent
// prevents new collections. The call of GC returns when a running collection has ended.
// It costs memory, so pauseGC calls it only if a collection can have begun.
func pauseGC() (resume func()) {
	percent := debug.SetGCPercent(-1)
	figures := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(figures)
	if figures[0].Value.Uint64() > 0 || figures[1].Value.Uint64() > gcThreshold {
		runtime.GC()
	}
	return func() { debug.SetGCPercent(percent) }
}

// resume moves a traced child into the cgroup of jobs and lets it run. It returns the
// exit of a child that has already ended.
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
		if status.StopSignal() == unix.SIGTRAP { // stopped before its first instruction
			break
		}
		if err := unix.PtraceCont(pid, int(status.StopSignal())); err != nil {
			return nil, fmt.Errorf("cannot start a new process: %w", err)
		}
	}
	text := strconv.AppendInt(nil, int64(pid), 10)
	for _, fd := range c.jobs {
		if _, err := unix.Write(fd, text); err != nil {
			return nil, fmt.Errorf("cannot move a new process into the node's cgroup: %w", err)
		}
	}
	// PID 1 is exempt from the kernel's OOM killer; its children must not inherit that.
	if err := os.WriteFile("/proc/"+string(text)+"/oom_score_adj", []byte("0"), 0); err != nil {
		return nil, err
	}
	if err := unix.PtraceDetach(pid); err != nil {
		return nil, fmt.Errorf("cannot start a new process: %w", err)
	}
	return nil, nil
}

// reap collects all ended children, and reports the ends of those that fork started.
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

// signal sends a signal to the process group of a started process that has not ended.
func (c *children) signal(pid int, number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends[pid] != nil {
		unix.Kill(-pid, unix.Signal(number))
	}
}

// isEmpty reports whether PID 1 has no children. Then the node has no other process,
// since all of them descend from children of PID 1.
func (c *children) isEmpty() bool {
	c.reap()
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD
}

func exitOf(s unix.WaitStatus) *Exit {
	switch {
	case s.Exited():
		return &Exit{Status: s.ExitStatus()}
	case s.Signaled():
		return &Exit{Status: 128 + int(s.Signal()), Signal: int(s.Signal())}
	}
	return nil
}

// killStopped kills children that their user has stopped by a signal between fork and
// exec. No process could resume such a child, and meanwhile the kernel blocks the forking
// thread, and thus all further starts.
func killStopped(done <-chan struct{}) {
	tick := time.NewTicker(stuckTime)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		eachProcess(func(p process) {
			if p.parent == 1 && p.name == starterName && p.stopped {
				unix.Kill(p.pid, unix.SIGKILL)
			}
		})
	}
}
