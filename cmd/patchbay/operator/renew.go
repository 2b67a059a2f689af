package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/site"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const renewLong = `Change the end of leases, to a later or earlier time. A TARGET is a slice, by its URN or
name, or a sliver, by its URN or as SLICE/CLIENT_ID. Either all leases are changed, or
none.

Neither credentials nor the limits of the site apply; a note says if an end exceeds them,
or is in planned maintenance. Users can shorten such a lease. A reserved sliver keeps a
later end when it is provisioned. A lease cannot pass the start of a reservation on its
component; --over releases such reservations, after it has listed them and asked. Without
a terminal, this needs --yes. If the server was down when a lease expired, renew the lease
before you start the server.

It works with and without a running server. A TIME is written 2030-01-31T12:00:00Z, or
"tomorrow 9:00" in your time zone, or is a duration from now, such as 2h or 3d.`

type renewOptions struct {
	site       command.SiteFlag
	Until, For string
	Yes        bool
	order      operate.Renew
}

func (o *renewOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.Until, "until", "", "TIME at which the leases end")
	fs.StringVar(&o.For, "for", "", "how long they last from now, such as 4h, instead of --until")
	fs.BoolVar(&o.order.Over, "over", false, "release reservations that could not begin before the new end")
	fs.BoolVar(&o.Yes, "yes", false, "with --over, do not ask")
	fs.StringVar(&o.order.Text, "reason", "", "a reason of one line for the journal")
}

func (o *renewOptions) Validate(args []string) (err error) {
	o.order.Targets = args
	switch {
	case len(args) == 0:
		return errors.New("name the slices to renew, or slivers as SLICE/CLIENT_ID")
	case o.Until == "" && o.For == "":
		return errors.New("the end of the leases is missing; add --until TIME, or --for DURATION")
	case o.Until != "" && o.For != "":
		return errors.New("--until and --for both set the end of the leases; give one")
	case o.For != "":
		o.order.For, err = operate.LeaseSeconds("--for", o.For)
		return err
	}
	o.order.End, err = operate.ParseEnd("--until", withZone(o.Until, time.Now()))
	return err
}

func (o *renewOptions) Run(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	o.order.Operator = audit.Operator()
	if o.order.Over && !o.Yes {
		preview := o.order
		preview.Preview = true
		if err := confirmOver(ctx, c, config, "/renew", preview); err != nil {
			return err
		}
	}
	var done operate.Result
	if _, err := site.Connect(config).Order(ctx, "/renew", o.order, &done); err != nil {
		return err
	}
	printReleased(c, done)
	for _, s := range done.Slices {
		fmt.Fprintf(c.Out, "The leases of %s of slice %s end at %s (%s).\n", display.Count(s.Slivers, "sliver"), display.Line(s.Slice.String()), display.Time(s.Expires), command.Distance(s.Expires.Sub(done.At.Truncate(time.Second))))
	}
	printWarnings(c, done)
	return nil
}

// confirmOver lists the reservations that an order with --over releases. It fails if the answer is not yes, or there is no terminal to
// ask at. preview is the order as a preview.
func confirmOver(ctx context.Context, c command.Console, config *site.Config, path string, preview any) error {
	var done operate.Result
	if _, err := site.Connect(config).Order(ctx, path, preview, &done); err != nil || len(done.Displaced) == 0 {
		return err
	}
	for _, r := range done.Displaced {
		fmt.Fprintln(c.Out, display.Line(r.String()))
	}
	return askOver(c, "Release these reservations?")
}

// askOver fails if the answer to a question is not yes, or if there is no terminal to ask at.
func askOver(c command.Console, question string) error {
	switch {
	case !command.ToTerminal(os.Stdin) || !command.ToTerminal(c.Out):
		return errors.New("nothing was changed; to go on without a question, add --yes")
	case !command.AnswersYes(os.Stdin, c.Out, question+" [y/N] "):
		return errors.New("nothing was changed")
	}
	return nil
}

func printReleased(c command.Console, done operate.Result) {
	for _, r := range done.Displaced {
		fmt.Fprintf(c.Out, "Released: %s\n", display.Line(r.String()))
	}
}

// withZone returns a time of the user's time zone, such as "tomorrow 9:00", with its zone. Other texts stay as they are.
func withZone(text string, now time.Time) string {
	if _, err := display.ParseDuration(text); err == nil {
		return text
	}
	if t, err := display.ParseTime(text, now.Local(), now); err == nil {
		return t.Format(time.RFC3339)
	}
	return text
}

func printWarnings(c command.Console, result operate.Result) {
	for _, w := range result.Warnings {
		fmt.Fprintf(c.Out, "Note: %s\n", display.Line(w))
	}
}
