package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"patchbay/am/display"
	"patchbay/am/dryrun"
	"patchbay/am/supervisor"
	"patchbay/inventory/local"
	"patchbay/inventory/provider"
)

// testbeds runs the local testbeds of a served site. The fields from log to patience
// are set before start.
type testbeds struct {
	log  *slog.Logger
	root bool // this process may start them
	// socket returns the path of the socket at which an instance answers.
	socket func(instance string) string
	// retry is the pause before a testbed that has ended is first restarted. patience is the
	// longest time that a testbed may take to answer after its start, and to end.
	retry, patience time.Duration

	running sync.WaitGroup
	started chan struct{} // closed when start returns

	mu      sync.Mutex // guards the fields below
	list    []*Testbed
	handled map[*Testbed]*handledTestbed // the testbeds that startNew has handled
	ctx     context.Context              // the context of all testbeds; nil before start
	cancel  context.CancelFunc           // ends ctx
}

// handledTestbed is the state of a testbed in this process.
type handledTestbed struct {
	ctx    context.Context
	cancel context.CancelFunc // ends the testbed if this process runs it
	// own is true while this process runs the testbed, or will start it when it ends.
	own  atomic.Bool
	done chan struct{} // closed when own has become false for ever
}

func newTestbeds(list []*Testbed, log *slog.Logger) *testbeds {
	return &testbeds{
		list: list, log: log, root: os.Geteuid() == 0, socket: local.Socket, retry: time.Second, patience: 10 * time.Second,
		started: make(chan struct{}), handled: map[*Testbed]*handledTestbed{}, cancel: func() {},
	}
}

// start waits until the testbeds answer (see startNew), and then closes r.started. The testbeds run
// until ctx ends.
func (r *testbeds) start(ctx context.Context) {
	defer close(r.started)
	r.mu.Lock()
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.mu.Unlock()
	r.startNew()
}

// startNew starts the testbeds in r.list that were not started yet and do not run. It waits
// until they answer, at most for the duration r.patience. If this process may not start a
// testbed, startNew logs the command for it.
func (r *testbeds) startNew() {
	all := map[*Testbed]*handledTestbed{}
	r.mu.Lock()
	for _, t := range r.list {
		if r.ctx != nil && r.handled[t] == nil {
			h := &handledTestbed{done: make(chan struct{})}
			h.ctx, h.cancel = context.WithCancel(r.ctx)
			r.handled[t], all[t] = h, h
		}
	}
	r.mu.Unlock()
	var waiting sync.WaitGroup
	for t, h := range all {
		log := r.log.With("provider", t.Provider, "instance", t.Instance)
		run := func(do func()) {
			h.own.Store(true)
			r.running.Go(func() {
				defer close(h.done)
				defer h.own.Store(false)
				do()
			})
		}
		_, err := t.List(h.ctx, r.socket)
		switch {
		case err == nil:
			log.Info("the local testbed runs already")
			if r.root {
				run(func() { r.replaceWhenEnded(h.ctx, t, log) })
				continue
			}
		case !errors.Is(err, local.ErrDown):
			log.Error("the local testbed runs already, but does not answer requests", "error", err)
		case !r.root:
			log.Warn("the local testbed does not run, so its nodes cannot be made or reached; start it: " + display.AsRoot(t.Command()...))
		default:
			ready := make(chan struct{})
			run(func() { r.keepRunning(h.ctx, t, log, ready) })
			waiting.Go(func() {
				select {
				case <-ready:
				case <-time.After(r.patience):
				case <-h.ctx.Done():
				}
			})
			continue
		}
		close(h.done)
	}
	waiting.Wait()
}

