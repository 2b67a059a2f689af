package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/doctor"
	"patchbay/inventory/provider/local/testbed"
)

func doctorCommand() *cobra.Command {
	var site siteFlags
	var quiet bool
	c := &cobra.Command{
		Use:   "doctor [SETTINGS]",
		Short: "Test whether this host can run nodes, with remedies",
		Long: `Test the features of this host that nodes need by using them, and remove everything
afterwards. With SETTINGS it also tests the ports and the state folder of that testbed. The
exit status is 0 if nodes can run here.`,
		Args: argumentCount(0, 1, "SETTINGS"),
		RunE: func(c *cobra.Command, args []string) error {
			place, err := site.place(c.Context(), args)
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			report := func(f doctor.Finding) { printFinding(out, f) }
			if quiet {
				report = nil
			}
			if len(args) == 1 && !quiet {
				if lacks := local.MissingMetadata(args[0]); lacks != "" {
					report(doctor.Finding{Name: "settings", Message: args[0], Remedy: lacks})
				}
			}
			err = doctor.CheckNeeded(doctor.Examine(c.Context(), place, report))
			if quiet && err != nil {
				fmt.Fprintln(out, err)
				return exitStatus(1)
			}
			if err != nil && len(args) == 1 {
				return errors.New("nodes cannot run on this host with these settings until that is fixed")
			}
			if err != nil {
				return errors.New("nodes cannot run on this host until that is fixed")
			}
			if !quiet {
				fmt.Fprintln(out, "Nodes can run on this host.")
			}
			return nil
		},
	}
	site.add(c)
	c.Flags().BoolVar(&quiet, "quiet", false, "report only the problems that prevent nodes")
	return c
}

// isRunning reports whether a process listens at the testbed's socket, even if this user
// may not call it.
func isRunning(ctx context.Context, instance string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := local.Call(ctx, local.Socket(instance), local.Request{Action: local.ActionList})
	return !errors.Is(err, local.ErrDown)
}

// place returns what the checks need to know about the testbed with the settings in args, if any.
func (f *siteFlags) place(ctx context.Context, args []string) (doctor.Place, error) {
	if len(args) == 0 {
		return doctor.Place{State: cmp.Or(f.state, testbed.Root)}, nil
	}
	s, state, err := f.read(args[0])
	if err != nil {
		return doctor.Place{}, err
	}
	place := doctor.Place{State: state, First: s.FirstPort, Last: s.LastPort, Gateway: s.GatewayPort, Running: isRunning(ctx, s.Instance),
		Emulator: string(s.Emulator), Outbound: s.Outbound, Conflicts: s.Conflicts()}
	for _, kind := range s.SliverTypes {
		place.PIDs = max(place.PIDs, kind.PIDs)
	}
	if s.Listen.IsValid() {
		place.Address = s.Listen.String()
	}
	return place, nil
}

func printFinding(out io.Writer, f doctor.Finding) {
	mark := "ok     "
	switch {
	case f.Note:
		mark = "note   "
	case f.OK:
	case f.Needed:
		mark = "MISSING"
	default:
		mark = "no     "
	}
	fmt.Fprintf(out, "%s  %s: %s\n", mark, f.Name, f.Message)
	if f.Remedy != "" {
		fmt.Fprintf(out, "         %s\n", f.Remedy)
	}
}
