package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"patchbay/am/follow/hook"
	"patchbay/am/store"
)

// Announcement returns the line with the addresses at which the site listens. The third word of
// the line is a URL that works on this host.
func (s *Site) Announcement() string {
	line := "listening on " + s.LocalURL
	if s.PublicURL != s.LocalURL {
		line += ", for clients " + s.PublicURL
	}
	if url := s.PagesURL(); url != "" {
		line += ", pages " + url
	}
	if s.admin != nil {
		line += ", admin " + s.AdminURL()
	}
	return line
}

// Run serves calls until ctx ends or a part of the site fails; then it closes the site. At each
// signal from hup, it reads all files again. It also reads the trust folder, the policy and the
// maintenance file again when they change.
func (s *Site) Run(ctx context.Context, hup <-chan os.Signal) error {
	s.log.Info("serving", "authority", s.config.Authority, "url", s.PublicURL, "version", SoftwareVersion(), "read_only", s.config.readOnly,
		slog.Int("anchors", len(s.anchors.Load().List())), "pid", os.Getpid())
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { s.watchTrust(watching) })
	watchers.Go(func() { s.maintenance.watch(watching) })
	watchers.Go(func() { s.policy.watch(watching) })
	if !s.config.readOnly {
		watchers.Go(func() { s.prune(watching) })
		watchers.Go(func() { s.unlockRestored(watching) })
		watchers.Go(func() { s.watchCompanions(watching) })
		watchers.Go(func() { s.watchFound(watching) })
		watchers.Go(func() { s.watchFacts(watching) })
	}
	go s.reloadOnHangup(watching, hup) // not in watchers: a stop must not wait for a reload that hangs
	err := s.serve(ctx)
	stop()
	watchers.Wait()
	return err
}

func (s *Site) reloadOnHangup(ctx context.Context, hup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			if ctx.Err() == nil {
				s.reload(ctx)
			}
		}
	}
}

// hangup is the operator's name in the journal for reloads by SIGHUP.
const hangup = "SIGHUP"

// reload handles SIGHUP: it opens the audit again, and reads the site's files again. It stops
// early if ctx ends.
func (s *Site) reload(ctx context.Context) {
	if err := s.audit.Reopen(); err == nil {
		s.log.Info("the audit was opened again", "file", s.config.Audit)
	}
	s.reloadAnchors()
	_, err := s.reloadInventory(ctx, hangup)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		s.log.Error("the inventory file cannot be used; the previous inventory still applies", "error", err)
		s.policy.read("")
	}
	if err := s.remote.reload(); err != nil {
		s.log.Error("the token or certificates for metrics cannot be read; the previous ones stay in use", "error", err)
	}
	if err := s.pages.reload(); err != nil {
		s.log.Error("the certificate of the pages cannot be read; the previous one stays in use", "error", err)
	}
	if err := s.tls.Reload(); err != nil {
		s.log.Error("the server's certificates cannot be read; the previous ones stay in use", "error", err)
		return
	}
	s.log.Info("the server's certificates were read again")
}

// runRunner runs the runner until ctx ends. A read-only site has no runner.
func (s *Site) runRunner(ctx context.Context) error {
	if !s.config.readOnly {
		return s.runner.Run(ctx)
	}
	s.working.Store(true)
	<-ctx.Done()
	return nil
}

// startServers starts a server for each listener. A server that has ended sends its error to ended.
func (s *Site) startServers() (ended chan error, count int) {
	servers := []func() error{func() error { return s.server.Serve(s.tls.Listener(s.server.Limit(s.listener))) }}
	if s.admin != nil {
		servers = append(servers, func() error { return s.server.ServeAdmin(s.admin) })
	}
	if s.remote != nil {
		s.log.Info("metrics are served to other hosts", "address", s.remote.listener.Addr().String())
		servers = append(servers, func() error { return s.server.ServeRemote(s.remote.listener, s.remote.secure) })
	}
	if s.socket != nil {
		servers = append(servers, func() error { return s.server.ServeSocket(s.socket) })
	}
	if s.pages != nil {
		servers = append(servers, func() error { return s.server.ServePages(s.pages.listener, s.pages.secure(), s.pages.handler) })
	}
	ended = make(chan error, len(servers))
	for _, serve := range servers {
		go func() { ended <- serve() }()
	}
	return ended, len(servers)
}

