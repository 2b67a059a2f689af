package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
	"patchbay/inventory/suggest"
)

const callLong = `Call an aggregate manager, this site's or any other, and show what it answers.

Who calls is told by --user: a folder made by "patchbay user", or files in any
number and order: certificate, key, credentials, SSH public keys. The slice is
told by --slice: a name, whose credential lies in that folder, or a URN, or a
file with a slice credential.

  GetVersion
  ListResources                         what is offered
  Allocate REQUEST                      reserve what the file asks for; - is standard input
  Provision [SLIVER …]                  make it real; all of the slice without SLIVER
  Status, Describe [SLIVER …]
  Renew TIME [SLIVER …]                 2026-12-24T18:00:00Z, or 2h from now
  PerformOperationalAction ACTION [SLIVER …]   start, stop, restart, update_users, …
  Delete [SLIVER …]
  Shutdown

A SLIVER is told by its URN, or by its node's name in the request, which is then
looked up with Describe first.

In version 2 (--api-version 2, or a URL that ends in /am/2.0), where all is
about a whole slice:

  GetVersion
  ListResources                         what is offered; with --slice its manifest
  CreateSliver REQUEST                  reserve it, make it real and start it
  SliverStatus
  RenewSliver TIME
  DeleteSliver
  Shutdown

Of any other method, arguments go as they are: text, or a value in JSON.

A partner gets accounts on the nodes with --login: of Provision for new nodes, of
PerformOperationalAction update_users for nodes that are there.

A tool that acts for a user gives its own certificate and key with --user,
whom it acts for with --speaking-for, the credential that permits it with
--credential, and the user's own credentials.

Documents and tables go to standard output, the outcome to standard error; with
-o - the document alone goes to standard output. The exit status is 0
only if the aggregate answered with code 0.`

type callOptions struct {
	site    siteFlag
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
	Timeout     time.Duration

	method string
	args   []string
}

func (o *callOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.URL, "url", os.Getenv(site.EnvPrefix+"URL"), "the aggregate manager; without it the site of --config; also PATCHBAY_URL")
	fs.StringArrayVar(&o.Users, "user", nil, "who calls: a folder or a file; may be given several times")
	fs.StringVar(&o.Slice, "slice", "", "the slice: a name, a URN or a file with its credential")
	fs.IntVar(&o.API, "api-version", 0, "2 or 3 (default: what the URL says, else 3)")
	fs.StringArrayVar(&o.Options, "option", nil, "an option of the call, NAME=VALUE; true, false, numbers and JSON are values of their type")
	fs.StringArrayVar(&o.Logins, "login", nil, "who is to log in to the nodes besides the caller: a user of this site, their folder, or NAME=FILE with their public SSH keys; may be given several times")
	fs.StringArrayVar(&o.Credentials, "credential", nil, "a file with one more credential to send with the call; may be given several times")
	fs.StringVar(&o.SpeakingFor, "speaking-for", "", "the URN of the user for whom a tool calls (option geni_speaking_for)")
	fs.StringVar(&o.CA, "ca", "", "a file with certificates that vouch for the server (default: any server is believed, as omni does)")
	fs.StringVarP(&o.Output, "output", "o", "", "write the RSpec of the answer to this file; - for the standard output, and tables to standard error")
	fs.BoolVar(&o.Logs, "logs", false, "show what all steps of a node wrote, not only those that failed")
	fs.BoolVar(&o.Raw, "raw", false, "show the answer as the XML that came")
	fs.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "how long to wait for the answer")
}

func (o *callOptions) Validate(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("the method is missing; begin with: %s", o.site.hint("call", "GetVersion"))
	}
	if o.API != 0 && o.API != 2 && o.API != 3 {
		return fmt.Errorf("--api-version %d is neither 2 nor 3", o.API)
	}
	if o.SpeakingFor != "" {
		if u, err := urn.Parse(o.SpeakingFor); err != nil {
			return fmt.Errorf("--speaking-for: %w", err)
		} else if u.Type != urn.User {
			return fmt.Errorf("--speaking-for: %s is a %s, not a user", u, u.Type)
		}
	}
	o.method, o.args = args[0], args[1:]
	return nil
}

