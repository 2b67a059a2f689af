package experimenter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/cmd/patchbay/command"
	"patchbay/rspec/compile"
	"patchbay/rspec/draw"
	"patchbay/rspec/view"
)

const callLong = `Call a method of an aggregate manager, of this site or any other, and show the answer.

--user names the caller: a user of the site, a user's folder, or any number of files
(certificate, key, credentials, SSH public keys). The default is the current folder if it
is a user's, else the only user of the site. --slice names the slice:
a name whose credential is in the user's folder, a URN, or a file with a credential.
Without it the only slice of the user is used.

The aggregate is the one of --url, else of --config or PATCHBAY_CONFIG, else of
aggregate.yaml in the user's folder, else of the site in the current folder, else the
site that "patchbay up" created.

  GetVersion
  ListResources                         what the aggregate offers
  Allocate REQUEST                      reserve what the file asks for, an RSpec, RADL
                                        or a blueprint; - is standard input
  Provision [SLIVER …]                  create it; without SLIVER, the whole slice
  Status, Describe [SLIVER …]
  Renew TIME [SLIVER …]                 "2026-12-24 18:00" in your time zone,
                                        2026-12-24T17:00:00Z, 2026-12-24 (its last second
                                        in UTC), or 2h from now
  start, stop, restart [SLIVER …]       switch nodes on or off
  update_users [SLIVER …]               change the accounts on existing nodes; see --login
  setup [SLIVER …]                      run failed steps of the setup again, and go on
  PerformOperationalAction ACTION [SLIVER …]   these actions, or others
  Delete [SLIVER …]                     release it; files on the nodes are lost
  Shutdown                              an emergency stop: the slice is disconnected at once,
                                        its users are locked out, and only operators of the
                                        aggregate can undo it; to switch nodes off, use stop

Methods may be written in any case. A SLIVER is a URN, or the name of its node in the
request, which Describe looks up first.

Methods of version 2 (--api-version 2, or a URL that ends in /am/2.0) concern whole slices:

  GetVersion
  ListResources                         what is offered; with --slice its manifest
  CreateSliver REQUEST                  reserve, create and start it
  SliverStatus
  RenewSliver TIME
  DeleteSliver
  Shutdown

--start and --end reserve for later: Allocate and CreateSliver. ListResources then says what
is free in that time. Renew --end moves the end of a reservation that has not begun.

For any other method, arguments are sent as given: as text or as a JSON value.

--wait waits for the resulting state: after Provision all nodes exist, after start,
restart, setup and CreateSliver they are ready, after Delete none exists. Then it shows the
nodes. Delete of a whole slice and Shutdown ask first at a terminal; --yes
skips the question.

--login gives a partner accounts on the nodes: with Provision on new nodes, with
PerformOperationalAction update_users on existing ones.

A tool that acts for a user gives its own certificate and key with --user, the user's URN
with --speaking-for, the credential that permits it with --credential, and the user's own
credentials with another --user.

The table goes to standard output, the result code to standard error. -o FILE writes the
RSpec of the answer, and -o - prints it instead of the table. The exit status is 0 only
if the aggregate answered with code 0, and with setup --wait, if no step has failed.`

type callOptions struct {
	site    command.SiteFlag
	URL     string
	Users   []string
	Slice   string
	API     int
	Options []string
	Logins  []string
	// Credentials are files; SpeakingFor is a URN.
	Credentials []string
	SpeakingFor string
	CA          string
	Output      string
	Logs        bool
	Raw         bool
	JSON        bool
	URNs        bool
	Wait        bool
	Start, End  string
	Yes         bool
	Timeout     time.Duration

	source command.SourceFlags
	flags  *pflag.FlagSet
	method string
	args   []string
}

