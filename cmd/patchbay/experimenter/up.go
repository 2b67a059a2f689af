package experimenter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/site/check"
	"patchbay/am/urn"
	"patchbay/cmd/patchbay/command"
	"patchbay/rspec"
	"patchbay/rspec/compile"
	"patchbay/schemas"
)

const upLong = `Create the experiment that a request RSpec, RADL or a blueprint describes, wait
until its nodes are ready, and show how to log in.

up uses the aggregate of --url or of a user's folder, or the site of --config or of the
current folder. Otherwise it creates a site of your own in your state folder, which runs
in the background until "patchbay down --all". Under sudo, or as root, its nodes are
containers of this host, and the site is in root's state folder. Your keys stay in your
state folder, so that the other commands work without sudo.

With --at, up reserves the nodes for later: at that time the site creates and starts them,
with your SSH keys, and up does not wait. Repeat the command to replace the keys. A TIME is
"2026-12-01 09:00" or "tomorrow 9:00" in your time zone, 2026-12-01T08:00:00Z, or a
duration such as 2h: from now for --at, from the start for --until.

Repeat the command with a changed request: it shows which nodes it keeps, adds, replaces
and removes, and asks first. Replaced nodes lose their files. Before up deletes a node, it
asks the site whether it accepts the change; an aggregate of another kind cannot say that,
so if it refuses the new nodes, the old ones are gone. Repeat the command after a failure:
it continues.

If a step of a node's setup has failed, the nodes stay, and the exit status is 1.`

type upOptions struct {
	experimenterFlags
	Slice, For, At, Until string
	Yes, Example, Printed bool

	source command.SourceFlags
	file   string // with the request; "-" for standard input
	life   time.Duration
	// start and end are the times of --at and --until; zero if they are not given. from is start, or the present.
	start, end, from time.Time
	// template has the source for an aggregate that compiles it; nil for other requests.
	template *rspec.Template
}

func (o *upOptions) AddFlags(fs *pflag.FlagSet) {
	o.experimenterFlags.AddFlags(fs)
	o.source.AddFlags(fs)
	fs.StringVar(&o.Slice, "slice", "", "the slice (default: the name of the file)")
	fs.StringVar(&o.For, "for", "", "how long to keep the nodes from now, such as 2h or 3d; for existing nodes, longer or shorter than before (default for new nodes: as the site sets it)")
	fs.StringVar(&o.At, "at", "", "reserve the nodes for later: the TIME at which they begin; --for counts from then")
	fs.StringVar(&o.Until, "until", "", "the TIME at which the nodes end, instead of --for")
	fs.BoolVar(&o.Yes, "yes", false, "change existing nodes without asking")
	fs.BoolVar(&o.Example, "example", false, "use a sample request: two nodes on a LAN")
	fs.BoolVar(&o.Printed, "print-example", false, "print the sample request and do nothing")
}

func (o *upOptions) Validate(args []string) (err error) {
	if err := errors.Join(o.parseFor(), o.parseWindow(time.Now()), o.source.Validate()); err != nil {
		return err
	}
	if o.Example || o.Printed {
		o.file = "lan.xml"
		return command.NoArguments(args)
	}
	if o.file, err = command.OneArgument(args, "a file with a request, or give --example"); err != nil {
		return err
	}
	if o.file == "-" && o.Slice == "" {
		return errors.New("a request from standard input needs --slice NAME")
	}
	return nil
}

func (o *upOptions) parseFor() (err error) {
	if o.For == "" {
		return nil
	}
	if o.life, err = display.ParseDuration(o.For); err == nil && o.life == 0 {
		err = errors.New("0 is no duration; give one such as 2h")
	}
	if err != nil {
		return fmt.Errorf("--for: %w", err)
	}
	return nil
}

