package operator

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/site"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const releaseLong = `Release slivers, as if their users had deleted them. A TARGET is a slice, by its URN or
name, or a sliver, by its URN or as SLICE/CLIENT_ID (the first column of: patchbay
slivers). All of them are released, or none.

A sliver is gone for its user at once; its node stays held until its provider has
confirmed the removal. Slivers of a slice that was shut down are only released with
--frozen; the slice itself stays shut down until it is thawed.

At a terminal it shows the slivers, and asks; --yes skips the question. Elsewhere it does
not ask. It works with and without a running server.

--orphans removes orphans: resources of a provider that belong to no sliver. A RESOURCE
is one that patchbay nodes --orphans lists, by its name or as PROVIDER/NAME. Resources of
slivers are never touched. The site must be served.`

type releaseOptions struct {
	site    command.SiteFlag
	order   operate.Release
	Orphans bool
	Yes     bool
}

func (o *releaseOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.BoolVar(&o.order.Frozen, "frozen", false, "also release slivers that were shut down and are kept for inspection")
	fs.BoolVar(&o.Orphans, "orphans", false, "remove orphans, as patchbay nodes --orphans lists them")
	fs.BoolVar(&o.Yes, "yes", false, "do not ask at a terminal")
	fs.StringVar(&o.order.Text, "reason", "", "why, in a line for the journal and the users of the slice")
}

func (o *releaseOptions) Validate(args []string) error {
	if o.Orphans {
		switch {
		case o.order.Frozen:
			return fmt.Errorf("orphans are in no slice, so --frozen has no effect with --orphans; leave it out")
		case len(args) == 0:
			return fmt.Errorf("name the orphans to remove, as patchbay nodes --orphans lists them")
		}
	}
	if o.order.Targets = args; len(args) == 0 {
		return fmt.Errorf("name the slices to release, or slivers as SLICE/CLIENT_ID")
	}
	return nil
}

func (o *releaseOptions) Run(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	o.order.Operator = audit.Operator()
	if o.Orphans {
		return o.releaseOrphans(ctx, c, config)
	}
	if err := o.confirm(ctx, c, config); err != nil {
		return err
	}
	var done operate.Result
	served, err := site.Connect(config).Order(ctx, "/release", o.order, &done)
	if err != nil {
		return err
	}
	for _, s := range done.Slices {
		fmt.Fprintf(c.Out, "Released: %s of slice %s.\n", display.Count(s.Slivers, "sliver"), display.Line(s.Slice.String()))
		switch {
		case s.Removing > 0 && served:
			fmt.Fprintf(c.Out, "Waiting for providers to remove %s; to list those that remain: %s\n", display.Count(s.Removing, "sliver"), o.site.Hint("slivers", s.Slice.Name))
		case s.Removing > 0:
			fmt.Fprintf(c.Out, "Providers will remove %s when the site is served.\n", display.Count(s.Removing, "sliver"))
		}
		if s.Shutdown {
			fmt.Fprintf(c.Out, "The slice stays shut down; to lift that: %s\n", o.site.Hint("thaw", s.Slice.String()))
		}
	}
	return nil
}

// confirm fails if the answer is not yes. With --yes or without a terminal, it does
// nothing.
func (o *releaseOptions) confirm(ctx context.Context, c command.Console, config *site.Config) error {
	if o.Yes || !command.ToTerminal(os.Stdin) || !command.ToTerminal(c.Out) {
		return nil
	}
	preview := o.order
	preview.Preview = true
	var done operate.Result
	if _, err := site.Connect(config).Order(ctx, "/release", preview, &done); err != nil {
		return err
	}
	for _, s := range done.Slices {
		fmt.Fprintf(c.Out, "%s of slice %s: %s\n", display.Count(s.Slivers, "sliver"), display.Line(s.Slice.String()), display.Line(userfolder.JoinSome(s.ClientIDs)))
	}
	if !command.Confirmed(os.Stdin, c.Out, "Release them, with everything on them? [y/N] ") {
		return errors.New("nothing was changed")
	}
	return nil
}

// releaseOrphans removes the orphans that the arguments name. It fails if no server runs.
func (o *releaseOptions) releaseOrphans(ctx context.Context, c command.Console, config *site.Config) error {
	var done []operate.OrphanResult
	_, err := site.Connect(config).Order(ctx, "/orphans", operate.OrphanOrder{Resources: o.order.Targets, Text: o.order.Text, Operator: audit.Operator()}, &done)
	if errors.Is(err, site.ErrNotServed) {
		return notServedError()
	}
	if err != nil {
		return err
	}
	wrong, pending := 0, 0
	for _, d := range done {
		what := fmt.Sprintf("%s of provider %s", display.Line(d.Resource), display.Line(d.Provider))
		if d.Component != "" {
			what += " on " + display.Line(d.Component)
		}
		switch {
		case d.Gone:
			fmt.Fprintf(c.Out, "Removed: %s.\n", what)
		case d.Wrong != "":
			wrong++
			fmt.Fprintf(c.Out, "Not removed: %s: %s\n", what, display.Line(d.Wrong))
		default:
			pending++
			fmt.Fprintf(c.Out, "Removal requested, not yet confirmed: %s.\n", what)
		}
	}
	if pending > 0 {
		fmt.Fprintf(c.Out, "To list the orphans that are left: %s\n", o.site.Hint("nodes", "--orphans"))
	}
	if wrong > 0 {
		return fmt.Errorf("%s could not be removed for the reasons above; fix the provider and try again", display.Count(wrong, "resource"))
	}
	return nil
}