// serve answers calls until ctx ends, or the runner or a server fails. Then it refuses new calls,
// waits for the calls in progress, and stops the runner, the hooks, the services of providers and
// the store, in this order.
func (s *Site) serve(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	workers, stopWorkers := context.WithCancel(context.WithoutCancel(ctx))
	runnerEnded := make(chan error, 1)
	go func() {
		err := s.runRunner(workers)
		s.working.Store(false)
		if err != nil && workers.Err() == nil {
			stop(fmt.Errorf("the runner has ended: %w", err))
		}
		runnerEnded <- err
	}()
	hooksContext, stopHooks := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHooks()
	hooksEnded := make(chan struct{})
	if s.config.readOnly {
		close(hooksEnded)
	} else {
		hooksEnded = s.runHooks(hooksContext)
	}
	var background sync.WaitGroup
	background.Go(func() { s.audit.Run(workers) })
	background.Go(func() { s.clock.Run(workers, s.log) })
	ended, serving := s.startServers()
	if err := notifySystemd("READY=1"); err != nil {
		s.log.Warn("systemd does not know that the site is served", "error", err)
	}
	var failed error
	select {
	case <-ctx.Done():
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			failed = cause
		}
	case failed = <-ended:
		serving--
	}
	_ = notifySystemd("STOPPING=1") // only for display
	s.log.Info("stopping: no new calls, finishing those in progress")
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.StopTimeout)
	defer cancel()
	if err := s.server.Shutdown(patience); err != nil {
		s.log.Warn("calls were cut off", "error", err)
	}
	for ; serving > 0; serving-- {
		<-ended
	}
	stopWorkers()
	<-runnerEnded
	stopHooks()
	<-hooksEnded
	background.Wait()
	s.companions.stop()
	s.audit.Stop()
	return errors.Join(failed, s.Close())
}

// checkReady returns an error if the site cannot serve calls, or if a provider does not
// answer.
func (s *Site) checkReady() error {
	if len(s.anchors.Load().List()) == 0 {
		return errors.New("the trust folder holds no certificate, so no user may call")
	}
	if !s.working.Load() {
		return errors.New("the runner does not run")
	}
	if err := s.audit.Err(); err != nil {
		return err
	}
	if err := s.store.Err(); err != nil {
		return err
	}
	if err := s.store.CheckPlace(); err != nil {
		return err
	}
	if err := s.store.Read(func(*store.View) error { return nil }); err != nil {
		return err
	}
	if text := ClockJump(s.clock.State()); text != "" {
		return errors.New(text)
	}
	return s.checkProviders()
}

// checkProviders returns an error with the names of the providers that do not answer. The site
// answers calls nevertheless.
func (s *Site) checkProviders() error {
	var errs []error
	for _, p := range s.runner.Polled() {
		if p.Silent {
			errs = append(errs, fmt.Errorf("provider %s has not answered since %s", p.Provider, p.Answered.UTC().Format(time.RFC3339)))
		}
	}
	return errors.Join(errs...)
}

// AdminURL returns the base URL for health and metrics, or "" if the site does not serve them
// on this host.
func (s *Site) AdminURL() string {
	if s.admin == nil {
		return ""
	}
	return "http://" + s.admin.Addr().String()
}

func (s *Site) openHooks(st *store.Store) (err error) {
	s.hooks, err = hook.New(hook.Config{Store: st, Site: s.config.Authority, Hooks: s.config.hooks(), Log: s.log})
	for i := range s.config.Hooks {
		if err := s.config.Hooks[i].Check(); err != nil {
			s.log.Error("a hook cannot be used; its events wait", "hook", s.config.Hooks[i].Name, "error", err)
		}
	}
	return err
}

// runHooks delivers events until ctx ends. It closes ended when the last delivery has ended.
func (s *Site) runHooks(ctx context.Context) (ended chan struct{}) {
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.hooks.Run(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("hooks receive no events any more; restart the server", "error", err)
		}
	}()
	return ended
}

const (
	// pruneEvery is the interval at which changes are removed. Old journal entries are removed in
	// every round of journalRounds.
	pruneEvery    = time.Minute
	journalRounds = 60
	// pruneBatch limits the entries that one transaction removes. pruneRest is the pause
	// between two such transactions, in which the changes of calls are committed.
	pruneBatch = 256
	pruneRest  = 100 * time.Millisecond
)

// prune removes changes that audit and hooks have read, and journal entries that are older than
// journal_keep.
func (s *Site) prune(ctx context.Context) {
	for n := 0; ; n++ {
		if err := s.store.PruneChanges(ctx, store.ChangeLimits{}); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			s.log.Warn("changes that audit and hooks have read cannot be removed; the server tries again in a minute", "error", err)
		}
		if s.config.JournalKeep > 0 && n%journalRounds == 0 {
			s.pruneJournal(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pruneEvery):
		}
	}
}

func (s *Site) pruneJournal(ctx context.Context) {
	removed := 0
	for {
		n, err := s.store.PruneJournal(ctx, s.store.Now().Add(-s.config.JournalKeep), pruneBatch)
		removed += n
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			s.log.Warn("old entries of the journal cannot be removed; the server tries again in an hour", "error", err)
		}
		if n < pruneBatch {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(pruneRest):
		}
	}
	if removed > 0 {
		s.log.Info("old entries of the journal were removed", "entries", removed, "journal_keep", s.config.JournalKeep)
	}
}

// onClose adds a function to those that Close calls.
func (s *Site) onClose(f func() error) { s.closers = append(s.closers, f) }

// Close closes what Open has opened, in the opposite order. Further calls do nothing.
func (s *Site) Close() (err error) {
	for i := range s.closers {
		err = errors.Join(err, s.closers[len(s.closers)-1-i]())
	}
	s.closers = nil
	return err
}
