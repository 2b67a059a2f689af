package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/audit"
	"patchbay/am/display"
	"patchbay/am/operate"
	"patchbay/am/site"
)

const renewLong = `Let the leases of slivers end at a time, later or earlier than now. A TARGET is a
slice, by its URN or its name, or a sliver, by its URN or as SLICE/CLIENT_ID. The
leases of all of them are changed, or none.

No credential is looked at, and the limits of the site do not bind you: what goes
beyond them, or into planned maintenance, is told. Users can shorten such a lease
themselves. One that is only reserved keeps its end when it is provisioned, if that
is later than what it would get. A lease that is over goes on, too, if the site was
not served and so has not ended it yet.

The site may be served or not. A TIME is written 2030-01-31T12:00:00Z, with its
zone, or is a while from now, such as 2h or 3d.`

type renewOptions struct {
	site       siteFlag
	Until, For string
	order      operate.Renew
}

func (o *renewOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.Until, "until", "", "TIME at which the leases end")
	fs.StringVar(&o.For, "for", "", "how long they last from now on, such as 4h, instead of --until")
	fs.StringVar(&o.order.Text, "reason", "", "why, in a line for the journal")
}

func (o *renewOptions) Validate(args []string) (err error) {
	o.order.Targets = args
	switch {
	case len(args) == 0:
		return errors.New("name what to renew: slices, or slivers as SLICE/CLIENT_ID")
	case o.Until == "" && o.For == "":
		return errors.New("it does not say when the leases end; add --until TIME, or --for how long")
	case o.Until != "" && o.For != "":
		return errors.New("--until and --for both say when the leases end; give one")
	case o.For != "":
		o.order.For, err = leaseSeconds("--for", o.For)
		return err
	}
	o.order.End, err = parseLeaseEnd("--until", o.Until)
	return err
}

func (o *renewOptions) Run(ctx context.Context, c console) error {
	config, err := o.site.read()
	if err != nil {
		return err
	}
	o.order.Operator = audit.Operator()
	done, _, err := site.Act(ctx, site.AdminClient{Config: config}, "renew", o.order, (*operate.Desk).Renew)
	if err != nil {
		return err
	}
	for _, s := range done.Slices {
		fmt.Fprintf(c.out, "The leases of %s of slice %s end at %s (%s).\n", display.Count(s.Slivers, "sliver"), display.Line(s.Slice.String()), display.Time(s.Expires), distance(s.Expires.Sub(done.At.Truncate(time.Second))))
	}
	warn(c, done)
	return nil
}

// warn tells the remarks on what was done.
func warn(c console, done operate.Done) {
	for _, w := range done.Warnings {
		fmt.Fprintf(c.out, "Note: %s\n", display.Line(w))
	}
}
