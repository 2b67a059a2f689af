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

const clockLong = `Tell by which time the site's leases count. It is the host's clock, as long as that
goes along with the time that really goes by. When the host's clock jumps by more
than clock_jump, it is not believed: leases go on, and end when the time they were
promised for has gone by. That ends by itself when the clock is set right, or with
--believe, if it is right now: leases that are over by then end at once.

The site may be served meanwhile or not.`

type clockOptions struct {
	site    siteFlag
	Believe bool
}

func (o *clockOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.BoolVar(&o.Believe, "believe", false, "take the host's clock, whatever it shows")
}

func (o *clockOptions) Validate(args []string) error { return noArguments(args) }

func (o *clockOptions) Run(ctx context.Context, c console) error {
	config, err := o.site.read()
	if err != nil {
		return err
	}
	a, err := o.ask(ctx, config)
	served := !errors.Is(err, site.ErrNotServed)
	if !served {
		a, err = o.look(config)
	}
	if err != nil {
		return err
	}
	if o.Believe {
		if !served && a.Doubted() {
			recordAct(ctx, c, config, site.ClockBelieved, a.Summary())
		}
		o.tellBelieved(c, a)
		return nil
	}
	o.tell(c, a)
	return nil
}

// ask asks a served site.
func (o *clockOptions) ask(ctx context.Context, config *site.Config) (a site.ClockAnswer, err error) {
	if o.Believe {
		err = site.Order(ctx, config, "/clock", site.ServerCommand{Operator: audit.Operator()}, &a)
	} else {
		err = site.Ask(ctx, config, "/clock", &a)
	}
	return a, err
}

// look opens what a site has that is not served.
func (o *clockOptions) look(config *site.Config) (a site.ClockAnswer, err error) {
	t, err := config.OpenClock(nil)
	if err != nil {
		return a, err
	}
	a.Now = t.State()
	if o.Believe {
		a.Before, a.Now = t.Believe()
	}
	has, err := config.HasState()
	if err != nil {
		return a, err
	}
	if has {
		open := config.LookAtState
		if o.Believe {
			open = config.OpenState
		}
		s, err := open() // so nobody serves it
		if err != nil {
			return a, err
		}
		defer s.Close()
		if err := a.Count(s); err != nil {
			return a, err
		}
	}
	if o.Believe {
		err = t.Save()
	}
	return a, err
}

func (o *clockOptions) tellBelieved(c console, a site.ClockAnswer) {
	if !a.Doubted() {
		fmt.Fprintf(c.out, "The host's clock was believed already; it is %s.\n", display.Time(a.Now.Host))
		return
	}
	if a.Before.Doubt == clock.NoDoubt {
		fmt.Fprintf(c.out, "The host's clock is right, you say; it is %s. What is known of the time is written anew.\n", display.Time(a.Now.Host))
		return
	}
	fmt.Fprintf(c.out, "Leases count by the host's clock again: it is %s, not %s.\n", display.Time(a.Now.Host), display.Time(a.Before.Site))
	if a.Over > 0 {
		fmt.Fprintf(c.out, "The leases of %s are over by that.\n", display.Count(a.Over, "sliver"))
	}
}

func (o *clockOptions) tell(c console, a site.ClockAnswer) {
	s := a.Now
	if s.Doubt == clock.NoDoubt {
		fmt.Fprintf(c.out, "Leases count by the host's clock: it is %s.\n", display.Time(s.Site))
		if s.Lost != "" {
			fmt.Fprintf(c.out, "What was known of the time before is lost, so nobody could compare: %s.\nSee that the clock is right, then type: %s\n", s.Lost, o.site.hint("clock", "--believe"))
		}
		return
	}
	direction, apart := "ahead of", s.Ahead()
	if apart < 0 {
		direction, apart = "behind", -apart
	}
	fmt.Fprintf(c.out, "The host's clock is not believed: %s.\n\n", s.Reason())
	fmt.Fprintf(c.out, "  leases count by   %s\n  the host's clock  %s, %s %s\n  since             %s\n\n",
		display.Time(s.Site), display.Time(s.Host), display.Duration(apart.Round(time.Second)), direction+" that", display.Time(s.Since))
	if s.IsSettling() {
		fmt.Fprintln(c.out, "This ends by itself, two minutes after the boot at the latest.")
		return
	}
	fmt.Fprintf(c.out, "If the host's clock is wrong, set it right: the doubt ends when the two are no more\nthan clock_jump apart. If it is right, type: %s\n", o.site.hint("clock", "--believe"))
	if a.Over > 0 {
		fmt.Fprintf(c.out, "By the host's clock the leases of %s are over: they would end at once.\n", display.Count(a.Over, "sliver"))
	}
}
