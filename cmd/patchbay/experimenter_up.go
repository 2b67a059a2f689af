package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/experiment"
	"patchbay/am/site"
)

const upLong = `Make the experiment that a request RSpec asks for, wait until its nodes are ready,
and show how to log in.

The site is that of --config or of the current folder; the aggregate that of --url or of a
user's folder; else a site of your own, which is made in your state folder and runs in
the background until "patchbay down --all". Under sudo, or as root, its nodes are
containers of this host, and the site is in root's state folder; your keys are in yours,
so that the other verbs work without sudo.

Say it again with a changed request: it shows which nodes it keeps, adds, replaces and
removes, and asks first. Say it again after a failure: it goes on.`

//go:embed examples/lan.xml
var exampleRequest string

type upOptions struct {
	experimenterFlags
	Slice, For            string
	Yes, Example, Printed bool

	request string
	life    time.Duration
}

func (o *upOptions) AddFlags(fs *pflag.FlagSet) {
	o.experimenterFlags.AddFlags(fs)
	fs.StringVar(&o.Slice, "slice", "", "the slice (default: the name of the file)")
	fs.StringVar(&o.For, "for", "", "how long to keep the nodes, such as 2h or 3d (default: as long as the site gives)")
	fs.BoolVar(&o.Yes, "yes", false, "change what there is without asking")
	fs.BoolVar(&o.Example, "example", false, "use a sample request: two nodes on a LAN")
	fs.BoolVar(&o.Printed, "print-example", false, "print the sample request and do nothing")
}

func (o *upOptions) Validate(args []string) (err error) {
	if err := o.parseFor(); err != nil {
		return err
	}
	if o.Example || o.Printed {
		o.request = "lan.xml"
		return noArguments(args)
	}
	if o.request, err = oneArgument(args, "a file with a request, or give --example"); err != nil {
		return err
	}
	if o.request == "-" && o.Slice == "" {
		return errors.New("a request from standard input needs --slice NAME")
	}
	return nil
}

func (o *upOptions) parseFor() (err error) {
	if o.For == "" {
		return nil
	}
	if o.life, err = display.ParseDuration(o.For); err == nil && o.life == 0 {
		err = errors.New("it is no time at all; say how long, such as 2h")
	}
	if err != nil {
		return fmt.Errorf("--for: %w", err)
	}
	return nil
}

func (o *upOptions) Run(ctx context.Context, c console) error {
	if o.Printed {
		_, err := io.WriteString(c.out, exampleRequest)
		return err
	}
	text := []byte(exampleRequest)
	if !o.Example {
		var err error
		if text, err = readInput(o.request); err != nil {
			return fmt.Errorf("cannot read the request: %w", err)
		}
	}
	if err := experiment.CheckRequest(text); err != nil {
		return fmt.Errorf("%s: %w", o.request, err)
	}
	s, err := o.openLocked(ctx, c, true)
	if err != nil {
		return err
	}
	defer s.close()
	x, err := s.openSlice(o.sliceFor(s), o.life, true)
	if err != nil {
		return err
	}
	return s.explain(o.apply(ctx, x, text))
}

// sliceFor names the slice: that of --slice, the only one of a user who cannot make
// another, or the one named after the file.
func (o *upOptions) sliceFor(s *session) string {
	if has := slicesIn(s.dir); o.Slice == "" && s.trial == nil && len(has) == 1 {
		return has[0]
	}
	return cmp.Or(o.Slice, sliceNameOf(o.request))
}

