package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/pflag"
)

const serveLong = `Serve a site until SIGINT or SIGTERM: calls in progress are finished, then the
work on slivers is put down where it will be taken up again. A second signal
ends at once.

The trust folder, with its CRLs and its deny list, is read again when it changes.
SIGHUP reads it and the server's certificates again; a changed configuration or
inventory needs a new start.

One line on standard output tells the URL when calls are answered; the log goes
to standard error.`

type serveOptions struct {
	site   siteFlag
	Listen string
}

func (o *serveOptions) AddFlags(fs *pflag.FlagSet) {
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
	log := config.Log.newLog(c.err)
	s, err := openSite(ctx, config, log)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.out, s.announcement())
	return s.run(ctx)
}

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

// run serves and heeds signals and changes of the trust folder until ctx ends.
func (s *site) run(ctx context.Context) error {
	s.log.Info("serving", "authority", s.config.Authority, "url", s.PublicURL, "version", softwareVersion(),
		slog.Int("anchors", len(s.anchors.Load().List())), "pid", os.Getpid())
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { s.watchTrust(watching) })
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	watchers.Go(func() {
		for {
			select {
			case <-watching.Done():
				return
			case <-hup:
				s.reload()
			}
		}
	})
	err := s.serve(ctx)
	signal.Stop(hup)
	stop()
	watchers.Wait()
	return err
}

// reload is SIGHUP: read again what may change while serving.
func (s *site) reload() {
	s.reloadAnchors()
	if err := s.tls.Reload(); err != nil {
		s.log.Error("the server's certificates cannot be read; the old ones stay", "error", err)
		return
	}
	s.log.Info("the server's certificates were read again")
}