func (o *callOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	o.source.AddFlags(fs)
	o.flags = fs
	fs.StringVar(&o.URL, "url", os.Getenv(site.EnvPrefix+"URL"), "the aggregate manager, such as https://HOST:PORT/am/3.0; also PATCHBAY_URL")
	fs.StringArrayVar(&o.Users, "user", nil, "the caller: a user's name, folder or file; may be given several times")
	fs.StringVar(&o.Slice, "slice", "", "the slice: a name, a URN or a file with its credential")
	fs.IntVar(&o.API, "api-version", 0, "2 or 3 (default: the version in the URL, else 3)")
	fs.StringArrayVar(&o.Options, "option", nil, "an option of the call, NAME=VALUE; a VALUE that is true, false, a number or JSON is sent as that type, any other as text")
	fs.StringArrayVar(&o.Logins, "login", nil, "another user with an account on the nodes: a user of this site, their folder, or NAME=FILE with their public SSH keys; may be given several times")
	fs.StringArrayVar(&o.Credentials, "credential", nil, "a file with one more credential to send with the call; may be given several times")
	fs.StringVar(&o.SpeakingFor, "speaking-for", "", "the URN of the user that a tool speaks for (option geni_speaking_for)")
	fs.StringVar(&o.CA, "ca", "", "accept only servers with a certificate in this file (default: the file that aggregate.yaml names, else the server's certificate is not verified, as in omni)")
	fs.StringVarP(&o.Output, "output", "o", "", "write the RSpec of the answer to this file; - for standard output, with tables on standard error")
	fs.BoolVar(&o.Logs, "logs", false, "show the output of all steps of a node, not only of failed ones, and when the steps began")
	fs.BoolVar(&o.Raw, "raw", false, "print the XML of the answer unchanged")
	fs.BoolVar(&o.JSON, "json", false, "print the whole answer as JSON")
	fs.BoolVar(&o.URNs, "urns", false, "show URNs, and states in the words of the API")
	fs.StringVar(&o.Start, "start", "", "the TIME at which a reservation begins (option geni_start_time)")
	fs.StringVar(&o.End, "end", "", "the TIME at which it ends (option geni_end_time); a duration counts from --start")
	fs.BoolVar(&o.Wait, "wait", false, "wait until the nodes are in the resulting state")
	fs.BoolVar(&o.Yes, "yes", false, "do not ask before Delete of a whole slice and Shutdown")
	fs.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "how long to wait for the answer; if given, also the limit of --wait")
}

func (o *callOptions) Validate(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("the method is missing; begin with: %s", o.site.Hint("call", "GetVersion"))
	}
	if o.API != 0 && o.API != 2 && o.API != 3 {
		return fmt.Errorf("--api-version is 2 or 3, not %d", o.API)
	}
	if o.SpeakingFor != "" {
		if u, err := urn.Parse(o.SpeakingFor); err != nil {
			return fmt.Errorf("--speaking-for: %w", err)
		} else if u.Type != urn.User {
			return fmt.Errorf("--speaking-for: %s is a %s, not a user", u, u.Type)
		}
	}
	if o.JSON && (o.Raw || o.Output == "-") {
		return errors.New("--json, --raw and -o - all print to standard output; give one")
	}
	if o.Raw && o.Wait {
		return errors.New("--raw prints one answer, and --wait asks several times; give one")
	}
	o.method, o.args = args[0], args[1:]
	return o.source.Validate()
}

func (o *callOptions) Run(ctx context.Context, c command.Console) error {
	flags := session.Selection{Site: &o.site.ChosenSite, URL: o.URL, CA: o.CA, Users: o.Users, API: o.API}
	at, err := flags.Target(ctx)
	if err != nil {
		return err
	}
	o.API = at.Version
	r, err := o.request(at.Paths)
	if err != nil {
		return err
	}
	recorded := &answerOnly{}
	ca := client.Config{URL: at.URL, CertFile: r.me.CertFile, KeyFile: r.me.KeyFile, ServerCAFile: at.CA, Timeout: o.Timeout}
	if o.Raw {
		ca.RecordTo = recorded
	}
	manager, err := client.New(ca)
	if err != nil {
		return err
	}
	defer manager.Close()
	if err := r.resolve(ctx, manager); err != nil {
		return o.explain(err, r.me)
	}
	recorded.body.Reset() // drop the answer to Describe
	r.compile = func(file string, text []byte) ([]byte, error) {
		offer, err := o.offer(at)
		if err != nil {
			return nil, err
		}
		if text, err = o.source.Request(c, file, text, offer); err != nil {
			return nil, err
		}
		return text, o.source.ListSent(c, file)
	}
	params, err := r.params()
	if code, ok := errors.AsType[command.ExitError](err); ok {
		return code // the mistakes are printed
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.method, err)
	}
	wanted, err := o.wanted(r)
	if err != nil {
		return err
	}
	for _, line := range r.optionWarnings() {
		fmt.Fprintln(c.Err, display.Printable(line))
	}
	if question := r.question(); question != "" && !o.Yes && !command.Confirmed(os.Stdin, c.Out, question) {
		return errors.New("nothing was changed")
	}
	reply, err := manager.Call(ctx, o.method, params...)
	if o.Raw {
		io.WriteString(c.Out, command.ShownOn(c.Out, recorded.body.String()))
	}
	if err != nil {
		return o.explain(err, r.me)
	}
	return o.finish(ctx, c, manager, r, wanted, reply)
}