func (o *upOptions) Run(ctx context.Context, c command.Console) error {
	if o.Printed {
		_, err := io.WriteString(c.Out, experiment.Example)
		return err
	}
	text := []byte(experiment.Example)
	if !o.Example {
		var err error
		if text, err = command.ReadInput(o.file); err != nil {
			return fmt.Errorf("cannot read the request: %w", err)
		}
	}
	if deploysNothing, err := o.precheck(c, text); deploysNothing || err != nil {
		return err
	}
	s, err := o.openLocked(ctx, c, true)
	if err != nil {
		return err
	}
	defer s.Close()
	name := o.sliceFor(s)
	if base := filepath.Base(o.file); o.Slice == "" && name != strings.TrimSuffix(base, filepath.Ext(base)) {
		fmt.Fprintf(c.Err, "The name of the slice is %s.\n", name)
	}
	credential := s.SliceFile(name, "-cred.xml")
	isNew := !userfolder.FileExists(credential)
	x, err := s.OpenSlice(ctx, name, o.credentialLife(time.Now(), s.Trial != nil), true)
	if err != nil {
		return err
	}
	err = o.apply(ctx, s, x, text)
	if err != nil && isNew && !userfolder.FileExists(s.SliceFile(name, ".request.xml")) { // nothing is reserved
		err = errors.Join(err, userfolder.RemoveFile(credential))
	}
	return s.Explain(err)
}

// precheck finds the mistakes that need no aggregate: it returns those of an RSpec, and prints those
// of a source. At a terminal, it asks for the missing parameters of a source. It stores what it has
// compiled in o.source.Result and o.template; both stay nil for a blueprint that it cannot compile.
// If the source deploys no nodes, it prints that, too.
func (o *upOptions) precheck(c command.Console, text []byte) (deploysNothing bool, err error) {
	if compile.Language(text) == "" && command.IsXML(text) {
		if len(o.source.Set) > 0 {
			return false, command.ErrNoParameters
		}
		if err := experiment.CheckRequest(text); err != nil {
			return false, fmt.Errorf("%s: %w", o.file, err)
		}
		return false, nil
	}
	if err := o.source.Check(c, o.file, text); err != nil {
		return false, err
	}
	err = o.source.WithFiles(o.file, compile.Options{}, func(with compile.Options) (err error) {
		o.source.Result, err = compile.Compile(text, with)
		if err != nil && compile.Language(text) == compile.Blueprint { // it may need types of the site: the method compile reports the mistakes
			return nil
		}
		o.template, err = compile.NewTemplate(text, with, o.source.Result)
		return err
	})
	if r := o.source.Result; err == nil && r != nil && len(r.Nodes) == 0 {
		command.PrintProblems(c.Err, o.file, r.Remarks)
		_, err = fmt.Fprintf(c.Out, "%s deploys no nodes: nothing to do.\n", display.Line(o.file))
		return true, err
	}
	return false, err
}

// compile returns the request for a source, and other texts unchanged. The aggregate compiles the
// source if it can.
func (u *upRun) compile(ctx context.Context, text []byte, version client.Version) ([]byte, error) {
	if compile.Language(text) == "" {
		return text, nil
	}
	s, why := u.s, "the aggregate compiles no sources"
	if slices.Contains(version.Extensions, schemas.Template) && version.AddsNodes {
		if u.template != nil {
			return u.compileThere(ctx, version.URN)
		}
		why = "it is too large for a template, or needs types of the site"
	}
	var offer compile.Options
	var err error
	if manager, wrong := urn.Parse(version.URN); wrong == nil && s.Config != nil && strings.EqualFold(manager.Authority, s.Config.Authority) {
		if offer, err = command.OfferOf(s.Config); err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
	}
	offer.GivesAddresses = version.ChangesNodes || version.AddsNodes // it knows our extensions
	if text, err = u.source.Request(s.Console, u.file, text, offer); err == nil {
		fmt.Fprintf(s.Err, "%s is compiled here, since %s.\n", display.Line(u.file), why)
	}
	return text, err
}

// compileThere returns the request that the aggregate compiles from the template. up sends this result, not the
// template: then it can compare it with the slice.
func (u *upRun) compileThere(ctx context.Context, manager string) ([]byte, error) {
	a, reply, err := u.x.Client.Allocate(ctx, u.x.Slice, u.x.Credentials, string(u.template.Request(manager)), client.Options{Change: true, Preview: true})
	severity := "warning"
	if err != nil {
		severity = "error"
	}
	if command.PrintFromTemplate(u.s.Err, u.file, severity, reply.Output) && err != nil {
		return nil, command.ExitError(1)
	}
	return []byte(a.RSpec), err
}

// sliceFor returns the value of --slice. Without --slice, it returns the only slice of a
// user that cannot create slices, else a name derived from the file's name.
func (o *upOptions) sliceFor(s *opened) string {
	if has := userfolder.Slices(s.Dir); o.Slice == "" && s.Trial == nil && len(has) == 1 {
		return has[0]
	}
	return cmp.Or(o.Slice, session.SliceName(o.file))
}

