package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/spf13/pflag"
)

const serveLong = `Serve a site until SIGINT or SIGTERM: calls in progress are finished, then the
work on slivers is put down where it will be taken up again. A second signal
ends at once.

The trust folder, with its CRLs and its deny list, is read again when it changes,
and so are the maintenance file and the policy, with its lists of those who have
accepted terms. SIGHUP reads them, the inventory and the server's certificates again,
and opens the audit again; patchbay reload takes over the inventory and tells what
that means. A changed configuration needs a new start.

A copy of a site is refused, as two servers would act on the same nodes: patchbay move
makes it the site. With --read-only nothing is acted on: calls and commands that look
are answered, all others are refused, and no file of the site is changed.

One line on standard output tells the URL when calls are answered; the log goes
to standard error.`

type serveOptions struct {
	site     siteFlag
	Listen   string
	ReadOnly bool
}

func (o *serveOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.ReadOnly, "read-only", false, "only show what the site has promised, or a copy of it; change nothing")
	o.site.AddFlags(fs)
	fs.StringVar(&o.Listen, "listen", "", "address and port for clients, instead of the configured one; port 0 for any free one")
}

func (o *serveOptions) Validate(args []string) error {
	if o.Listen != "" {
		if err := checkAddress(o.Listen); err != nil {
			return fmt.Errorf("--listen %w", err)
		}
	}
	return noArguments(args)
}

func (o *serveOptions) Run(ctx context.Context, c console) error {
	config, _, err := o.site.read()
	if err != nil {
		return err
	}
	if o.Listen != "" {
		config.Listen = o.Listen
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryTarget)
	}
	if o.ReadOnly {
		look, done, err := config.readOnlyCopy()
		if err != nil {
			return err
		}
		defer done()
		config = look
	}
	log := config.Log.newLog(c.err)
	hup := make(chan os.Signal, 1) // before it opens: one that came sooner would end the process
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	s, err := openSite(ctx, config, log)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.out, s.announcement())
	return s.run(ctx, hup)
}

// memoryTarget is from how many bytes on the garbage collector works harder, rather
// than let the heap grow to twice what is in use. GOMEMLIMIT sets another.
const memoryTarget = 320 << 20

// announcement is the line that says where the site is; its third word is a URL
// that works on this host.
func (s *site) announcement() string {
	line := "listening on " + s.LocalURL
	if s.PublicURL != s.LocalURL {
		line += ", for clients " + s.PublicURL
	}
	if s.admin != nil {
		line += ", admin " + s.AdminURL()
	}
	return line
}

// run serves and heeds SIGHUP, which hup tells, and changes of the trust folder until
// ctx ends.
func (s *site) run(ctx context.Context, hup <-chan os.Signal) error {
	s.log.Info("serving", "authority", s.config.Authority, "url", s.PublicURL, "version", softwareVersion(), "read_only", s.config.readOnly,
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
	go s.heedHangups(watching, hup) // a stop waits for none that is stuck
	err := s.serve(ctx)
	stop()
	watchers.Wait()
	return err
}

// heedHangups reads again what may change at each signal, until ctx ends.
func (s *site) heedHangups(ctx context.Context, hup <-chan os.Signal) {
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
func (s *site) reload(ctx context.Context) {
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
