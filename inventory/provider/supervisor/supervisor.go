package supervisor

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// lastOutputTime limits how long Wait waits for the output of a process that has ended. The
// children of the process may still hold the other end of the pipe.
const lastOutputTime = 100 * time.Millisecond

const (
	pipeSize       = 64 << 10
	defaultMaxLine = 64 << 10
)

// Command describes how to start a child process. The process runs in the folder /.
type Command struct {
	Path string
	Args []string // with the name of the program first
	Env  []string
	// Files are the descriptors of the child process from 3 on. Start closes them in the
	// calling process, also after an error.
	Files []*os.File
	// Attr may have Pdeathsig. The child process then gets the signal when the calling
	// process ends, but not already at the end of the thread that started it.
	Attr syscall.SysProcAttr
	// Stdout adds the standard output to the log. The standard error is always logged.
	Stdout bool
	// Log is called with each line of output. The rest of a line beyond MaxLine bytes is
	// dropped, and so are lines beyond LinesPerSecond. A MaxLine of 0 means 64 KiB, and a
	// LinesPerSecond of 0 no limit.
	Log            func(line []byte)
	MaxLine        int
	LinesPerSecond int
}

// Process is a child process. Its methods may be called concurrently.
type Process struct {
	cmd     *exec.Cmd
	started time.Time
	exited  chan struct{}
	err     error
	ended   time.Time
}

// Start starts a process. The output is logged until the process has ended.
func Start(c Command) (*Process, error) {
	defer func() {
		for _, f := range c.Files {
			f.Close()
		}
	}()
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	attr := c.Attr
	p := &Process{exited: make(chan struct{}), started: time.Now(), cmd: &exec.Cmd{
		Path: c.Path, Args: c.Args, Dir: "/", Env: c.Env, Stderr: writer, ExtraFiles: c.Files, SysProcAttr: &attr,
	}}
	if c.Stdout {
		p.cmd.Stdout = writer
	}
	result := make(chan error)
	go func() {
		if attr.Pdeathsig != 0 {
			// The kernel sends the signal when the starting thread ends. So this thread
			// waits for the process, and ends after it.
			runtime.LockOSThread()
		}
		err := p.cmd.Start()
		writer.Close()
		result <- err
		if err == nil {
			p.wait(reader, c)
		}
	}()
	if err := <-result; err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	return p, nil
}

// wait logs the output until the process has ended, and records its end.
func (p *Process) wait(output *os.File, c Command) {
	defer close(p.exited)
	defer output.Close()
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		logLines(&pipeReader{File: output, left: pipeSize}, c)
	}()
	p.err = p.cmd.Wait()
	p.ended = time.Now()
	_ = output.SetReadDeadline(time.Now().Add(lastOutputTime))
	<-logged
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the process has ended and its output is
// logged.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// IsRunning reports whether the process has not ended yet.
func (p *Process) IsRunning() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Wait waits for the end of the process, and returns the same error as exec.Cmd.Wait.
func (p *Process) Wait() error {
	<-p.exited
	return p.err
}

// RunTime waits for the end of the process, and returns how long it ran.
func (p *Process) RunTime() time.Duration {
	<-p.exited
	return p.ended.Sub(p.started)
}

// Kill ends the process at once. It does not wait for the end.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() } // fails if the process has ended

// Stop sends SIGTERM, and kills the process after patience. It waits for the end, and
// reports whether it had to kill the process.
func (p *Process) Stop(patience time.Duration) (killed bool) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails if the process has ended
	select {
	case <-p.exited:
		return false
	case <-time.After(patience):
	}
	p.Kill()
	<-p.exited
	return true
}

// Backoff is the pause before a process that has ended is started again. The pause is
// First, and doubles each time up to Longest. After a process that ran longer than
// Settled it is First again.
type Backoff struct {
	First, Longest, Settled time.Duration

	last time.Duration
}

// Next returns the pause after a process that ran for the duration lived.
func (b *Backoff) Next(lived time.Duration) time.Duration {
	if lived > b.Settled {
		b.last = 0
	}
	b.last = min(max(b.First, 2*b.last), b.Longest)
	return b.last
}

// Run calls runOnce repeatedly. Each call must start a process and return when the process
// has ended. After each call, Run calls onEnd with the error and the next pause, and then
// waits for that pause. Run returns when onEnd returns false, or when stop is closed during a
// pause.
func (b Backoff) Run(stop <-chan struct{}, runOnce func() error, onEnd func(err error, pause time.Duration) bool) {
	for {
		started := time.Now()
		err := runOnce()
		pause := b.Next(time.Since(started))
		if !onEnd(err, pause) {
			return
		}
		select {
		case <-time.After(pause):
		case <-stop:
			return
		}
	}
}

// logLines calls c.Log with the lines of the output, within the limits of c, until the output ends.
func logLines(output io.Reader, c Command) {
	size := c.MaxLine
	if size == 0 {
		size = defaultMaxLine
	}
	b := bufio.NewReaderSize(output, size)
	second, lines := time.Now(), 0
	for {
		line, more, err := b.ReadLine()
		if err != nil {
			return
		}
		if time.Since(second) > time.Second {
			second, lines = time.Now(), 0
		}
		if lines++; c.LinesPerSecond == 0 || lines <= c.LinesPerSecond {
			c.Log(line)
		}
		for more && err == nil { // the rest of a long line
			_, more, err = b.ReadLine()
		}
	}
}

// pipeReader reads a pipe. After the read deadline it still returns the data that is already
// in the pipe: on a busy host the reader may be late, and the last output says why the process
// has ended.
type pipeReader struct {
	*os.File
	// left is the number of bytes that may still be read after the deadline. Without this
	// limit, reading would not end while another process still writes into the pipe.
	left int
}

func (r *pipeReader) Read(b []byte) (int, error) {
	n, err := r.File.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	raw, e := r.SyscallConn()
	if e != nil {
		return 0, err
	}
	var late error
	e = raw.Control(func(fd uintptr) { n, late = syscall.Read(int(fd), b[:min(len(b), r.left)]) })
	if e != nil || late != nil || n <= 0 {
		return 0, err
	}
	r.left -= n
	return n, nil
}
