package experimenter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/display"
	"patchbay/cmd/patchbay/command"
)

const extendLong = `Extend the leases of a slice: by a duration such as 2h, which is added to the end of the
leases (up --for counts from now), or until a time such as "2026-12-24 18:00" in your time
zone, or 2026-12-24T17:00:00Z. If you have one experiment, SLICE may be omitted. Of nodes
that begin later, it moves the end, also to an earlier time after their start.`

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
		return errors.New("it takes [SLICE] and a duration or time, such as 2h")
	}
	text := args[len(args)-1]
	if o.life, err = display.ParseDuration(strings.TrimPrefix(text, "+")); err != nil {
		now := time.Now()
		o.until, err = display.ParseTime(text, now, now)
		return err
	}
	if o.life == 0 {
		return fmt.Errorf("%s does not extend a lease; give a duration such as 2h", text)
	}
	return nil
}

// end returns the requested end of leases whose latest end is current. It fails if leases
// that have begun would become shorter.
func (o *extendOptions) end(current time.Time, begun bool) (time.Time, error) {
	if o.until.IsZero() {
		if now := time.Now(); current.Before(now) {
			current = now
		}
		return current.Add(o.life), nil
	}
	if begun && o.until.Before(current) {
		return current, fmt.Errorf("its leases end at %s, which is later; nothing was changed", command.TimeAndDistance(current, time.Now()))
	}
	return o.until, nil
}

// extendError explains err, a refused Renew of leases that end at current. If err names the latest
// possible time, the result contains a command that extends the leases to that time.
func (s *opened) extendError(err *am.Error, slice string, current, requested time.Time) error {
	latest, reason, ok := experiment.LimitOf(err)
	if !ok {
		return err
	}
	text := fmt.Sprintf("slice %s cannot be kept until %s; the latest time is %s, %s", slice, display.Time(requested), command.TimeAndDistance(latest, time.Now()), reason)
	if !latest.After(current) {
		return errors.New(text + "; it already lasts until then")
	}
	return fmt.Errorf("%s; use: %s", text, s.Hint("extend", slice, display.Time(latest)))
}

func (o *extendOptions) Run(ctx context.Context, c command.Console) error {
	s, err := o.openLocked(ctx, c, false)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.slice, err = s.SliceOr(ctx, o.slice); err != nil {
		return err
	}
	x, err := s.OpenSlice(ctx, o.slice, 0, false)
	if err != nil {
		return err
	}
	a, err := x.Describe(ctx)
	if err != nil {
		return err
	}
	wait := waiting(a.Slivers)
	until, err := o.end(experiment.LatestEnd(a.Slivers), len(wait) < len(a.Slivers) || len(wait) == 0)
	if err != nil {
		return fmt.Errorf("slice %s: %w", o.slice, err)
	}
	// Open it again, since a lease ends with its credential at the latest.
	if x, err = s.OpenSlice(ctx, o.slice, time.Until(until), false); err != nil {
		return err
	}
	renew := x.Renew
	if i := slices.IndexFunc(wait, func(v client.Sliver) bool { return v.Expires.Before(v.Ends) }); i >= 0 { // for these, Renew moves the time until which they wait for Provision
		renew = func(ctx context.Context, until time.Time) ([]client.Sliver, error) {
			list, _, err := x.Client.Renew(ctx, []string{x.Slice}, x.Credentials, wait[i].Expires, client.Options{End: until})
			return list, err
		}
	}
	list, err := renew(ctx, until)
	if e, ok := errors.AsType[*am.Error](err); ok {
		return s.extendError(e, o.slice, experiment.LatestEnd(a.Slivers), until)
	}
	if err != nil {
		return s.Explain(err)
	}
	if _, err := x.Refresh(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "Slice %s: kept until %s.\n", o.slice, keptUntil(experiment.EarliestEnd(list)))
	return err
}

// keptUntil returns a text such as "2026-12-04 09:00 CET (2026-12-04T08:00:00Z) in 3d".
func keptUntil(end time.Time) string {
	return display.LocalAndUTC(end.Local()) + " " + command.Distance(time.Until(end))
}
