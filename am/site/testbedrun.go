package site

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"patchbay/am/display"
	"patchbay/am/dryrun"
	"patchbay/inventory/local"
	"patchbay/inventory/provider"
)

// testbeds runs the local testbeds of a served site while it is served. The
// fields from log to patience are set before start.
type testbeds struct {
	log   *slog.Logger
	State string // a folder for the state, for a site that lasts no longer than it is served
	root  bool   // this process may start them
	// Socket is where an instance answers.
	Socket func(instance string) string
	// retry is the pause before the first new start, and patience how long one
	// may take until it answers, and until it ends.
	retry, Patience time.Duration

	running sync.WaitGroup
	started chan struct{} // closed when start has waited

	mu     sync.Mutex // guards what follows
	list   []*Testbed
	ends   map[*Testbed]context.CancelFunc // of those that were begun
	ctx    context.Context                 // in which they run; nil before start
	cancel context.CancelFunc              // ends it
}

func newTestbeds(list []*Testbed, log *slog.Logger) *testbeds {
	return &testbeds{
		list: list, log: log, root: os.Geteuid() == 0, Socket: local.Socket, retry: time.Second, Patience: 10 * time.Second,
		started: make(chan struct{}), ends: map[*Testbed]context.CancelFunc{}, cancel: func() {},
	}
}

// longestPause is the longest between two starts of a testbed that ends at once.
const longestPause = time.Minute

// start starts every testbed that does not run, if it may, and waits a little
// until they answer; what it may not, it says how to do.
func (r *testbeds) start(ctx context.Context) {
	defer close(r.started)
	r.mu.Lock()
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.mu.Unlock()
	r.begin()
}

// begin starts those that were not begun yet, and waits a little for them.
func (r *testbeds) begin() {
	type beginning struct {
		*Testbed
		ctx context.Context
	}
	var all []beginning
	r.mu.Lock()
	for _, t := range r.list {
		if r.ctx != nil && r.ends[t] == nil {
			b := beginning{Testbed: t}
			b.ctx, r.ends[t] = context.WithCancel(r.ctx)
			all = append(all, b)
		}
	}
	r.mu.Unlock()
	var waiting sync.WaitGroup
	for _, t := range all {
		log := r.log.With("provider", t.Provider, "instance", t.Instance)
		_, err := t.List(t.ctx, r.Socket)
		switch {
		case err == nil:
			log.Info("the local testbed runs already")
		case !errors.Is(err, local.ErrDown):
			log.Error("the local testbed runs already, but cannot be asked", "error", err)
		case !r.root:
			log.Warn("the local testbed does not run, so its nodes cannot be made or reached; start it: " + display.AsRoot(t.Command(r.State)...))
		default:
			ready := make(chan struct{})
			r.running.Go(func() { r.keep(t.ctx, t.Testbed, log, ready) })
			waiting.Go(func() {
				select {
				case <-ready:
				case <-time.After(r.Patience):
				case <-t.ctx.Done():
				}
			})
		}
	}
	waiting.Wait()
}

// follow has all of list run, beside those that run already.
func (r *testbeds) follow(list []*Testbed) {
	r.mu.Lock()
	for _, t := range list {
		if !r.has(t.Provider) {
			r.list = append(slices.Clip(r.list), t)
		}
	}
	r.mu.Unlock()
	r.begin()
}

// has tells whether a provider is one of them; mu is held.
func (r *testbeds) has(provider string) bool {
	return slices.ContainsFunc(r.list, func(t *Testbed) bool { return t.Provider == provider })
}

// retire ends those that nobody needs any more.
func (r *testbeds) retire(needed map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(slices.Clone(r.list), func(t *Testbed) bool {
		if needed[t.Provider] {
			return false
		}
		if end := r.ends[t]; end != nil {
			r.log.Info("nothing needs the local testbed any more", "provider", t.Provider, "instance", t.Instance)
			end()
		}
		delete(r.ends, t)
		t.letGo()
		return true
	})
}

// await lets those who are to be asked before something is promised wait until the
// testbeds had their time to start, or the first call would be told that they do not run.
func (r *testbeds) await(find func(name string) (dryrun.Provider, bool)) func(name string) (dryrun.Provider, bool) {
	return func(name string) (dryrun.Provider, bool) {
		p, ok := find(name)
		r.mu.Lock()
		defer r.mu.Unlock()
		if ok && r.has(name) {
			p = awaited{p, r.started}
		}
		return p, ok
	}
}

// awaited is a provider that is asked anything only when started is closed. A probe
// begins with a get.
type awaited struct {
	dryrun.Provider
	started <-chan struct{}
}

func (a awaited) Get(ctx context.Context, names []string) (map[string]provider.Result, error) {
	select {
	case <-a.started:
	case <-ctx.Done():
	}
	return a.Provider.Get(ctx, names)
}

