package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"patchbay/am/display"
	"patchbay/am/service/dryrun"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/supervisor"
)

// companions runs the services of the providers of a served site. The fields from log to heartbeat
// are set before start.
type companions struct {
	log  *slog.Logger
	root bool // this process may start them
	// answers returns an error unless a service answers.
	answers func(ctx context.Context, c *Companion) error
	// retry is the pause before a service that has ended is first restarted. patience is the
	// longest time that a service may take to answer after its start, and to end.
	retry, patience time.Duration
	heartbeat       supervisor.Heartbeat

	running sync.WaitGroup
	started chan struct{} // closed when start returns

	mu sync.Mutex // guards the fields below
	// list is not changed in place.
	list    []*Companion
	handled map[*Companion]*handledCompanion // the services that startNew has handled
	ctx     context.Context                  // the context of all services; nil before start
	cancel  context.CancelFunc               // ends ctx
}

// handledCompanion is the state of a service in this process.
type handledCompanion struct {
	ctx    context.Context
	cancel context.CancelFunc // ends the service if this process runs it
	// own is true while this process runs the service, or will start it when it ends.
	own atomic.Bool
	// isUp is true after the service has answered, until it ends.
	isUp atomic.Bool
	done chan struct{} // closed when own has become false for ever
}

func newCompanions(list []*Companion, log *slog.Logger) *companions {
	return &companions{
		list: list, log: log, root: os.Geteuid() == 0, answers: func(ctx context.Context, c *Companion) error { return c.Answers(ctx) }, heartbeat: supervisor.Heartbeat{Every: 10 * time.Second, Limit: 2}, retry: time.Second, patience: 10 * time.Second,
		started: make(chan struct{}), handled: map[*Companion]*handledCompanion{}, cancel: func() {},
	}
}

// start waits until the services answer (see startNew), and then closes r.started. The services run
// until ctx ends.
func (r *companions) start(ctx context.Context) {
	defer close(r.started)
	r.mu.Lock()
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.mu.Unlock()
	r.startNew()
}

