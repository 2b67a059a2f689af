package lxd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"patchbay/am/display"
	"patchbay/inventory/provider"
)

const (
	maxParallel  = 256                   // new nodes at once, and as many changes of others
	maxOnMember  = 8                     // of them, those of one member
	maxLate      = 2                     // nodes of one member at once that did not answer in time
	lookInterval = 50 * time.Millisecond // between two looks into the folder
	idleTime     = 5 * time.Second       // after which a worker without work ends
	tryTime      = 10 * time.Minute      // until a node that cannot become as requested has failed
	maxPause     = 15 * time.Second      // between two attempts
	stopTime     = 20                    // seconds that a node has to shut down
	maxMessage   = 500                   // bytes
	peersTime    = 10 * time.Second      // in which older nodes learn the name of a new one, before its steps begin
)

// worker carries out what the folder requests. One process of a provider is the worker.
type worker struct {
	*program
	tasks sync.WaitGroup
	// creations are for nodes that are new, and changes for others. Users may have made these slow, so those
	// that did not answer in time go on in the slots late.
	creations, changes, late slots

	mu      sync.Mutex
	active  map[string]bool
	created map[string]bool               // nodes whose instances this worker has created
	ends    map[string]context.CancelFunc // ends the watching of a node's steps

	// linking guards changes of the devices of existing nodes, which are read before they are written.
	linking sync.Mutex

	// Choices for nodes that the cluster does not have yet; allocating guards them.
	allocating sync.Mutex
	bridges    map[string]string     // by link
	ports      map[string]int        // by node
	addresses  map[netip.Addr]string // nodes
	listed     []instance
	listedAt   time.Time

	failed     map[string]time.Time // the times of files with a failure
	settled    sync.Map             // a settled by the name of the node
	templating sync.Map             // a *sync.Mutex by the name of the member
	templates  sync.Map             // names of complete templates
}

func newWorker(p *program) *worker {
	return &worker{
		program: p, creations: newSlots(maxOnMember), changes: newSlots(maxOnMember), late: newSlots(maxLate), active: map[string]bool{}, created: map[string]bool{},
		ends: map[string]context.CancelFunc{}, bridges: map[string]string{}, ports: map[string]int{}, addresses: map[netip.Addr]string{},
	}
}

// Work runs the worker of the provider called name until there is nothing to do, or another
// worker runs.
func Work(ctx context.Context, dir, name string) error {
	return work(ctx, dir, name, idleTime, &boundedLog{file: os.Stderr})
}

// boundedLog begins its file anew when it has written maxLog bytes.
type boundedLog struct {
	mu   sync.Mutex
	file *os.File
	size int
}

func (l *boundedLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size += len(text); l.size > maxLog {
		_ = l.file.Truncate(0)
		l.size = len(text)
	}
	return l.file.Write(text)
}

// version identifies the settings and the program. A worker ends when it changes.
func (p *program) version() string {
	program, _ := os.Readlink("/proc/self/exe") // it changes when the file is replaced
	info, err := os.Stat(p.folder.beside(".yaml"))
	if err != nil {
		return program
	}
	return fmt.Sprint(program, info.ModTime().UnixNano(), info.Size())
}