func (o *callOptions) Run(ctx context.Context, c console) error {
	target, err := o.target(ctx)
	if err != nil {
		return err
	}
	me, err := readCaller(o.Users, o.Slice)
	if err != nil {
		return err
	}
	me.speakingFor = o.SpeakingFor
	for _, file := range o.Credentials {
		if err := me.addCredential(file); err != nil {
			return fmt.Errorf("--credential: %w", err)
		}
	}
	if err := o.addLogins(me); err != nil {
		return err
	}
	now := time.Now()
	for _, over := range me.expired(now) {
		fmt.Fprintf(c.err, "%s\n", display.Printable(over))
	}
	request := callRequest{api: o.API, method: o.method, args: o.args, options: o.Options, me: me, now: now}
	answer := &answerOnly{}
	ca := client.Config{URL: target, CertFile: me.certFile, KeyFile: me.keyFile, ServerCAFile: o.CA, Timeout: o.Timeout}
	if o.Raw {
		ca.RecordTo = answer
	}
	am, err := client.New(ca)
	if err != nil {
		return err
	}
	defer am.Close()
	if err := request.resolve(ctx, am); err != nil {
		return o.explain(err, me)
	}
	answer.body.Reset()
	params, err := request.params()
	if err != nil {
		return fmt.Errorf("%s: %w", o.method, err)
	}
	reply, err := am.Call(ctx, o.method, params...)
	if o.Raw {
		io.WriteString(c.out, shownOn(c.out, answer.body.String()))
	}
	if err != nil {
		return o.explain(err, me)
	}
	fmt.Fprintf(c.err, "%s: %s (%d), %s\n", o.method, reply.Code, int(reply.Code), reply.Took.Round(time.Millisecond))
	return o.show(c, reply)
}

// explain adds to why a call has no answer what the caller may have overlooked.
func (o *callOptions) explain(err error, me *caller) error {
	if _, ok := errors.AsType[*xmlrpc.Fault](err); ok {
		return fmt.Errorf("%w%s", err, methodHint(o.API, o.method))
	}
	switch {
	case me.certFile != "":
		return err
	case len(o.Users) == 0:
		return fmt.Errorf("%w; no --user was given", err)
	}
	return fmt.Errorf("%w; what --user names holds no certificate: give the user's folder, or the files with certificate and key, too", err)
}

// methodHint says how a method is perhaps really called, or which version has it.
func methodHint(api int, method string) string {
	names := slices.Sorted(maps.Keys(shapes[api]))
	if slices.Contains(names, method) {
		return ""
	}
	if near := suggest.Word(method, names); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	for other := range shapes {
		near := suggest.Word(method, slices.Sorted(maps.Keys(shapes[other])))
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

func (o *callOptions) show(c console, reply client.Reply) error {
	if reply.Output != "" {
		fmt.Fprintf(c.err, "%s\n", display.Printable(reply.Output))
	}
	if o.Raw {
		if reply.Code != am.Success {
			return exitError(1)
		}
		return nil
	}
	shown := readValue(reply.Value)
	shown.logs = o.Logs
	tables := c.out
	switch {
	case o.Output == "-":
		answer{rspec: shownOn(c.out, shown.rspec)}.print(c.out)
		tables, shown.rspec = c.err, ""
	case o.Output != "" && shown.rspec != "":
		f, err := openOutput(o.Output, os.O_TRUNC)
		if err == nil {
			_, err = f.WriteString(shown.rspec)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return fmt.Errorf("cannot write the RSpec: %w", err)
		}
		shown.rspec = ""
	}
	shown.rspec = shownOn(c.out, shown.rspec)
	shown.print(tables)
	if reply.Code != am.Success {
		return exitError(1)
	}
	return nil
}

// target is the URL to call, with the path of a version; it settles the version.
func (o *callOptions) target(ctx context.Context) (string, error) {
	target := o.URL
	if target == "" {
		config, err := o.site.read()
		if err != nil {
			if _, statErr := os.Stat(o.site.path()); statErr != nil && !o.site.given() {
				return "", errors.New("whom to call? Give --url https://HOST:PORT/am/3.0, or --config with a site of this host")
			}
			return "", err
		}
		if target = strings.TrimSuffix(config.PublicURL, "/"); target == "" {
			target = site.PublicURLOf(ctx, config.Listen)
		}
	}
	u, err := url.Parse(target)
	if err != nil {
		return "", fmt.Errorf("--url: %w", err)
	}
	if u.Port() == "0" {
		return "", errors.New("the site listens on any free port; give --url with what serve has printed")
	}
	place, version := path.Split(strings.TrimSuffix(u.Path, "/"))
	said := map[string]int{"2.0": 2, "3.0": 3}[version] // what the URL says
	if o.API == 0 {
		o.API = cmp.Or(said, 3)
	}
	switch {
	case u.Path == "" || u.Path == "/":
		u.Path = fmt.Sprintf("/am/%d.0", o.API)
	case said != 0 && said != o.API: // the other version is at its neighbour
		u.Path = fmt.Sprintf("%s%d.0", place, o.API)
	}
	return u.String(), nil
}

// answerOnly keeps what the server sent out of a client's record.
type answerOnly struct{ body bytes.Buffer }

func (a *answerOnly) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("< ")) {
		_, body, _ := bytes.Cut(p, []byte("\n"))
		a.body.Write(body)
	}
	return len(p), nil
}

// shownOn is a document as w gets it: a terminal without what it would obey, a
// file or a pipe byte for byte.
func shownOn(w io.Writer, document string) string {
	if toTerminal(w) {
		return display.Printable(document)
	}
	return document
}
