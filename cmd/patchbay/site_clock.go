package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/audit"
	"patchbay/am/clock"
	"patchbay/am/display"
	"patchbay/am/site"
)

const clockLong = `Show which clock leases follow, and whether the host's clock is trusted. Leases follow the
host's clock while it agrees with the monotonic clock. After a jump of more than
clock_jump the host's clock is not trusted: leases keep their remaining time. That ends
automatically when the clock is corrected, or with --trust if it is right: then leases
that are over end at once.

It works with and without a running server.`

type clockOptions struct {
	site  siteFlag
	Trust bool
}

func (o *clockOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.BoolVar(&o.Trust, "trust", false, "trust the host's clock from now on")
}

func (o *clockOptions) Validate(args []string) error { return noArguments(args) }

func (o *clockOptions) Run(ctx context.Context, c console) error {
	config, err := o.site.read()
	if err != nil {
		return err
	}
	a, err := o.requestClock(ctx, config)
	served := !errors.Is(err, site.ErrNotServed)
	if !served {
		a, err = o.readUnserved(config)
	}
	if err != nil {
		return err
	}
	if o.Trust {
		if !served && a.Doubted() {
			recordAct(ctx, c, config, site.ClockTrusted, a.Summary())
		}
		o.printTrusted(c, a)
		return nil
	}
	o.print(c, a)
	return nil
}

// requestClock requests the state of the clock from the server. With --trust, the server
// also trusts the host's clock.
func (o *clockOptions) requestClock(ctx context.Context, config *site.Config) (a site.ClockAnswer, err error) {
	if o.Trust {
		err = site.Order(ctx, config, "/clock", site.ServerCommand{Operator: audit.Operator()}, &a)
	} else {
		err = site.Ask(ctx, config, "/clock", &a)
	}
	return a, err
}

// readUnserved is for a site without a running server. With --trust, it also trusts the
// host's clock.
func (o *clockOptions) readUnserved(config *site.Config) (a site.ClockAnswer, err error) {
	t, err := config.OpenClock(nil)
	if err != nil {
		return a, err
	}
	a.Now = t.State()
	if o.Trust {
		a.Before, a.Now = t.Trust()
	}
	has, err := config.HasState()
	if err != nil {
		return a, err
	}
	if has {
		open := config.OpenStateReadOnly
		if o.Trust {
			open = config.OpenState
		}
		s, err := open() // fails if a server has the database open
		if err != nil {
			return a, err
		}
		defer s.Close()
		if err := a.Count(s); err != nil {
			return a, err
		}
	}
	if o.Trust {
		err = t.Save()
	}
	return a, err
}

func (o *clockOptions) printTrusted(c console, a site.ClockAnswer) {
	if !a.Doubted() {
		fmt.Fprintf(c.out, "The host's clock was already trusted; it is %s.\n", display.Time(a.Now.Host))
		return
	}
	if a.Before.Doubt == clock.NoDoubt {
		fmt.Fprintf(c.out, "The host's clock is trusted; it is %s. The lost record of the time was replaced.\n", display.Time(a.Now.Host))
		return
	}
	fmt.Fprintf(c.out, "Leases follow the host's clock again: it is %s, not %s.\n", display.Time(a.Now.Host), display.Time(a.Before.Site))
	if a.Over > 0 {
		fmt.Fprintf(c.out, "By that clock the leases of %s are over, and have ended.\n", display.Count(a.Over, "sliver"))
	}
}

// print shows the clock that leases follow, and why.
func (o *clockOptions) print(c console, a site.ClockAnswer) {
	s := a.Now
	if s.Doubt == clock.NoDoubt {
		fmt.Fprintf(c.out, "Leases follow the host's clock: it is %s.\n", display.Time(s.Site))
		if s.Lost != "" {
			fmt.Fprintf(c.out, "The record of the time is lost, so the clock could not be checked: %s.\nCheck that the clock is right, then run: %s\n", s.Lost, o.site.hint("clock", "--trust"))
		}
		return
	}
	direction, apart := "ahead of", s.Ahead()
	if apart < 0 {
		direction, apart = "behind", -apart
	}
	fmt.Fprintf(c.out, "The host's clock is not trusted: %s.\n\n", s.Reason())
	fmt.Fprintf(c.out, "  leases follow     %s\n  the host's clock  %s, %s %s\n  since             %s\n\n",
		display.Time(s.Site), display.Time(s.Host), display.Duration(apart.Round(time.Second)), direction+" that", display.Time(s.Since))
	if s.IsSettling() {
		fmt.Fprintln(c.out, "This ends automatically, two minutes after the boot at the latest.")
		return
	}
	fmt.Fprintf(c.out, "If the host's clock is wrong, correct it: it is trusted again when the two differ by at\nmost clock_jump. If it is right, run: %s\n", o.site.hint("clock", "--trust"))
	if a.Over > 0 {
		fmt.Fprintf(c.out, "By the host's clock the leases of %s are over; they would end at once.\n", display.Count(a.Over, "sliver"))
	}
}
