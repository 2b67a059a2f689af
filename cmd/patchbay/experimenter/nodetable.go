package experimenter

import (
	"fmt"
	"slices"
	"strings"

	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/client/session"
	"patchbay/am/display"
	"patchbay/cmd/patchbay/command"
)

// addressesOf returns the addresses of a node, each with its link.
func addressesOf(n experiment.Node) string {
	var list []string
	for _, a := range n.Addresses {
		list = append(list, a.Link+" "+a.Address)
	}
	return strings.Join(list, ", ")
}

// show prints the nodes, their errors and the next commands. It returns an ExitError if the setup of
// a node cannot end by itself; see canContinue.
func (s *opened) show(x *session.Slice, list []client.Sliver) error {
	hosts, _, err := s.Hosts(x.Name)
	if err != nil {
		return err
	}
	t := &command.Table{Out: s.Out}
	t.Head("NODE", "LOGIN", "ADDRESS", "UNTIL")
	loginName := "" // of the first node with a login
	for _, h := range hosts {
		if h.Sliver == "" {
			fmt.Fprintf(s.Err, "%s: this node belongs to another aggregate and is not created here\n", display.Line(h.Name))
			continue
		}
		login := s.loginCommand(h)
		if loginName == "" && h.Login.Exists() && !s.IsSimulated(h) {
			loginName = sshName(h)
		}
		t.Row(h.Name, login, addressesOf(h.Node), untilOf(list, h))
	}
	if err := t.Flush("The slice has no nodes."); err != nil {
		return err
	}
	for _, v := range list {
		if v.Error != "" {
			fmt.Fprintf(s.Err, "%s: %s\n", display.Line(v.ClientID), display.Line(v.Error))
		}
	}
	isStuck := experiment.CanContinue(list)
	if isStuck {
		fmt.Fprintf(s.Err, "Show the output of all steps with: %s\n", s.Hint("call", "Status", "--logs", "--slice", x.Name))
		fmt.Fprintf(s.Err, "Continue the setup with: %s\n", s.setupHint(x.Name))
	}
	next := [][]string{{"status"}, {"extend", x.Name, "2h"}, {"down", x.Name}}
	if loginName != "" {
		next = slices.Insert(next, 0, []string{"ssh", loginName})
	}
	head := "next:"
	for _, args := range next {
		if _, err := fmt.Fprintf(s.Out, "%s  %s\n", head, s.Hint(args...)); err != nil {
			return err
		}
		head = "     "
	}
	if isStuck {
		return command.ExitError(1)
	}
	return nil
}

// loginCommand returns a command line. Without a login, it returns a remark or "".
func (s *opened) loginCommand(h experiment.Host) string {
	switch {
	case s.IsSimulated(h):
		return "(simulated)"
	case h.Login.Exists():
		return s.Hint("ssh", sshName(h))
	case h.Unsafe != "":
		return "(not safe to use: " + h.Unsafe + ")"
	}
	return ""
}

// sshName returns a name for command lines. This is NODE.SLICE if NODE looks like a flag.
func sshName(h experiment.Host) string {
	if strings.HasPrefix(h.Name, "-") {
		return strings.TrimSuffix(h.Alias, "."+experiment.Domain)
	}
	return h.Name
}

// untilOf returns the end of a node's lease, or "".
func untilOf(list []client.Sliver, h experiment.Host) string {
	for _, v := range list {
		if v.URN == h.Sliver || v.ClientID == h.Name {
			return localTime(v.LeaseEnd())
		}
	}
	return ""
}
