package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"

	"patchbay/am/site"
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
		if err := site.CheckAddress(o.Listen); err != nil {
			return fmt.Errorf("--listen %w", err)
		}
	}
	return noArguments(args)
}

func (o *serveOptions) Run(ctx context.Context, c console) error {
	config, err := o.site.read()
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
	log := config.Log.New(c.err)
	hup := make(chan os.Signal, 1) // before it opens: one that came sooner would end the process
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	s, err := site.Open(ctx, config, log)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.out, s.Announcement())
	return s.Run(ctx, hup)
}

// memoryTarget is from how many bytes on the garbage collector works harder, rather
// than let the heap grow to twice what is in use. GOMEMLIMIT sets another.
const memoryTarget = 320 << 20
