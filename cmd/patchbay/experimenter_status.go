package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/experiment"
)

const statusLong = `Show your experiments: the nodes of each slice, their states, how to log in, and when
their leases end.`

type statusOptions struct{ experimenterFlags }

func (o *statusOptions) Validate(args []string) error { return noArguments(args) }

func (o *statusOptions) AddFlags(fs *pflag.FlagSet) { o.experimenterFlags.AddFlags(fs) }

func (o *statusOptions) Run(ctx context.Context, c console) error {
	s, err := o.openLocked(ctx, c, false)
	if errors.Is(err, errNothingYet) {
		_, err := fmt.Fprintf(c.out, "You have no experiment. Begin with: %s\n", display.Command("up", "--example"))
		return err
	}
	if err != nil {
		return err
	}
	defer s.close()
	names := s.experiments()
	if len(names) == 0 {
		_, err := fmt.Fprintf(c.out, "You have no experiment. Begin with: %s\n", s.hint("up", "--example"))
		return err
	}
	var failed error
	for i, name := range names {
		if i > 0 {
			fmt.Fprintln(c.out)
		}
		failed = errors.Join(failed, s.status(ctx, name))
	}
	return s.explain(failed)
}

// status shows one slice.
func (s *session) status(ctx context.Context, name string) error {
	x, err := s.openSlice(name, 0, false)
	if err != nil {
		return fmt.Errorf("slice %s: %w", name, err)
	}
	before, expires, err := s.hosts(name)
	if err != nil {
		return err
	}
	a, err := x.refresh(ctx)
	if err != nil {
		return fmt.Errorf("slice %s: %w", name, err)
	}
	fmt.Fprintf(s.out, "Slice %s\n", name)
	if len(a.Slivers) == 0 {
		why := "They were given back or taken away"
		if !expires.IsZero() && !time.Now().Before(expires) {
			why = "Their leases ended at " + display.Time(expires)
		}
		_, err := fmt.Fprintf(s.out, "  It had %s and has none any more. %s.\n  Make them again with: %s\n  or forget the slice with: %s\n",
			display.Count(len(before), "node"), why, s.hint("up", s.sliceFile(name, ".request.xml"), "--slice", name), s.hint("down", name))
		return err
	}
	hosts, _, err := s.hosts(name)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  NODE\tSTATE\tLOGIN\tUNTIL\tERROR")
	for _, v := range a.Slivers {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", display.Line(v.ClientID), display.Line(stateWord(v)), display.Line(s.loginOf(hosts, v)), untilTime(v.Expires), display.Line(v.Error))
	}
	return t.Flush()
}

// loginOf is how to log in to the node of a sliver.
func (s *session) loginOf(hosts []experiment.Host, v client.Sliver) string {
	for _, h := range hosts {
		if h.Sliver == v.URN {
			return s.loginCommand(h)
		}
	}
	return ""
}

// stateWord is the state of a sliver in one word.
func stateWord(v client.Sliver) string {
	if v.Allocation == string(am.Allocated) {
		return "reserved"
	}
	return strings.TrimPrefix(v.Operational, "geni_")
}