// startNew handles the services in r.list that were not handled yet. It starts those that do not
// answer, and waits until they answer, at most for the duration r.patience. A service that answers
// already is only watched; see replaceWhenEnded. If this process may not start a service, startNew
// logs the command for it.
func (r *companions) startNew() {
	unhandled := map[*Companion]*handledCompanion{}
	r.mu.Lock()
	for _, t := range r.list {
		if r.ctx != nil && r.handled[t] == nil {
			h := &handledCompanion{done: make(chan struct{})}
			h.ctx, h.cancel = context.WithCancel(r.ctx)
			r.handled[t], unhandled[t] = h, h
		}
	}
	r.mu.Unlock()
	var waiting sync.WaitGroup
	for t, h := range unhandled {
		log := r.log.With("provider", t.Provider, "instance", t.Settings.Instance)
		run := func(do func()) { // closes h.done at its end
			h.own.Store(true)
			r.running.Go(func() {
				defer close(h.done)
				defer h.own.Store(false)
				do()
			})
		}
		if t.implied {
			log.Warn("a later release will not start this service any more, unless the metadata name it; add the line below the key provider",
				"file", t.File, "line", fmt.Sprintf("  service: [%q, up, %q]", t.Command[0], filepath.Base(t.File)))
		}
		err := r.answers(h.ctx, t)
		switch {
		case err == nil:
			log.Info("the service of the provider runs already")
			if r.root {
				run(func() { r.replaceWhenEnded(h, t, log) })
				continue
			}
		case !r.root:
			log.Warn("the service of the provider does not answer, so its nodes cannot be made or reached; unless it runs, start it: "+display.AsRoot(t.Command...), "error", err)
		default:
			ready := make(chan struct{})
			run(func() { r.keepRunning(h, t, log, ready) })
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

// replaceWhenEnded watches a service that already runs, for the duration r.patience. If the
// server that started it was killed, the service ends in that time, and replaceWhenEnded starts it again.
// Otherwise another process has started the service.
func (r *companions) replaceWhenEnded(h *handledCompanion, t *Companion, log *slog.Logger) {
	ctx, limit := h.ctx, time.After(r.patience)
	h.isUp.Store(true)
	defer h.isUp.Store(false)
	for r.answers(ctx, t) == nil {
		select {
		case <-ctx.Done():
			return
		case <-limit:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	if ctx.Err() == nil {
		log.Info("the service of the provider that ran has ended")
		h.isUp.Store(false)
		r.keepRunning(h, t, log, make(chan struct{}))
	}
}

// add adds the companions of providers that have no service in r.list yet, and starts them.
func (r *companions) add(list []*Companion) {
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
func (r *companions) hasProvider(provider string) bool {
	return slices.ContainsFunc(r.list, func(t *Companion) bool { return t.Provider == provider })
}

// retire stops the companions whose providers are not in the given map.
func (r *companions) retire(providers map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(slices.Clone(r.list), func(t *Companion) bool {
		if providers[t.Provider] {
			return false
		}
		if h := r.handled[t]; h != nil {
			r.log.Info("the service of the provider is not used any more, so it is stopped", "provider", t.Provider, "instance", t.Settings.Instance)
			h.cancel()
		}
		delete(r.handled, t)
		return true
	})
}

// changedCompanion has the settings that a service has now, and those with which it was started.
type changedCompanion struct {
	now, before *Companion
	own         bool // this process runs it
}

// changed returns the companions whose settings or command have changed since they were started. It
// fails if the settings are wrong, or name another instance.
func (r *companions) changed(providers string) (list []changedCompanion, err error) {
	r.mu.Lock()
	present := r.list
	r.mu.Unlock() // decisions must not wait for the providers
	for _, t := range present {
		now, wrong := OpenCompanion(context.Background(), providers, t.Provider)
		switch {
		case wrong != nil:
			err = errors.Join(err, wrong)
		case now == nil || !t.hasChanged(now):
		case now.Settings.Instance != t.Settings.Instance:
			err = errors.Join(err, fmt.Errorf("%s: instance is %s, but the served one is %s, and its nodes would be lost; set it back", t.File, now.Settings.Instance, t.Settings.Instance))
		default:
			r.mu.Lock()
			h := r.handled[t]
			r.mu.Unlock()
			c := changedCompanion{now, t, h != nil && h.own.Load()}
			if c.own || now.Settings.Outdated {
				list = append(list, c)
			}
		}
	}
	return list, err
}

// report describes what a reload does with the changed settings.
func (c changedCompanion) report() Later {
	text := "the service of the provider restarts with the new settings; its nodes and open logins continue"
	if !c.own {
		text = "the new settings take effect when the service of the provider is restarted, by systemd or with: " + display.AsRoot(c.now.Command...)
	}
	now, before := c.now.Settings.Outbound, c.before.Settings.Outbound
	if now != nil && before != nil && *now != *before {
		text += "; existing nodes " + map[bool]string{true: "get", false: "lose"}[*now] + " Internet access, too"
	}
	return Later{c.now.File, text}
}

// restart starts a service that this process runs again, with its new settings, and waits until it
// answers as startNew does.
func (r *companions) restart(c changedCompanion) {
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

// awaitStart wraps lookup: the dry runs of a provider with a service wait until it answers, if this process
// starts it.
func (r *companions) awaitStart(lookup func(name string) (dryrun.Provider, bool)) func(name string) (dryrun.Provider, bool) {
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

// awaitingProvider is a provider whose Get waits until its service answers. Every dry run begins
// with a Get.
type awaitingProvider struct {
	dryrun.Provider
	name       string
	companions *companions
}

func (a awaitingProvider) Get(ctx context.Context, names []string) (map[string]provider.Result, error) {
	if !a.companions.await(ctx, a.name) {
		return nil, &provider.Error{Kind: provider.Failed, Temporary: true, Msg: "the service of the provider of this site is starting and does not answer yet"}
	}
	return a.Provider.Get(ctx, names)
}

// await waits, at most for the duration r.patience after the start, until a service that this process
// starts answers. It returns false if the service does not answer. It does not wait for other companions.
func (r *companions) await(ctx context.Context, provider string) bool {
	select {
	case <-r.started:
	case <-ctx.Done():
		return true // the provider's call reports it
	}
	limit := time.After(r.patience)
	for {
		r.mu.Lock()
		i := slices.IndexFunc(r.list, func(t *Companion) bool { return t.Provider == provider })
		var t *Companion
		var h *handledCompanion
		if i >= 0 {
			t = r.list[i]
			h = r.handled[t]
		}
		r.mu.Unlock()
		isStarting := t != nil && (h == nil || h.own.Load() && !h.isUp.Load())
		if !isStarting {
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

func (r *companions) stop() {
	r.mu.Lock()
	r.cancel()
	r.mu.Unlock()
	r.running.Wait()
}

var errStartedElsewhere = errors.New("the service of the provider was started by another process")

// keepRunning restarts the service when it ends, until ctx ends. It closes ready when the service
// answers for the first time, or ends without an answer.
func (r *companions) keepRunning(h *handledCompanion, t *Companion, log *slog.Logger, ready chan struct{}) {
	ctx := h.ctx
	answered := sync.OnceFunc(func() { close(ready) })
	run := func() error {
		defer answered()
		return r.run(h, t, log, answered)
	}
	supervisor.Backoff{First: r.retry, Longest: longestPause, Settled: longestPause}.Run(ctx.Done(), run, func(err error, pause time.Duration) bool {
		switch {
		case ctx.Err() != nil:
			return false
		case errors.Is(err, errStartedElsewhere):
			log.Info(err.Error())
			return false
		}
		log.Error("the service of the provider has ended; what it serves, such as logins, fails until it runs again; existing nodes continue", "error", err, "again_in", pause)
		return true
	})
}

// run starts the service, and returns when the service or h.ctx has ended. It calls answered when
// the service answers for the first time, ends before that, or h.ctx ends.
func (r *companions) run(h *handledCompanion, t *Companion, log *slog.Logger, answered func()) error {
	ctx := h.ctx
	if r.answers(ctx, t) == nil {
		return errStartedElsewhere
	}
	words, err := t.trustedCommand()
	if err != nil {
		return err
	}
	p, err := supervisor.Start(supervisor.Command{
		Path: words[0], Args: words, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/root", "LANG=C.UTF-8"},
		// Use a process group: Ctrl-C on the terminal must end only the server, which then ends the
		// service in order.
		Attr:   syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM},
		Stdout: true, MaxLine: maxLogLine, LinesPerSecond: maxLogLines,
		Log: func(line []byte) {
			if level, text := logLine(string(line)); text != "" {
				log.Log(context.Background(), level, text)
			}
		},
	})
	if err != nil {
		return err
	}
	log.Info("the service of the provider is started", "command", display.ShellLine(words), "pid", p.PID())
	for p.IsRunning() && ctx.Err() == nil && !h.isUp.Load() {
		if r.answers(ctx, t) == nil {
			h.isUp.Store(true)
			break
		}
		select {
		case <-p.Exited():
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	defer h.isUp.Store(false)
	answered()
	go r.watch(p, t, log)
	select {
	case <-p.Exited():
	case <-ctx.Done():
		if p.Stop(r.patience) {
			log.Error("the service of the provider does not end and is killed; it cleans up at its next start")
		}
	}
	if err := p.Wait(); err != nil {
		return err
	}
	return errors.New("it ended unexpectedly")
}

// watch logs when the service stops answering, and when it answers again, until the process ends.
// It does not kill a process that hangs: an operator may have stopped it on purpose, and logins
// may still work.
func (r *companions) watch(p *supervisor.Process, t *Companion, log *slog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-p.Exited(); cancel() }()
	ping := func() {
		for r.answers(ctx, t) != nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
	r.heartbeat.Watch(p.Exited(), ping, func(hangs bool) {
		switch {
		case ctx.Err() != nil:
		case hangs:
			log.Error("the service of the provider does not answer, so nodes are neither made nor removed; logins may still work. Find out what its process (pid) waits for, or end it with kill -9: the server restarts it, and no node is lost", "pid", p.PID())
		default:
			log.Info("the service of the provider answers again", "pid", p.PID())
		}
	})
}

// logLine returns the level and message of a log line of the service, without time and
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