// finish prints the result code and the answer; with --wait, it first waits for the wanted states. It
// returns an ExitError if the aggregate refused the call, and an error if setup --wait leaves steps
// that have failed.
func (o *callOptions) finish(ctx context.Context, c command.Console, manager *client.Client, r *callRequest, wanted client.Wanted, reply client.Reply) (err error) {
	if terms := o.source.Terms(); terms != nil {
		reply = reply.ForSource(terms)
	}
	fmt.Fprintf(c.Err, "%s: %s (%d), %s\n", o.method, reply.Code, int(reply.Code), reply.Took.Round(time.Millisecond))
	if reply.Output != "" {
		fmt.Fprintf(c.Err, "%s\n", display.Printable(reply.Output))
	}
	if reply.Code != am.Success {
		for _, line := range r.remedies(reply) {
			fmt.Fprintf(c.Err, "%s\n", display.Printable(line))
		}
	} else if o.Wait {
		if reply, err = o.wait(ctx, c, manager, r, wanted, reply); err != nil {
			return err
		}
	}
	err = o.show(c, r.me, reply)
	if err == nil && o.Wait && r.action() == string(am.ActionSetup) {
		err = setupError(sliversOf(reply))
	}
	return err
}

// offer returns what the site of the aggregate offers; nothing if this user cannot read it.
func (o *callOptions) offer(at session.Target) (compile.Options, error) {
	config, file := at.Config, ""
	switch {
	case config != nil:
	case o.flags.Changed("config"):
		file = o.site.Path()
	case o.URL == "" && len(at.Paths) > 0:
		file = userfolder.SiteOf(filepath.Join(at.Paths[0], "x"))
	}
	if file != "" {
		config, _ = o.site.ReadFile(file) // without it, no site is known
	}
	offer, err := command.OfferOf(config)
	if errors.Is(err, fs.ErrPermission) {
		return compile.Options{}, nil
	}
	return offer, err
}

// request returns the call to make, for the caller whose files are at the paths. It replaces o.method
// and o.args as methodOf does. Without --slice, it selects the only slice of the caller if the call
// needs one.
func (o *callOptions) request(paths []string) (*callRequest, error) {
	me, err := session.ReadCaller(paths, o.Slice)
	if err != nil {
		return nil, err
	}
	me.SpeakingFor = o.SpeakingFor
	for _, file := range o.Credentials {
		if err := me.AddCredential(file); err != nil {
			return nil, fmt.Errorf("--credential: %w", err)
		}
	}
	o.method, o.args = methodOf(o.API, o.method, o.args)
	if err := o.addLogins(me, paths); err != nil {
		return nil, err
	}
	r := &callRequest{api: o.API, method: o.method, args: o.args, options: o.Options, start: o.Start, end: o.End, me: me, now: time.Now()}
	if o.Slice == "" && r.needsSlice() {
		return r, me.SetOnlySlice()
	}
	return r, nil
}

// question returns what to ask before Shutdown and before a whole slice is deleted; "" for other calls.
func (r *callRequest) question() string {
	slice := display.Line(r.me.SliceURN)
	switch {
	case r.method == "Shutdown":
		return fmt.Sprintf("Shut down %s? This is an emergency stop: its nodes are cut off at once,\nyou are locked out, and only the operators of the aggregate can undo it.\nTo switch nodes off, use stop instead. [y/N] ", slice)
	case r.method == "DeleteSliver", r.method == "Delete" && r.isWholeSlice():
		return fmt.Sprintf("Delete all slivers of %s, with everything on them? [y/N] ", slice)
	}
	return ""
}

// remedies returns a line for each credential that has expired or that ends before the
// requested lease.
func (r *callRequest) remedies(reply client.Reply) []string {
	isPatchbay := reply.AMType == am.AMType
	lines := r.me.Expired(r.now, isPatchbay && am.Detail(reply.Detail) == am.CredentialExpired)
	isRenew := (r.method == "Renew" || r.method == "RenewSliver") && len(r.args) > 0
	mayEndTooEarly := !isPatchbay || strings.Contains(reply.Output, byCredential) // other software may not report it
	if !isRenew || !mayEndTooEarly {
		return lines
	}
	text, err := r.time(r.args[0])
	if err != nil {
		return lines
	}
	until, err := display.ParseExpires(text)
	if err != nil {
		return lines
	}
	for i := range r.me.Credentials {
		c := &r.me.Credentials[i]
		if !strings.EqualFold(c.Target, r.me.SliceURN) || c.Expires.IsZero() || c.IsExpired(r.now) || !until.After(c.Expires) {
			continue
		}
		const day = 24 * time.Hour
		if line := c.Remedy("--expires", fmt.Sprintf("%dd", (until.Sub(r.now)+day-1)/day+1)); line != "" {
			lines = append(lines, fmt.Sprintf("the credential of the slice ends on %s; create a longer one with: %s", display.Time(c.Expires), line))
		}
	}
	return lines
}

