package site

import (
	"context"
	"log/slog"
	"os"
	"sync"
)

// Announcement is the line that says where the site is; its third word is a URL
// that works on this host.
func (s *Site) Announcement() string {
	line := "listening on " + s.LocalURL
	if s.PublicURL != s.LocalURL {
		line += ", for clients " + s.PublicURL
	}
	if s.admin != nil {
		line += ", admin " + s.AdminURL()
	}
	return line
}

// Run serves and reloads at SIGHUP, which hup tells, and changes of the trust folder until
// ctx ends.
func (s *Site) Run(ctx context.Context, hup <-chan os.Signal) error {
	s.log.Info("serving", "authority", s.config.Authority, "url", s.PublicURL, "version", SoftwareVersion(), "read_only", s.config.readOnly,
		slog.Int("anchors", len(s.anchors.Load().List())), "pid", os.Getpid())
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { s.watchTrust(watching) })
	watchers.Go(func() { s.upkeep.watch(watching) })
	watchers.Go(func() { s.policy.watch(watching) })
	if !s.config.readOnly {
		watchers.Go(func() { s.pruneJournal(watching) })
		watchers.Go(func() { s.openRestored(watching) })
		watchers.Go(func() { s.watchTestbeds(watching) })
	}
	go s.reloadOnHangup(watching, hup) // a stop waits for none that is stuck
	err := s.serve(ctx)
	stop()
	watchers.Wait()
	return err
}

// reloadOnHangup reads again what may change at each signal, until ctx ends.
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

// hangup is the operator of what SIGHUP does.
const hangup = "SIGHUP"

// reload is SIGHUP: read again what may change while serving. It does no more once
// ctx has ended.
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
		s.log.Error("the inventory cannot be taken over; what is in force stays so", "error", err)
		s.policy.read("")
	}
	if err := s.tls.Reload(); err != nil {
		s.log.Error("the server's certificates cannot be read; the old ones stay", "error", err)
		return
	}
	s.log.Info("the server's certificates were read again")
}