// work is Work for a worker that ends after the time idle without work, and writes to log.
func work(ctx context.Context, dir, name string, idle time.Duration, log io.Writer) error {
	p, err := open(dir, name)
	if err != nil {
		return err
	}
	p.log = log
	version := p.version()
	release, err := p.folder.claim()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	if err := p.folder.removeUnfinished(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := newWorker(p)
	resumed, resumedAt := w.resumeSteps(ctx), time.Now()
	for last := time.Now(); ctx.Err() == nil; pause(ctx, lookInterval) {
		if p.version() != version {
			cancel()
			w.tasks.Wait()
			return nil // the next call of get starts another worker
		}
		if !resumed && time.Since(resumedAt) > maxPause {
			resumed, resumedAt = w.resumeSteps(ctx), time.Now()
		}
		busy, err := w.look(ctx)
		if err != nil {
			return err
		}
		if busy {
			last = time.Now()
		}
		if time.Since(last) < idle {
			continue
		}
		// No set can write a file between the last look and the end of this worker's claim.
		unlock, err := p.folder.lock()
		if err != nil {
			return err
		}
		if busy, err = w.look(ctx); !busy || err != nil {
			release()
			unlock()
			return err
		}
		unlock()
	}
	w.tasks.Wait()
	return ctx.Err()
}

// look starts a task for each node that has none, and reports whether any task runs.
func (w *worker) look(ctx context.Context) (busy bool, err error) {
	ids, err := w.folder.ids()
	if err != nil {
		return false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	failed := map[string]time.Time{}
	for _, id := range ids {
		end := w.ends[id]
		if w.active[id] && end == nil {
			continue
		}
		at := w.folder.modified(id)
		if before, ok := w.failed[id]; ok && before.Equal(at) {
			failed[id] = at
			continue
		}
		wanted, err := w.folder.read(id)
		if err != nil || wanted == nil {
			continue
		}
		switch {
		case wanted.Failed != "":
			failed[id] = at // its steps are watched on
		case end != nil:
			end() // a step may run for ever, and the request comes first
		default:
			w.start(ctx, id)
		}
	}
	w.failed = failed
	return len(w.active) > 0, nil
}

// start starts the task of a node: it settles the node, and then runs its steps until another request comes. The caller
// must hold w.mu.
func (w *worker) start(ctx context.Context, id string) {
	w.active[id] = true
	w.tasks.Go(func() {
		if !w.settle(ctx, id) {
			w.mu.Lock()
			delete(w.active, id)
			w.mu.Unlock()
			return
		}
		steps, cancel := context.WithCancel(ctx)
		defer cancel()
		w.mu.Lock()
		w.ends[id] = cancel
		w.mu.Unlock()
		w.awaitPeers(steps)
		w.runSteps(steps, id)
		w.mu.Lock()
		delete(w.ends, id)
		delete(w.active, id)
		w.mu.Unlock()
	})
}

// resumeSteps continues the steps of nodes that an earlier worker left. It reports whether it knows all
// nodes, also those of members that do not answer.
func (w *worker) resumeSteps(ctx context.Context) (known bool) {
	all, err := w.client.instances(ctx)
	if err != nil {
		w.logf("the steps of nodes are not continued yet: %v", err)
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	known = true
	for i := range all {
		known = known && all[i].Status != statusError
		if all[i].hasOpenSteps() && !w.active[all[i].node().Name] {
			w.start(ctx, all[i].node().Name)
		}
	}
	return known
}

func (w *worker) logf(format string, args ...any) {
	fmt.Fprintln(w.log, time.Now().UTC().Format(time.RFC3339), oneLine(fmt.Sprintf(format, args...)))
}

// errAgain means that the node has come closer to what is requested, and something remains.
var errAgain = errors.New("again")

// settle brings the node to its file's state, and then removes the file, or records why that is not possible. It
// reports whether the node may have steps.
func (w *worker) settle(ctx context.Context, id string) (mayHaveSteps bool) {
	late := false
	for attempt := 0; ctx.Err() == nil; {
		wanted, err := w.folder.read(id)
		if wanted == nil || err != nil || wanted.Failed != "" {
			return true
		}
		chosen := w.changes
		if wanted.New || wanted.Node.Ensure == provider.Absent && !wanted.Node.hasUninstall() {
			chosen = w.creations
		}
		if late {
			chosen = w.late
		}
		release := chosen.take(wanted.Node.Component)
		bounded, cancel := context.WithTimeoutCause(ctx, tryTime, fmt.Errorf("the cluster has not finished after %s", tryTime))
		if err = w.approach(bounded, wanted); bounded.Err() != nil && ctx.Err() == nil {
			err = context.Cause(bounded)
		}
		cancel()
		release()                                                          // not during pauses
		late = errors.Is(err, errLate) || late && errors.Is(err, errAgain) // until it is done or fails otherwise
		switch {
		case errors.Is(err, errAgain):
			attempt = 0
			continue
		case err == nil:
			if w.finish(id, wanted) {
				return len(wanted.Node.Setup) > 0 || wanted.Node.ChangeSerial != "" // a step that was dropped may run
			}
			continue
		}
		w.logf("%s: %v", id, err)
		if isFinal(err) || time.Since(wanted.Since) > tryTime && wanted.Node.Ensure == provider.Present {
			w.fail(id, wanted, err)
			return true
		}
		attempt++
		pause(ctx, min(maxPause, time.Duration(attempt)*500*time.Millisecond))
	}
	return false
}

// slots bound what happens at once. Each member has its own, so that a slow one does not keep the
// nodes of others waiting.
type slots struct {
	all      chan struct{}
	onMember int
	ofMember *sync.Map // a channel by the name of the member
}

func newSlots(onMember int) slots {
	return slots{make(chan struct{}, maxParallel), onMember, new(sync.Map)}
}

// take waits for a slot of the member, and returns the function that releases it.
func (s slots) take(member string) (release func()) {
	own, _ := s.ofMember.LoadOrStore(member, make(chan struct{}, s.onMember))
	own.(chan struct{}) <- struct{}{}
	s.all <- struct{}{}
	return func() {
		<-s.all
		<-own.(chan struct{})
	}
}

// isFinal reports whether another attempt cannot succeed.
func isFinal(err error) bool {
	if _, ok := errors.AsType[*provider.Error](err); ok {
		return true
	}
	e, ok := errors.AsType[*apiError](err)
	return ok && (e.Status == 403 || e.Status == 400 && !isBusy(e.Message))
}

// isBusy reports whether the server only lacks time: other operations hold the instance.
func isBusy(message string) bool {
	for _, part := range []string{"busy", "Busy", "event connection", "already running", "already stopped", "Timeout", "timeout", "deadline", "database is locked", "context canceled", "connection refused", "not the leader", "leader", "EOF", "bad connection", "Failed to fetch", "failed to begin transaction", "Failed to begin transaction"} {
		if strings.Contains(message, part) {
			return true
		}
	}
	return false
}

// finish removes the file unless it has changed. It reports whether the node is settled.
func (w *worker) finish(id string, done *pending) bool {
	unlock, err := w.folder.lock()
	if err != nil {
		return false
	}
	defer unlock()
	now, err := w.folder.read(id)
	if err != nil || now == nil {
		return err == nil
	}
	if !now.Since.Equal(done.Since) {
		return false
	}
	return w.folder.remove(id) == nil
}

// fail records why the node cannot become as requested.
func (w *worker) fail(id string, wanted *pending, cause error) {
	if wanted.Refresh {
		w.finish(id, wanted)
		return
	}
	w.change(id, wanted, func(p *pending) { p.Failed = oneLine(cause.Error()) })
}

// progress tells experimenters what happens to the node.
func (w *worker) progress(wanted *pending, text string) {
	if wanted.Progress == text {
		return
	}
	wanted.Progress = text
	w.change(wanted.Node.Name, wanted, func(p *pending) { p.Progress = text })
}

// change edits the file of a node, unless it is no longer about the same request.
func (w *worker) change(id string, wanted *pending, edit func(*pending)) {
	unlock, err := w.folder.lock()
	if err != nil {
		return
	}
	defer unlock()
	now, err := w.folder.read(id)
	if err != nil || now == nil || !now.Since.Equal(wanted.Since) {
		return
	}
	edit(now)
	if err := w.folder.write(now); err != nil {
		w.logf("%s: %v", id, err)
	}
}

// oneLine returns a message for experimenters.
func oneLine(s string) string {
	return display.Cut(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")), maxMessage)
}
