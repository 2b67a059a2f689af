package experimenter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/cmd/patchbay/command"
)

const statusLong = `Show your experiments, or the named slices: the nodes of each slice, their states, addresses,
logins and ends of leases.
For nodes whose request has steps, such as install and execute, it also shows how many are
done, which have failed, and of each node the current step, how long it has been running or
took, and the end of its output.`

type statusOptions struct {
	experimenterFlags

	slices []string
}

func (o *statusOptions) Validate(args []string) error {
	o.slices = args
	return nil
}

func (o *statusOptions) AddFlags(fs *pflag.FlagSet) { o.experimenterFlags.AddFlags(fs) }

func (o *statusOptions) Run(ctx context.Context, c command.Console) error {
	s, err := o.openLocked(ctx, c, false)
	if errors.Is(err, session.ErrNoExperiment) {
		_, err := fmt.Fprintf(c.Out, "You have no experiment. Begin with: %s\n", display.Command("up", "--example"))
		return err
	}
	if err != nil {
		return err
	}
	defer s.Close()
	var failed error
	shown := 0
	names := s.Usable()
	for _, name := range o.slices {
		if !slices.Contains(names, name) {
			return fmt.Errorf("there is no slice %s; %ssee all with: %s", display.Line(name), userfolder.SuggestNames(name, names), s.Hint("status"))
		}
	}
	if len(o.slices) > 0 {
		names = o.slices
	}
	for _, name := range names {
		isShown, err := s.showSlice(ctx, name, shown > 0)
		if isShown {
			shown++
		}
		if session.IsUnreachable(err) { // no other slice can be reached either
			return s.Explain(errors.Join(failed, errors.Unwrap(err)))
		}
		failed = errors.Join(failed, err)
	}
	if shown == 0 && failed == nil && len(o.slices) > 0 {
		_, err := fmt.Fprintln(c.Out, "The slice has no nodes.")
		return err
	}
	if len(names) == 0 {
		if err := s.checkUser(ctx); err != nil {
			return s.Explain(err)
		}
	}
	if shown == 0 && failed == nil {
		_, err := fmt.Fprintf(c.Out, "You have no experiment. Begin with: %s\n", s.Hint("up", "--example"))
		return err
	}
	return s.Explain(failed)
}

// checkUser returns an error if the aggregate, or the authority where the user has logged in, refuses
// the user or does not answer. Calls about slices report this by themselves.
func (s *opened) checkUser(ctx context.Context) error {
	x, err := s.OpenSlice(ctx, "", 0, false)
	if err != nil || len(x.Credentials) == 0 {
		return err
	}
	_, _, err = x.Client.ListResources(ctx, x.Credentials, client.Options{Compressed: true})
	if am.CodeOf(err) == am.Forbidden || session.IsUnreachable(err) {
		return err
	}
	return nil // other errors do not concern the user
}

// showSlice updates the stored manifest of a slice, and prints its nodes and their setup, below an
// empty line if separate is true. It prints nothing and returns false for a slice without nodes,
// unless "patchbay up" has created the slice or another user has delegated it. If the slice has no
// nodes and up has not created it, showSlice also deletes its stored manifest.
func (s *opened) showSlice(ctx context.Context, name string, separate bool) (isShown bool, err error) {
	x, err := s.OpenSlice(ctx, name, 0, false)
	if err != nil {
		return false, fmt.Errorf("slice %s: %w", name, err)
	}
	before, expires, err := s.Hosts(name) // of the old manifest
	if err != nil {
		return false, err
	}
	a, err := x.Refresh(ctx)
	if err != nil {
		return false, fmt.Errorf("slice %s: %w", name, err)
	}
	isShared, isOther := s.SharedWithUser(name), slices.Contains(s.OtherSlices(), name)
	if len(a.Slivers) == 0 && isOther && !isShared {
		return false, x.Forget()
	}
	if separate {
		fmt.Fprintln(s.Out)
	}
	if isShared {
		fmt.Fprintf(s.Out, "Slice %s, delegated to you\n", name)
	} else {
		fmt.Fprintf(s.Out, "Slice %s\n", name)
	}
	switch {
	case len(a.Slivers) == 0 && isOther:
		_, err := fmt.Fprintln(s.Out, "  It has no nodes.")
		return true, errors.Join(err, x.Forget())
	case len(a.Slivers) == 0:
		why := "They were deleted, or released by an operator"
		if !expires.IsZero() && !time.Now().Before(expires) {
			why = "Their leases ended at " + display.Local(expires.Local())
		}
		_, err := fmt.Fprintf(s.Out, "  It had %s and has none any more. %s.\n  Create them again with: %s\n  or remove the slice from this list with: %s\n",
			display.Count(len(before), "node"), why, s.Hint("up", s.SliceFile(name, ".request.xml"), "--slice", name), s.Hint("down", name))
		return true, err
	}
	for _, text := range append(windowTexts(a.Slivers), limitText(x, a.Slivers)...) {
		fmt.Fprintf(s.Out, "  %s\n", text)
	}
	return true, s.showNodes(name, isShared, a.Slivers)
}

// showNodes prints a table of the slivers of a slice, and the state of their setup.
func (s *opened) showNodes(name string, isShared bool, list []client.Sliver) error {
	hosts, _, err := s.Hosts(name)
	if err != nil {
		return err
	}
	index := map[string]int{} // of hosts, by sliver: the first one
	for i, h := range slices.Backward(hosts) {
		index[h.Sliver] = i
	}
	t := &command.Table{Out: s.Out, Indent: "  "}
	t.Head("NODE", "STATE", "ADDRESSES", "LOGIN", "UNTIL", "ERROR")
	for _, v := range list {
		addresses, login := "", ""
		if i, ok := index[v.URN]; ok {
			addresses, login = addressesOf(hosts[i].Node), s.loginOf(hosts[i], isShared)
		}
		t.Row(v.ClientID, experiment.StateWord(v), addresses, login, localTime(v.LeaseEnd()), v.Error)
	}
	return errors.Join(t.Flush(""), s.showSetup(name, list))
}

// loginOf returns a command line, a remark or "". In a slice that another user has shared, only an
// account of this user counts.
func (s *opened) loginOf(h experiment.Host, isShared bool) string {
	if isShared && s.lacksAccount(h) {
		return session.NoAccount(session.AccountOf(s.UserName()))
	}
	return s.loginCommand(h)
}

// lacksAccount reports whether the login of a node is only that of another user.
func (s *opened) lacksAccount(h experiment.Host) bool {
	return h.Login.Exists() && h.Login.User != session.AccountOf(s.UserName())
}