// byCredential is part of a Patchbay server's error if the slice's credential ends before
// the requested lease.
const byCredential = "by the presented credential"

// explain adds to an error of a call what may be wrong with the method or with --user.
func (o *callOptions) explain(err error, me *session.Caller) error {
	if _, ok := errors.AsType[*xmlrpc.Fault](err); ok {
		return fmt.Errorf("%w%s", err, methodHint(o.API, o.method))
	}
	switch {
	case me.CertFile != "":
		return err
	case len(o.Users) == 0:
		return fmt.Errorf("%w; no --user was given", err)
	}
	return fmt.Errorf("%w; --user has no certificate: give the user's folder, or also the files with certificate and key", err)
}

// methodHint returns the end of an error about a method that the version of the API lacks: a similar
// method, or "".
func methodHint(api int, method string) string {
	names := slices.Sorted(maps.Keys(shapes[api]))
	if slices.Contains(names, method) {
		return ""
	}
	if near := display.Suggest(method, names); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	for other := range shapes {
		near := display.Suggest(method, slices.Sorted(maps.Keys(shapes[other])))
		switch {
		case near == "" || other == api:
		case near == method:
			return fmt.Sprintf("; give --api-version %d", other)
		default:
			return fmt.Sprintf("; did you mean %s, with --api-version %d?", near, other)
		}
	}
	return ""
}

// show writes the RSpec of the answer to the file of -o, and prints the answer. It returns an ExitError
// if the aggregate refused the call.
func (o *callOptions) show(c command.Console, me *session.Caller, reply client.Reply) error {
	shown := readValue(reply.Value)
	if o.Output != "" && o.Output != "-" && shown.rspec != "" {
		if err := command.WriteDocument(o.Output, shown.rspec); err != nil {
			return fmt.Errorf("cannot write the RSpec: %w", err)
		}
	}
	switch {
	case o.Raw:
	case o.JSON:
		text, err := jsonText(reply)
		if err != nil {
			return err
		}
		io.WriteString(c.Out, command.ShownOn(c.Out, text))
	default:
		o.print(c, me, shown)
	}
	if reply.Code != am.Success {
		return command.ExitError(1)
	}
	return nil
}

// print prints the answer as tables, and draws the RSpec if the answer has nothing else. With -o -, it
// prints the RSpec on standard output and the tables on standard error.
func (o *callOptions) print(c command.Console, me *session.Caller, shown answer) {
	shown.logs, shown.urns, shown.now = o.Logs, o.URNs, time.Now()
	isStatus := slices.Contains([]string{"Status", "Describe", "SliverStatus"}, o.method)
	shown.brief = !isStatus && !o.Logs && !o.URNs
	shown.nodes, shown.key = nodesBySliver(shown.rspec, session.AccountOf(me.Name())), me.Identity
	if me.IsDelegate() {
		shown.account = session.AccountOf(me.Name())
	}
	tables := c.Out
	switch {
	case o.Output == "-":
		if shown.rspec != "" {
			fmt.Fprintln(c.Out, strings.TrimSpace(command.ShownOn(c.Out, shown.rspec)))
		}
		tables = c.Err
	case shown.rspec != "" && shown.rest == nil && len(shown.slivers) == 0:
		if d, err := view.Read([]byte(shown.rspec), command.DrawLimits); err == nil {
			draw.Text(c.Out, d, command.TextOptions(c.Out))
		}
	}
	shown.print(tables)
	if shown.rspec != "" && o.Output == "" {
		fmt.Fprintln(c.Err, "(-o FILE writes the RSpec of this answer, -o - prints it)")
	}
}

// answerOnly receives a client's record of its traffic. It keeps only the bodies of
// answers.
type answerOnly struct{ body bytes.Buffer }

func (a *answerOnly) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("< ")) {
		_, body, _ := bytes.Cut(p, []byte("\n"))
		a.body.Write(body)
	}
	return len(p), nil
}