// stop ends all that were started, and waits for them.
func (r *testbeds) stop() {
	r.mu.Lock()
	r.cancel()
	r.mu.Unlock()
	r.running.Wait()
}

// keep runs one testbed until ctx ends, again and again if need be. ready is
// closed when it answers for the first time, or has ended without.
func (r *testbeds) keep(ctx context.Context, t *Testbed, log *slog.Logger, ready chan struct{}) {
	// The kernel ends the child when the thread that started it ends, so that it
	// does not outlive a server that is killed; this one ends after it.
	runtime.LockOSThread()
	told := sync.OnceFunc(func() { close(ready) })
	defer told()
	for pause := r.retry; ; pause = min(2*pause, longestPause) {
		begun := time.Now()
		err := r.run(ctx, t, log, told)
		told()
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > longestPause {
			pause = r.retry
		}
		log.Error("the local testbed has ended; its nodes go on, but nobody can log in until it is back", "error", err, "again_in", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if t.Runs(ctx, r.Socket) {
			log.Info("the local testbed was started by somebody else")
			return
		}
	}
}

// run runs a testbed once, until it ends or ctx does; answered is called when it
// answers.
func (r *testbeds) run(ctx context.Context, t *Testbed, log *slog.Logger, answered func()) error {
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reader.Close()
	words := t.Command(r.State)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/root", "LANG=C.UTF-8"}
	cmd.Stdout, cmd.Stderr = writer, writer
	// Its own group: a Ctrl-C on the terminal is the server's, which ends it in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	err = cmd.Start()
	writer.Close()
	if err != nil {
		return err
	}
	log.Info("the local testbed is started", "command", display.ShellLine(words), "pid", cmd.Process.Pid)
	var logging sync.WaitGroup
	logging.Go(func() { copyLines(&written{File: reader, most: pipeBytes}, log) })
	ended := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() {
		for !t.Runs(ctx, r.Socket) {
			select {
			case <-ended:
				return
			case <-ctx.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
		answered()
	})
	helpers.Go(func() { // ends it with ctx, in order if it obeys
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(r.Patience):
			log.Error("the local testbed does not end and is killed; it puts things in order when it is started next")
			cmd.Process.Kill()
		}
	})
	err = cmd.Wait()
	close(ended)
	helpers.Wait()
	reader.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // what it started may hold the other end
	logging.Wait()
	if err == nil {
		err = errors.New("it ended by itself")
	}
	return err
}

// pipeBytes is what a pipe holds.
const pipeBytes = 64 << 10

// written is the end of a pipe to read, of which what was written before the deadline
// of reading is read after it, too: on a busy host the reader may come late, and the
// last words are why a program has ended.
type written struct {
	*os.File
	most int // that may be read after the deadline, for who holds the other end may write on
}

func (w *written) Read(b []byte) (int, error) {
	n, err := w.File.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	raw, e := w.SyscallConn()
	if e != nil {
		return 0, err
	}
	var late error
	e = raw.Control(func(fd uintptr) { n, late = syscall.Read(int(fd), b[:min(len(b), w.most)]) })
	if e != nil || late != nil || n <= 0 {
		return 0, err
	}
	w.most -= n
	return n, nil
}

// maxLogLine is the most of one line that is logged, in bytes.
const maxLogLine = 4 << 10

// copyLines logs what a testbed writes, line by line.
func copyLines(r io.Reader, log *slog.Logger) {
	for b := bufio.NewReaderSize(r, maxLogLine); ; {
		line, more, err := b.ReadLine()
		if err != nil {
			return
		}
		level, text := logLine(string(line))
		for more && err == nil { // the rest of a long line
			_, more, err = b.ReadLine()
		}
		if text != "" {
			log.Log(context.Background(), level, text)
		}
	}
}

// logLine takes the time and the level off a line of a log, and the quotes off
// its message.
func logLine(line string) (slog.Level, string) {
	level := slog.LevelInfo
	if strings.HasPrefix(line, "time=") {
		_, line, _ = strings.Cut(line, " ")
	}
	if rest, ok := strings.CutPrefix(line, "level="); ok {
		word, text, _ := strings.Cut(rest, " ")
		if level.UnmarshalText([]byte(word)) == nil {
			line = text
		}
	} else if rest, ok := strings.CutPrefix(line, "error: "); ok {
		level, line = slog.LevelError, rest
	}
	if rest, ok := strings.CutPrefix(line, "msg="); ok {
		line = rest
		if q, err := strconv.QuotedPrefix(rest); err == nil {
			text, _ := strconv.Unquote(q)
			line = text + rest[len(q):]
		}
	}
	return level, strings.TrimSpace(line)
}
