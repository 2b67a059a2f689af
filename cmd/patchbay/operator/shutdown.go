package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/site"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const shutdownLong = `Shut a slice down, as the method Shutdown of the API does: switch its nodes off and keep
them for inspection, also after the end of their leases. The users of the slice cannot
use them. Reservations of the slice that have not begun are released. SLICE is its URN,
or its name.

To lift the shutdown: patchbay thaw SLICE. To release the nodes: patchbay release SLICE
--frozen. It works with and without a running server; without one, the nodes are switched
off when the site is served.`

type shutdownOptions struct {
	site  command.SiteFlag
	order operate.Shutdown
}

func (o *shutdownOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.order.Text, "reason", "", "why, in a line for the journal and the users of the slice")
}

func (o *shutdownOptions) Validate(args []string) (err error) {
	if o.order.Slice, err = command.OneArgument(args, "the slice's URN or name"); err == nil && o.order.Text == "" {
		err = errors.New("add --reason TEXT for the journal and the users of the slice")
	}
	return err
}

func (o *shutdownOptions) Run(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	o.order.Operator = audit.Operator()
	var done operate.Result
	if _, err := site.Connect(config).Order(ctx, "/shutdown", o.order, &done); err != nil {
		return err
	}
	for _, s := range done.Slices {
		fmt.Fprintf(c.Out, "Shut down: %s of slice %s.\n", display.Count(s.Slivers, "sliver"), display.Line(s.Slice.String()))
		fmt.Fprintf(c.Out, "To lift that: %s\n", o.site.Hint("thaw", s.Slice.String()))
	}
	printWarnings(c, done)
	return nil
}