// upRun is one run of up for a slice.
type upRun struct {
	*upOptions
	s *opened
	x *session.Slice
	// request is the new request, and text its document.
	request *experiment.Request
	text    []byte
	plan    experiment.Plan
	// have are the slivers of the slice before any change.
	have []client.Sliver
	// ahead is how far ahead the aggregate reserves; 0 if it does not.
	ahead time.Duration
	// end is the requested end of leases; zero without --for and --until.
	end time.Time
}

// apply changes the slice to what the text describes, and shows its nodes.
func (o *upOptions) apply(ctx context.Context, s *opened, x *session.Slice, text []byte) error {
	u := &upRun{upOptions: o, s: s, x: x}
	if err := u.prepare(ctx, text); err != nil {
		return err
	}
	if wait := waiting(u.have); len(wait) > 0 && len(wait) == len(u.have) && o.At == "" { // then --until and --for count from the start
		o.At = wait[0].Begins.Format(time.RFC3339)
		if err := o.parseWindow(time.Now()); err != nil {
			return err
		}
	}
	if u.end = o.end; o.end.IsZero() && o.life > 0 {
		u.end = time.Now().Add(o.life)
	}
	if len(waiting(u.have)) > 0 || !o.start.IsZero() {
		return u.reserve(ctx)
	}
	changes := u.plan.Has(experiment.Add, experiment.ChangeInPlace, experiment.Replace, experiment.Remove)
	if !changes && u.plan.Has(experiment.Keep) {
		fmt.Fprintf(s.Err, "Nothing to change in the slice %s.\n", x.Name)
	}
	if u.plan.Has(experiment.Add, experiment.Replace) {
		if err := o.source.ListSent(s.Console, o.file); err != nil {
			return err
		}
		u.warn(ctx)
	}
	if err := x.Preview(ctx, u.plan, u.request, u.end); err != nil {
		return fmt.Errorf("nothing was changed, since the site would refuse the new request: %w", err)
	}
	if changes && u.plan.Has(experiment.Keep, experiment.ChangeInPlace, experiment.Replace, experiment.Remove) {
		if err := u.confirm(); err != nil {
			return err
		}
	}
	if err := u.carryOut(ctx); err != nil {
		return err
	}
	return u.finish(ctx)
}