// apply makes the slice what the request asks for, and shows it.
func (o *upOptions) apply(ctx context.Context, x *slice, text []byte) error {
	version, _, err := x.Client.GetVersion(ctx)
	if err != nil {
		return err
	}
	request, err := experiment.ParseRequest(text, version.URN)
	if err != nil {
		return fmt.Errorf("%s: %w", o.request, err)
	}
	have, err := x.Describe(ctx)
	if err != nil {
		return err
	}
	var before *experiment.Request
	stored, err := site.ReadRegular(x.session.sliceFile(x.name, ".request.xml"))
	switch {
	case err == nil:
		before = experiment.ParseStored(stored, version.URN)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	plan := experiment.Compare(before, request, have.Slivers)
	c := x.session.console
	if plan.Has(experiment.Keep, experiment.Replace, experiment.Remove) {
		if !plan.Has(experiment.Add, experiment.Replace, experiment.Remove) {
			fmt.Fprintf(c.err, "Nothing to change in the slice %s.\n", x.name)
		} else if err := o.confirm(c, x.name, plan); err != nil {
			return err
		}
	}
	var end time.Time
	if o.life > 0 {
		end = time.Now().Add(o.life)
	}
	if err := o.carryOut(ctx, x, plan, request, text, end); err != nil {
		return err
	}
	if o.life > 0 && plan.Has(experiment.Keep) {
		if _, err := x.Renew(ctx, end); err != nil {
			return fmt.Errorf("the nodes run, but their leases cannot be extended: %w", err)
		}
	}
	answer, err := x.refresh(ctx)
	if err != nil {
		return err
	}
	if given := earliestEnd(answer.Slivers); !end.IsZero() && given.Before(end.Add(-time.Minute)) {
		fmt.Fprintf(c.err, "The site gives the nodes until %s, which is less than --for %s.\n", untilTime(given), o.For)
	}
	return x.show(answer.Slivers)
}

// carryOut applies the plan with its progress shown, and says after a failure what is
// there and what to do. text is the request, which is kept from the moment on when all
// slivers are as it has them.
func (o *upOptions) carryOut(ctx context.Context, x *slice, plan experiment.Plan, request *experiment.Request, text []byte, end time.Time) error {
	s := x.session
	p := newProgress(s.err)
	x.Progress = p.show
	err := x.Clear(ctx, plan)
	if err == nil {
		err = x.write(".request.xml", text)
	}
	if err == nil {
		err = x.Apply(ctx, plan, request, end)
	}
	if err == nil {
		p.finish()
		return nil
	}
	p.stop()
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	left, lookErr := x.refresh(looking)
	reserved := display.Count(len(left.Slivers), "node")
	switch {
	case lookErr != nil:
		reserved = "perhaps some nodes"
	case len(left.Slivers) == 0:
		return errors.Join(fmt.Errorf("%w\nnothing is reserved in the slice %s", err, x.name), x.forget())
	}
	return fmt.Errorf("%w\n%s of the slice %s stay reserved; look with: %s; go on with the same command, or give them back with: %s",
		err, reserved, x.name, s.hint("status"), s.hint("down", x.name))
}

// confirm shows what changes, and asks at a terminal; elsewhere --yes must be given.
func (o *upOptions) confirm(c console, slice string, plan experiment.Plan) error {
	fmt.Fprintf(c.err, "In the slice %s:\n", slice)
	t := tabwriter.NewWriter(c.err, 0, 0, 2, ' ', 0)
	for _, change := range plan {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", change.Action, display.Line(change.Node), display.Line(change.Why))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if plan.Has(experiment.Replace, experiment.Remove) {
		fmt.Fprintln(c.err, "All files on nodes that are replaced or removed are lost.")
	}
	return agree(c, o.Yes, "Change it?")
}

// agree asks at a terminal; elsewhere --yes is needed.
func agree(c console, yes bool, question string) error {
	if yes {
		return nil
	}
	if !toTerminal(os.Stdin) || !toTerminal(c.err) {
		return errors.New("nothing was changed; say it again with --yes if that is what you want")
	}
	if !answersYes(os.Stdin, c.err, question+" [y/N] ") {
		return errors.New("nothing was changed")
	}
	return nil
}

// hosts are the nodes of the manifest that is kept of a slice, none where none is kept,
// and the end of their leases when it was written.
func (s *session) hosts(name string) (list []experiment.Host, expires time.Time, err error) {
	file := s.sliceFile(name, ".manifest.xml")
	text, err := site.ReadRegular(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, expires, nil
	}
	if err != nil {
		return nil, expires, err
	}
	m, err := experiment.ReadManifest(text, s.userName())
	if err != nil {
		return nil, expires, fmt.Errorf("%s: %w", file, err)
	}
	return experiment.Hosts(name, m.Nodes), m.Expires, nil
}

// isSimulated tells whether nobody is behind the logins of the site.
func (s *session) isSimulated() bool {
	if s.config == nil {
		return false
	}
	return exists(s.config.Providers+"/simulated.prov") && !exists(s.config.Providers+"/local.prov")
}

// show prints the nodes of the slice, how to log in, and what to do next.
func (x *slice) show(list []client.Sliver) error {
	s := x.session
	hosts, _, err := s.hosts(x.name)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tLOGIN\tADDRESS\tUNTIL")
	first := ""
	for _, h := range hosts {
		if h.Sliver == "" {
			fmt.Fprintf(s.err, "%s: it is a node of another aggregate, and is not made here\n", display.Line(h.Name))
			continue
		}
		login := s.loginCommand(h)
		if first == "" && h.Login.Exists() {
			first = sshName(h)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", display.Line(h.Name), display.Line(login), display.Line(strings.Join(h.Addresses, ", ")), untilOf(list, h))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, v := range list {
		if v.Error != "" {
			fmt.Fprintf(s.err, "%s: %s\n", display.Line(v.ClientID), display.Line(v.Error))
		}
	}
	next := [][]string{{"status"}, {"extend", x.name, "2h"}, {"down", x.name}}
	if first != "" && !s.isSimulated() {
		next = slices.Insert(next, 0, []string{"ssh", first})
	}
	for i, args := range next {
		head := map[bool]string{true: "next:", false: "     "}[i == 0]
		if _, err := fmt.Fprintf(s.out, "%s  %s\n", head, s.hint(args...)); err != nil {
			return err
		}
	}
	return nil
}

// loginCommand is how to log in to a node.
func (s *session) loginCommand(h experiment.Host) string {
	switch {
	case s.isSimulated():
		return "(simulated)"
	case h.Login.Exists():
		return s.hint("ssh", sshName(h))
	case h.Unsafe != "":
		return "(not safe to use: " + h.Unsafe + ")"
	}
	return ""
}

// sshName is how a command line names a node: by a name of ours where its own would be
// taken for a flag.
func sshName(h experiment.Host) string {
	if strings.HasPrefix(h.Name, "-") {
		return strings.TrimSuffix(h.Alias, "."+experiment.Domain)
	}
	return h.Name
}

// untilOf is when the lease of a node ends.
func untilOf(list []client.Sliver, h experiment.Host) string {
	for _, v := range list {
		if v.URN == h.Sliver || v.ClientID == h.Name {
			return untilTime(v.Expires)
		}
	}
	return ""
}

// untilTime is a time, and how far off it is.
func untilTime(t time.Time) string {
	left := time.Until(t).Round(time.Minute)
	if left < 0 {
		return display.Time(t) + ", which is over"
	}
	return display.Time(t) + " in " + display.Duration(left)
}
