package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/site"
	"patchbay/am/site/operate"
	"patchbay/am/urn"
	"patchbay/cmd/patchbay/command"
)

const thawLong = `Lift the Shutdown of a slice. Its nodes, which were kept for inspection, become usable
again, switched off, and their leases continue. If a lease has expired, give --extend to
prolong it, or --yes to release its nodes, which deletes what was kept. An extended lease
cannot pass the start of a reservation on its component; --over releases such
reservations, after it has listed them and asked, or with --yes. SLICE is its URN,
or its name if that is unique among slices that are shut down. Without SLICE, list slices
that are shut down.

To release the nodes instead: patchbay release SLICE --frozen. To see the request and
where it runs: patchbay manifest SLICE.

It works with and without a running server.`

type thawOptions struct {
	site   command.SiteFlag
	Extend string
	order  operate.Thaw
}

func (o *thawOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.Extend, "extend", "", "extend leases that end before this TIME, such as 2030-01-31T12:00:00Z, or a duration from now such as 2h")
	fs.BoolVar(&o.order.Over, "over", false, "release reservations that could not begin before the end of --extend")
	fs.BoolVar(&o.order.ReleaseExpired, "yes", false, "release nodes at once whose leases have expired; with --over, do not ask")
	fs.StringVar(&o.order.Text, "reason", "", "a reason of one line for the journal")
}

func (o *thawOptions) Validate(args []string) (err error) {
	if len(args) == 0 {
		if o.Extend != "" || o.order.Text != "" || o.order.ReleaseExpired || o.order.Over {
			return fmt.Errorf("SLICE is missing; without flags, thaw lists the slices that are shut down")
		}
		return nil
	}
	if o.order.Slice, err = command.OneArgument(args, "the slice's URN or name"); err != nil {
		return err
	}
	if u, err := urn.Parse(o.order.Slice); err == nil && u.Type != urn.Slice {
		return fmt.Errorf("%s is a %s, not a slice", u, u.Type)
	}
	if o.Extend != "" {
		o.order.Extend, err = operate.ParseEnd("--extend", withZone(o.Extend, time.Now()))
	} else if o.order.Over {
		return fmt.Errorf("--over is for --extend TIME; add it")
	}
	return err
}

func (o *thawOptions) Run(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	if o.order.Slice == "" {
		return o.list(ctx, c, site.Connect(config))
	}
	o.order.Operator = audit.Operator()
	if o.order.Over && !o.order.ReleaseExpired {
		preview := o.order
		preview.Preview = true
		if err := confirmOver(ctx, c, config, "/thaw", preview); err != nil {
			return err
		}
	}
	var done operate.Result
	if _, err := site.Connect(config).Order(ctx, "/thaw", o.order, &done); err != nil {
		return err
	}
	printReleased(c, done)
	for _, s := range done.Slices {
		fmt.Fprintf(c.Out, "Slice %s is no longer shut down; it has %s.\n", display.Line(s.Slice.String()), display.Count(s.Slivers, "sliver"))
		switch {
		case s.Slivers == 0:
		case s.Expires.After(done.At):
			state := "No node exists yet"
			if s.Nodes > 0 {
				state = "The nodes are off"
			}
			fmt.Fprintf(c.Out, "%s; the first lease ends at %s (%s).\n", state, display.Time(s.Expires), command.Distance(s.Expires.Sub(done.At.Truncate(time.Second))))
		case s.Nodes == 0:
			fmt.Fprintf(c.Out, "The first reservation ended at %s, so it is released.\n", display.Time(s.Expires))
		default:
			fmt.Fprintf(c.Out, "The first lease ended at %s, so its nodes are released.\n", display.Time(s.Expires))
		}
	}
	printWarnings(c, done)
	return nil
}

// list prints the slices that are shut down.
func (o *thawOptions) list(ctx context.Context, c command.Console, h site.AdminClient) error {
	n := 0
	err := site.Rows(ctx, h, "slices", operate.Filter{Shutdown: true}, func(s *operate.Slice) error {
		n++
		what := display.Count(s.Slivers, "sliver")
		if s.Slivers > 0 {
			what += ", first lease to " + display.Time(s.Expires)
		}
		_, err := fmt.Fprintf(c.Out, "%s  shut down at %s by %s, %s\n", display.Line(s.URN.String()), display.Time(s.Shutdown), display.Line(s.WhoShutDown()), what)
		return err
	})
	if err == nil && n == 0 {
		_, err = fmt.Fprintln(c.Out, "No slice is shut down.")
	}
	return err
}