// prepare reads the request and compares it with the slice.
func (u *upRun) prepare(ctx context.Context, text []byte) error {
	s, x := u.s, u.x
	version, _, err := x.Client.GetVersion(ctx)
	if err != nil {
		return err
	}
	if sum := x.Client.Unchecked(); sum != "" && (u.URL != "" || s.Config == nil) {
		fmt.Fprintf(s.Err, "The certificate of %s was not checked: its SHA-256 fingerprint is %s. To check it, give --ca FILE.\n", s.URL, sum)
	}
	x.File = string(text)
	if u.text, err = u.compile(ctx, text, version); err != nil {
		return err
	}
	x.Terms = u.source.Terms()
	if u.request, err = experiment.ParseRequest(u.text, version.URN); err != nil {
		return fmt.Errorf("%s: %w", u.file, err)
	}
	have, err := x.Refresh(ctx)
	if err != nil {
		return err
	}
	var before *experiment.Request
	stored, err := site.ReadRegular(s.SliceFile(x.Name, ".request.xml"))
	switch {
	case err == nil:
		before = experiment.ParseStored(stored, version.URN)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	x.InPlace, u.have, u.ahead = experiment.InPlaceOf(version), have.Slivers, version.Ahead
	u.plan = experiment.Compare(before, u.request, have.Slivers, x.InPlace)
	return nil
}

// finish changes the leases of nodes that existed before, and shows the nodes.
func (u *upRun) finish(ctx context.Context) error {
	if !u.end.IsZero() && u.plan.Has(experiment.Keep, experiment.ChangeInPlace) {
		list, err := u.s.renew(ctx, u.x.Name, u.have, u.end)
		if err != nil {
			return fmt.Errorf("the nodes run, but the end of their leases cannot be changed: %w", err)
		}
		fmt.Fprintf(u.s.Err, "Their leases now end at %s.\n", localTime(experiment.EarliestEnd(list)))
	}
	answer, err := u.x.Refresh(ctx)
	if err != nil {
		return err
	}
	if given := experiment.EarliestEnd(answer.Slivers); !u.end.IsZero() && given.Before(u.end.Add(-time.Minute)) {
		fmt.Fprintf(u.s.Err, "The leases end at %s, which is earlier than %s requests.\n", localTime(given), u.endFlag())
	}
	for _, text := range limitText(u.x, answer.Slivers) {
		fmt.Fprintf(u.s.Err, "The leases are %s.\n", text)
	}
	err = u.s.show(u.x, answer.Slivers)
	u.s.showPages(ctx)
	return err
}

// warn prints warnings about new nodes. If this user cannot read the site's files, the site's
// warnings are printed when they are allocated.
func (u *upRun) warn(ctx context.Context) {
	s := u.s
	u.x.Notices = func(text string) {
		if s.Config == nil || strings.Contains(text, "the reservation ends at ") {
			fmt.Fprintf(s.Err, "The site reports: %s\n", display.Line(display.LocalTimes(text)))
		}
	}
	if s.Config == nil {
		return
	}
	slice, _ := urn.Parse(u.x.Slice)
	k := &check.Checker{Out: s.Err, Err: s.Err, Config: s.Config}
	k.Warnings(ctx, u.file, u.text, u.x.Terms, slice)
}

// carryOut carries out the plan: it deletes nodes, reserves others, and waits until all are ready.
// It stores the text of the request when no remaining sliver differs from the request; see
// adoptRequest. Its error contains how many nodes are reserved, and what to do.
func (u *upRun) carryOut(ctx context.Context) error {
	s, x := u.s, u.x
	p := newProgress(s.Err)
	x.Progress = p.show
	store := func() error { return x.StoreRequest(u.text) }
	allocate := func() error { return x.Allocate(ctx, u.plan, u.request, u.end) }
	parts := []func() error{store, allocate}
	run := func() error {
		if !u.start.IsZero() { // a start within the next minute means now
			if a, err := x.Describe(ctx); err != nil || len(waiting(a.Slivers)) > 0 {
				return err
			}
		}
		return x.Run(ctx, u.end)
	}
	if x.Changes(u.plan) {
		parts = []func() error{func() error { return x.Write(session.NewRequest, u.text) }, allocate, store}
	}
	err := x.Clear(ctx, u.plan)
	for _, do := range append(parts, run) {
		if err == nil {
			err = do()
		}
	}
	if err == nil {
		p.finish()
		return nil
	}
	p.stop()
	err = u.suggestWindow(err)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	refreshing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	left, refreshErr := x.Refresh(refreshing)
	reserved := display.Count(len(left.Slivers), "node")
	switch {
	case refreshErr != nil:
		reserved = "perhaps some nodes"
	case len(left.Slivers) == 0:
		return errors.Join(fmt.Errorf("%w\nnothing is reserved in the slice %s", err, x.Name), x.Forget())
	}
	if experiment.CanContinue(left.Slivers) {
		err = fmt.Errorf("%w\ncontinue the setup with: %s", err, s.setupHint(x.Name))
	}
	return fmt.Errorf("%w\n%s of the slice %s remain; show them with: %s; repeat the command to continue, or delete them with: %s",
		err, reserved, x.Name, s.Hint("status"), s.Hint("down", x.Name))
}

// confirm prints the plan, and asks for permission; see requireYes.
func (u *upRun) confirm() error {
	c := u.s.Console
	fmt.Fprintf(c.Err, "In the slice %s:\n", u.x.Name)
	t := &command.Table{Out: c.Err, Indent: "  "}
	for _, change := range u.plan {
		t.Row(string(change.Action), change.Node, change.Why)
	}
	if err := t.Flush(""); err != nil {
		return err
	}
	if u.plan.Has(experiment.Replace, experiment.Remove) {
		fmt.Fprintln(c.Err, "All files on nodes that are replaced or removed are lost.")
		if u.x.InPlace == experiment.Nothing { // see experiment.Preview
			fmt.Fprintln(c.Err, "If the site then refuses the new nodes, the old ones are gone.")
		}
	}
	return requireYes(c, u.Yes, "Change it?")
}

// requireYes asks the question unless yes is true. It fails without a terminal, or if the answer is
// not yes.
func requireYes(c command.Console, yes bool, question string) error {
	if yes {
		return nil
	}
	if !command.ToTerminal(os.Stdin) || !command.ToTerminal(c.Err) {
		return errors.New("nothing was changed; repeat the command with --yes to do it without a question")
	}
	if !command.AnswersYes(os.Stdin, c.Err, question+" [y/N] ") {
		return errors.New("nothing was changed")
	}
	return nil
}
