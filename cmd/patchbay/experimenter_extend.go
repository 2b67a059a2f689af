package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
)

const extendLong = `Keep the nodes of a slice for longer: their leases end TIME from now, or at a time of day
written in full. The slice may be left out where you have one experiment.`

type extendOptions struct {
	experimenterFlags
	slice string
	life  time.Duration
	until time.Time
}

func (o *extendOptions) AddFlags(fs *pflag.FlagSet) { o.experimenterFlags.AddFlags(fs) }

func (o *extendOptions) Validate(args []string) (err error) {
	switch len(args) {
	case 1:
	case 2:
		o.slice = args[0]
	default:
		return errors.New("it takes the slice, which may be left out, and a time such as 2h")
	}
	text := args[len(args)-1]
	if o.until, err = display.ParseExpires(text); err == nil {
		o.life = time.Until(o.until)
		return nil
	}
	if o.life, err = display.ParseDuration(text); err == nil && o.life == 0 {
		err = fmt.Errorf("%s is no time at all", text)
	}
	return err
}

func (o *extendOptions) Run(ctx context.Context, c console) error {
	s, err := o.open(ctx, c, false)
	if errors.Is(err, errNothingYet) {
		return fmt.Errorf("%w; begin with: %s", err, display.Command("up", "--example"))
	}
	if err != nil {
		return err
	}
	defer s.close()
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if o.slice == "" {
		have := s.experiments()
		if len(have) != 1 {
			return fmt.Errorf("say which slice: %s", strings.Join(have, ", "))
		}
		o.slice = have[0]
	}
	x, err := s.openSlice(o.slice, o.life, false)
	if err != nil {
		return err
	}
	until := o.until
	if until.IsZero() {
		until = time.Now().Add(o.life)
	}
	list, err := x.Renew(ctx, until)
	if err != nil {
		return s.explain(err)
	}
	_, err = fmt.Fprintf(c.out, "Slice %s: all nodes are yours until %s.\n", o.slice, untilTime(earliestEnd(list)))
	return err
}
