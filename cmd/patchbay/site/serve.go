package site

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"

	"patchbay/am/site"
	"patchbay/cmd/patchbay/command"
)

const serveLong = `Serve a site until SIGINT or SIGTERM. Then calls in progress are finished, and unfinished
work on slivers is saved and resumed at the next start. A second signal ends at once.

Changes of the trust folder (with CRLs and the deny list), the maintenance file and the
policy (with lists of accepted terms) take effect automatically. SIGHUP also reloads the
inventory and the server's certificates, and reopens the audit; patchbay reload reloads
the inventory and shows the effect. A changed configuration needs a restart.

A copy of a site is refused, since two servers would change the same nodes; see patchbay
move. With --read-only the server answers calls and commands that read, refuses all
others, and changes no file of the site.

When calls are answered, it prints a line with the URL to standard output. The log goes to
standard error.`

type serveOptions struct {
	site     command.SiteFlag
	Listen   string
	ReadOnly bool
}

func (o *serveOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.ReadOnly, "read-only", false, "only show the site, or a copy of it; change nothing")
	o.site.AddFlags(fs)
	fs.StringVar(&o.Listen, "listen", "", "address and port for clients, instead of the configured ones; port 0 is any free port")
}

func (o *serveOptions) Validate(args []string) error {
	if o.Listen != "" {
		if err := site.CheckAddress(o.Listen); err != nil {
			return fmt.Errorf("--listen %w", err)
		}
	}
	return command.NoArguments(args)
}

func (o *serveOptions) Run(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
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
		look, done, err := config.ReadOnlyCopy()
		if err != nil {
			return err
		}
		defer done()
		config = look
	}
	log := config.Log.New(c.Err)
	hup := make(chan os.Signal, 1) // before site.Open, since a SIGHUP without a handler ends the process
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	s, err := site.Open(ctx, config, log)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.Out, s.Announcement())
	return s.Run(ctx, hup)
}

// memoryTarget is a soft limit in bytes. Above it, the garbage collector runs more often.
// GOMEMLIMIT replaces it.
const memoryTarget = 320 << 20
