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
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/cmd/patchbay/command"
)

const extendLong = `Extend the leases of a slice: by a duration such as 2h, which is added to the end of the
leases (up --for counts from now), or until a time such as "2026-12-24 18:00" in your time
zone, or 2026-12-24T17:00:00Z. If you have one experiment, SLICE may be omitted. Of nodes
that begin later, it moves the end, also to an earlier time; 18:00 is the first one after
their start.`

type extendOptions struct {
	experimenterFlags
	slice string
	text  string // of the time; "" for a duration
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
		o.text = text
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
		return current, fmt.Errorf("its leases end at %s, which is later; nothing was changed", localTime(current))
	}
	return o.until, nil
}

// renew moves the end of the leases of a slice, which has the slivers of the list. It explains a refusal: if that names the
// latest possible time, the error contains a command that extends the leases to that time.
func (s *opened) renew(ctx context.Context, slice string, list []client.Sliver, until time.Time) ([]client.Sliver, error) {
	wait := waiting(list)
	if len(wait) > 0 && !until.After(wait[0].Begins) {
		return nil, fmt.Errorf("slice %s %s, so it cannot end at %s; release its nodes with: %s", slice, beginsText(&wait[0], time.Now()), display.Local(until.Local()), s.Hint("down", slice))
	}
	// Open it again, since a lease ends with its credential at the latest.
	x, err := s.OpenSlice(ctx, slice, time.Until(until), false)
	if err != nil {
		return nil, err
	}
	var renewed []client.Sliver
	if i := slices.IndexFunc(wait, func(v client.Sliver) bool { return v.Expires.Before(v.Ends) }); i >= 0 { // for these, Renew moves the time until which they wait for Provision
		renewed, _, err = x.Client.Renew(ctx, []string{x.Slice}, x.Credentials, wait[i].Expires, client.Options{End: until})
	} else {
		renewed, err = x.Renew(ctx, until)
	}
	e, ok := errors.AsType[*am.Error](err)
	if !ok {
		return renewed, s.Explain(err)
	}
	latest, reason, ok := experiment.LimitOf(e)
	if !ok {
		return nil, err
	}
	if before, _, isOwn := strings.Cut(reason, "; Delete it"); isOwn {
		reason = before
		if name := s.sliceThatBegins(ctx, latest); name != "" {
			reason = fmt.Sprintf("by your slice %s, which begins then (delete it with: %s)", name, s.Hint("down", name))
		}
	}
	text := fmt.Sprintf("slice %s cannot be kept until %s; the latest time is %s, %s", slice, display.Local(until.Local()), localTime(latest), display.LocalTimes(reason))
	if !latest.After(experiment.LatestEnd(list)) {
		return nil, errors.New(text + "; the slice already lasts until then")
	}
	return nil, fmt.Errorf("%s; use: %s", text, s.Hint("extend", slice, latest.Local().Format(time.RFC3339)))
}

// sliceThatBegins returns the name of the user's slice with nodes that begin at the time, or "".
func (s *opened) sliceThatBegins(ctx context.Context, at time.Time) string {
	for _, name := range s.Usable() {
		x, err := s.OpenSlice(ctx, name, 0, false)
		if err != nil {
			continue
		}
		if a, err := x.Describe(ctx); err == nil && slices.ContainsFunc(a.Slivers, func(v client.Sliver) bool { return v.Begins.Equal(at) }) {
			return name
		}
	}
	return ""
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
	begun := len(wait) < len(a.Slivers) || len(wait) == 0
	if !begun && o.text != "" {
		if o.until, err = display.ParseTime(o.text, time.Now(), wait[0].Begins); err != nil {
			return err
		}
	}
	until, err := o.end(experiment.LatestEnd(a.Slivers), begun)
	if err != nil {
		err = fmt.Errorf("slice %s: %w", o.slice, err)
		if file := s.SliceFile(o.slice, ".request.xml"); o.until.After(time.Now()) && userfolder.FileExists(file) {
			err = fmt.Errorf("%w; to make them shorter, use: %s", err, s.Hint("up", file, "--slice", o.slice, "--until", o.until.Local().Format(time.RFC3339)))
		}
		return err
	}
	list, err := s.renew(ctx, o.slice, a.Slivers, until)
	if err != nil {
		return err
	}
	if _, err := x.Refresh(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "Slice %s: kept until %s.\n", o.slice, localTime(experiment.EarliestEnd(list)))
	return err
}

// localTime returns a text such as "2026-12-04 09:00 CET in 3d".
func localTime(t time.Time) string {
	return display.Local(t.Local()) + " " + command.Distance(time.Until(t))
}