// replaceWhenEnded watches a testbed that already runs, for the duration r.patience. If the
// testbed's server was killed, the testbed ends in that time, and replaceWhenEnded starts it again.
// Otherwise another process has started the testbed.
func (r *testbeds) replaceWhenEnded(ctx context.Context, t *Testbed, log *slog.Logger) {
	limit := time.After(r.patience)
	for t.Runs(ctx, r.socket) {
		select {
		case <-ctx.Done():
			return
		case <-limit:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	if ctx.Err() == nil {
		log.Info("the local testbed that ran has ended")
		r.keepRunning(ctx, t, log, make(chan struct{}))
	}
}

// add adds the testbeds of providers that have no testbed in r.list yet, and starts them.
func (r *testbeds) add(list []*Testbed) {
	r.mu.Lock()
	for _, t := range list {
		if !r.hasProvider(t.Provider) {
			r.list = append(slices.Clip(r.list), t)
		}
	}
	r.mu.Unlock()
	r.startNew()
}

// hasProvider must be called with r.mu held.
func (r *testbeds) hasProvider(provider string) bool {
	return slices.ContainsFunc(r.list, func(t *Testbed) bool { return t.Provider == provider })
}

// retire stops the testbeds whose providers are not in the given map.
func (r *testbeds) retire(providers map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(slices.Clone(r.list), func(t *Testbed) bool {
		if providers[t.Provider] {
			return false
		}
		if h := r.handled[t]; h != nil {
			r.log.Info("the local testbed is not used any more, so it is stopped", "provider", t.Provider, "instance", t.Instance)
			h.cancel()
		}
		delete(r.handled, t)
		return true
	})
}

// changedTestbed has the settings that a testbed has now, and those with which it was started.
type changedTestbed struct {
	now, before *Testbed
	own         bool // this process runs it
}

// changed returns the testbeds whose settings have changed since they were started. It fails if the
// settings are wrong, or name another instance.
func (r *testbeds) changed(providers string) (list []changedTestbed, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.list {
		now, wrong := OpenTestbed(providers, t.Provider)
		switch {
		case wrong != nil:
			err = errors.Join(err, wrong)
		case now == nil || reflect.DeepEqual(now.settings, t.settings):
		case now.Instance != t.Instance:
			err = errors.Join(err, fmt.Errorf("%s: instance is %s, but the served testbed is %s, and its nodes would be lost; set it back", t.Settings, now.Instance, t.Instance))
		default:
			h := r.handled[t]
			c := changedTestbed{now, t, h != nil && h.own.Load()}
			if c.own || !r.isRestarted(t) {
				list = append(list, c)
			}
		}
	}
	return list, err
}

// isRestarted reports whether a testbed of another process was started after the last change of its
// settings.
func (r *testbeds) isRestarted(t *Testbed) bool {
	settings, err := os.Stat(t.Settings)
	socket, err2 := os.Stat(r.socket(t.Instance))
	return err == nil && err2 == nil && socket.ModTime().After(settings.ModTime())
}

// report describes what a reload does with the changed settings.
func (c changedTestbed) report() Later {
	text := "the local testbed restarts with the new settings; its nodes and open logins continue"
	if !c.own {
		text = "the new settings take effect when the local testbed is restarted, by its service or with: " + display.AsRoot(c.now.Command()...)
	}
	if c.now.Outbound != c.before.Outbound {
		text += "; existing nodes " + map[bool]string{true: "get", false: "lose"}[c.now.Outbound] + " Internet access, too"
	}
	if !slices.Equal(c.now.settings.SliverTypes, c.before.settings.SliverTypes) {
		text += "; sliver_types takes effect only for new nodes"
	}
	return Later{c.now.Settings, text}
}

// restart starts a testbed that this process runs again, with its new settings, and waits until it
// answers as startNew does.
func (r *testbeds) restart(c changedTestbed) {
	r.mu.Lock()
	h := r.handled[c.before]
	r.mu.Unlock()
	h.cancel()
	<-h.done
	r.mu.Lock()
	delete(r.handled, c.before)
	r.list = slices.Clone(r.list)
	if i := slices.Index(r.list, c.before); i >= 0 {
		r.list[i] = c.now
	}
	r.mu.Unlock()
	r.startNew()
}

// awaitStart wraps lookup: the dry runs of a local testbed wait until it answers, if this process
// starts it.
func (r *testbeds) awaitStart(lookup func(name string) (dryrun.Provider, bool)) func(name string) (dryrun.Provider, bool) {
	return func(name string) (dryrun.Provider, bool) {
		p, ok := lookup(name)
		r.mu.Lock()
		defer r.mu.Unlock()
		if ok && r.hasProvider(name) {
			p = awaitingProvider{p, name, r}
		}
		return p, ok
	}
}

// awaitingProvider is a provider whose Get waits until its testbed answers. Every dry run begins
// with a Get.
type awaitingProvider struct {
	dryrun.Provider
	name     string
	testbeds *testbeds
}

func (a awaitingProvider) Get(ctx context.Context, names []string) (map[string]provider.Result, error) {
	if !a.testbeds.await(ctx, a.name) {
		return nil, &provider.Error{Kind: provider.Failed, Temporary: true, Msg: "the local testbed of this site is starting and does not answer yet"}
	}
	return a.Provider.Get(ctx, names)
}

// await waits, at most for the duration r.patience after the start, until a testbed that this process
// starts answers. It returns false if the testbed does not answer. It does not wait for other testbeds.
func (r *testbeds) await(ctx context.Context, provider string) bool {
	select {
	case <-r.started:
	case <-ctx.Done():
		return true // the provider's call reports it
	}
	limit := time.After(r.patience)
	for {
		r.mu.Lock()
		i := slices.IndexFunc(r.list, func(t *Testbed) bool { return t.Provider == provider })
		var t *Testbed
		var h *handledTestbed
		if i >= 0 {
			t = r.list[i]
			h = r.handled[t]
		}
		r.mu.Unlock()
		if t == nil || h != nil && !h.own.Load() || t.Runs(ctx, r.socket) {
			return true
		}
		select {
		case <-limit:
			return false
		case <-ctx.Done():
			return true
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (r *testbeds) stop() {
	r.mu.Lock()
	r.cancel()
	r.mu.Unlock()
	r.running.Wait()
}

var errStartedElsewhere = errors.New("the local testbed was started by another process")

// keepRunning restarts the testbed when it ends, until ctx ends. It closes ready when the testbed
// answers for the first time, or ends without an answer.
func (r *testbeds) keepRunning(ctx context.Context, t *Testbed, log *slog.Logger, ready chan struct{}) {
	answered := sync.OnceFunc(func() { close(ready) })
	run := func() error {
		defer answered()
		return r.run(ctx, t, log, answered)
	}
	supervisor.Backoff{First: r.retry, Longest: longestPause, Settled: longestPause}.Run(ctx.Done(), run, func(err error, pause time.Duration) bool {
		switch {
		case ctx.Err() != nil:
			return false
		case errors.Is(err, errStartedElsewhere):
			log.Info(err.Error())
			return false
		}
		log.Error("the local testbed has ended; its nodes continue, but logins fail until it runs again", "error", err, "again_in", pause)
		return true
	})
}

// run returns when the testbed or ctx has ended. It calls answered when the testbed answers for the
// first time, ends before that, or ctx ends.
func (r *testbeds) run(ctx context.Context, t *Testbed, log *slog.Logger, answered func()) error {
	if t.Runs(ctx, r.socket) {
		return errStartedElsewhere
	}
	words, err := t.trustedCommand()
	if err != nil {
		return err
	}
	p, err := supervisor.Start(supervisor.Command{
		Path: words[0], Args: words, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/root", "LANG=C.UTF-8"},
		// Use a process group: Ctrl-C on the terminal must end only the server, which then ends the
		// testbed in order.
		Attr:   syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM},
		Stdout: true, MaxLine: maxLogLine,
		Log: func(line []byte) {
			if level, text := logLine(string(line)); text != "" {
				log.Log(context.Background(), level, text)
			}
		},
	})
	if err != nil {
		return err
	}
	log.Info("the local testbed is started", "command", display.ShellLine(words), "pid", p.PID())
	for p.IsRunning() && ctx.Err() == nil && !t.Runs(ctx, r.socket) {
		select {
		case <-p.Exited():
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	answered()
	go t.watch(p, r.socket, log)
	select {
	case <-p.Exited():
	case <-ctx.Done():
		if p.Stop(r.patience) {
			log.Error("the local testbed does not end and is killed; it cleans up at its next start")
		}
	}
	if err := p.Wait(); err != nil {
		return err
	}
	return errors.New("it ended unexpectedly")
}

// logLine returns the level and message of a log line of the testbed, without time and
// quotes.
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
