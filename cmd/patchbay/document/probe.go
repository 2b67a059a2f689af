package document

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/client/conformance"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/cmd/patchbay/command"
)

const probeLong = `Check what an aggregate manager keeps of the AM API, versions 2 and 3, and of RSpec version
3. Each check has a verdict: kept, broken, not offered, or not tried with the reason. A check
names the section of the specification on which it stands.

The probe reserves one node, unless --request names another request, starts it, logs in, renews
its lease and deletes it, in an empty slice. It deletes what it made, also after Ctrl-C, and
reports what it could not delete. --read-only only reads.

URL is the aggregate, such as https://HOST:PORT/am/3.0. --user is a user's name, folder or
files: a certificate with its key (also in one PEM file), a user credential, and an omni_config.
--slice is the name of a slice of the user, or the file with its credential. A user who has
logged in at an authority (patchbay login) needs no slice: the probe creates one. Without
credentials, fewer checks can be tried.

The exit status is 1 if something is broken, or if something could not be deleted.`

type probeOptions struct {
	site      command.SiteFlag
	URL       string
	Users     []string
	Slice, CA string
	Request   string
	ReadOnly  bool
	Groups    []string
	Only      []string
	Budget    time.Duration
	JSON      bool
	JUnit     string
	Show      bool
	Authority bool
	API       int
}

func (o *probeOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringArrayVar(&o.Users, "user", nil, "the caller: a user's name, folder or file; may be given several times")
	fs.StringVar(&o.Slice, "slice", "", "an empty slice: a name, or a file with its credential")
	fs.StringVar(&o.CA, "ca", "", "accept only servers with a certificate in this file")
	fs.StringVar(&o.Request, "request", "", "reserve the nodes of this request RSpec, instead of one node")
	fs.BoolVar(&o.ReadOnly, "read-only", false, "reserve and change nothing")
	fs.StringSliceVar(&o.Groups, "group", nil, "only these groups: "+strings.Join(conformance.Groups, ", ")+" (default: all but limits)")
	fs.StringSliceVar(&o.Only, "check", nil, "only checks whose names contain this text, and those that they need")
	fs.DurationVar(&o.Budget, "budget", 30*time.Minute, "how long the probe may take")
	fs.BoolVar(&o.JSON, "json", false, "print one JSON object for each check")
	fs.StringVar(&o.JUnit, "junit", "", "also write a report in JUnit's form to this file")
	fs.BoolVar(&o.Show, "show", false, "show the calls and answers of broken checks, credentials included")
	fs.IntVar(&o.API, "api-version", 0, "the version of the API at the URL, 2 or 3 (default: the one in the URL, else what the aggregate says)")
	fs.BoolVar(&o.Authority, "authority", false, "check the authority at https://HOST:PORT instead of an aggregate")
}

func (o *probeOptions) Validate(args []string) error {
	if len(args) > 0 {
		var err error
		if o.URL, err = command.OneArgument(args, "the URL"); err != nil {
			return err
		}
	}
	for _, g := range o.Groups {
		if !slices.Contains(conformance.Groups, g) {
			return fmt.Errorf("--group: there is no group %q; the groups are %s", g, strings.Join(conformance.Groups, ", "))
		}
	}
	if o.API != 0 && o.API != 2 && o.API != 3 {
		return fmt.Errorf("--api-version is 2 or 3, not %d", o.API)
	}
	if o.Budget <= 0 {
		return errors.New("--budget must be a duration such as 10m")
	}
	return nil
}

func (o *probeOptions) Run(ctx context.Context, c command.Console) error {
	flags := session.Selection{Site: &o.site.ChosenSite, URL: o.URL, CA: o.CA, Users: o.Users, API: o.API}
	if err := o.readOmniConfigs(&flags); err != nil {
		return err
	}
	at, err := flags.Target(ctx)
	if err != nil {
		return err
	}
	config := conformance.Config{
		URL: at.URL, Version: o.API, ServerCAFile: at.CA, ReadOnly: o.ReadOnly, Groups: o.Groups, Only: o.Only, Progress: o.progress(c),
	}
	if o.Request != "" {
		if config.Request, err = command.ReadInput(o.Request); err != nil {
			return fmt.Errorf("--request: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Budget)
	defer cancel()
	if err := o.credentials(ctx, at.Paths, &config); err != nil {
		return err
	}
	start := time.Now()
	run := conformance.Run
	if o.Authority {
		run = conformance.RunAuthority
	}
	report, err := run(ctx, config)
	if err != nil {
		return err
	}
	return o.print(c, at.URL, report, time.Since(start))
}

// readOmniConfigs replaces each omni_config among the users by the files that it names.
func (o *probeOptions) readOmniConfigs(flags *session.Selection) error {
	var users []string
	for _, u := range flags.Users {
		if filepath.Base(u) != "omni_config" || !userfolder.FileExists(u) {
			users = append(users, u)
			continue
		}
		text, err := site.ReadRegular(u)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, "=")
			if key, value = strings.TrimSpace(key), strings.TrimSpace(value); key == "cert" || key == "key" {
				if !filepath.IsAbs(value) {
					value = filepath.Join(filepath.Dir(u), value)
				}
				users = append(users, value)
			}
		}
	}
	flags.Users = users
	return nil
}

// credentials adds the certificate and the credentials of the user, whose files are at the paths, and
// of the slice. If the user has logged in at an authority, it creates a slice for the probe, unless
// --slice or --read-only is given. It reads the new credential and removes its file.
func (o *probeOptions) credentials(ctx context.Context, paths []string, config *conformance.Config) error {
	me, err := session.ReadCaller(paths, "")
	if err != nil {
		return err
	}
	config.CertFile, config.KeyFile = me.CertFile, me.KeyFile
	for _, x := range me.Credentials {
		if x.Kind == urn.User {
			config.User = []byte(x.Text)
		}
	}
	slice := o.Slice
	for _, dir := range me.Folders {
		x, err := session.OpenAuthority(dir)
		if err != nil {
			return err
		}
		if x == nil || o.Authority {
			continue
		}
		defer x.Close()
		if slice == "" && !o.ReadOnly {
			slice = "probe" + strings.ToLower(rand.Text()[:10])
			file := filepath.Join(dir, userfolder.SlicesDir, slice+"-cred.xml")
			u := urn.URN{Authority: x.User.Authority, Type: urn.Slice, Name: slice}
			if err := x.SliceCredential(ctx, u, file, time.Now().Add(24*time.Hour), true); err != nil {
				return fmt.Errorf("cannot create a slice for the probe: %w", err)
			}
			defer userfolder.RemoveFile(file)
			if err := x.UserCredential(ctx); err != nil {
				return err
			}
		}
		config.Expired = func(ctx context.Context) ([]byte, string, error) { return expiredCredential(ctx, x) }
	}
	if slice == "" {
		return nil
	}
	if err := me.SetSlice(slice); err != nil {
		return fmt.Errorf("--slice: %w", err)
	}
	for _, x := range me.Credentials {
		if x.Kind == urn.Slice && x.Target == me.SliceURN {
			config.Slice, config.SliceURN, config.SliceExpires = []byte(x.Text), x.Target, x.Expires
		}
	}
	return nil
}

// expiredCredential returns the credential of a slice that has just expired.
func expiredCredential(ctx context.Context, x *session.Authority) (credential []byte, slice string, err error) {
	const life = 3 * time.Second
	dir, err := os.MkdirTemp("", "patchbay-probe-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	own := *x // the user's own folder gets no credential of such a slice
	own.Dir = dir
	u := urn.URN{Authority: x.User.Authority, Type: urn.Slice, Name: "expired" + strings.ToLower(rand.Text()[:10])}
	file, expires := filepath.Join(dir, "cred.xml"), time.Now().Add(life)
	if err := own.SliceCredential(ctx, u, file, expires, true); err != nil {
		return nil, "", err
	}
	text, err := site.ReadRegular(file)
	if err != nil {
		return nil, "", err
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(expires) + time.Second):
	}
	return text, u.String(), ctx.Err()
}

// progress returns nil unless standard error is a terminal.
func (o *probeOptions) progress(c command.Console) func(string, int, int) {
	if !command.ToTerminal(c.Err) {
		return nil
	}
	start := time.Now()
	return func(name string, n, all int) {
		left := ""
		if n > 3 {
			left = fmt.Sprintf(", about %s left", display.Duration((time.Since(start) / time.Duration(n-1) * time.Duration(all-n+1)).Round(time.Second)))
		}
		fmt.Fprintf(c.Err, "\r\x1b[K%d of %d: %s%s", n, all, name, left)
		if n == all {
			fmt.Fprint(c.Err, "\r\x1b[K")
		}
	}
}

// print prints the report, and writes it to the file of --junit. It returns an ExitError if something is
// broken or was not deleted.
func (o *probeOptions) print(c command.Console, url string, r *conformance.Report, took time.Duration) error {
	if o.JUnit != "" {
		text, err := junit(url, r)
		if err != nil {
			return err
		}
		if err := site.ReplaceFile(o.JUnit, text, 0o644); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	if o.JSON {
		e := json.NewEncoder(c.Out)
		for _, x := range r.Results {
			if err := e.Encode(x); err != nil {
				return err
			}
		}
	} else if err := o.printTable(c, r, took); err != nil {
		return err
	}
	if r.Left != "" {
		fmt.Fprintf(c.Err, "Not deleted: %s\n", display.Printable(strings.ReplaceAll(r.Left, "\n", "\n  ")))
	}
	if r.Count(conformance.Broken) > 0 || r.Left != "" {
		return command.ExitError(1)
	}
	return nil
}

// printTable prints a line for each check, and one line for more than three checks in a row that were
// not tried for the same reason.
func (o *probeOptions) printTable(c command.Console, r *conformance.Report, took time.Duration) error {
	colours := map[conformance.Verdict]string{conformance.Kept: "\x1b[32m", conformance.Broken: "\x1b[31m"}
	paint := command.ToTerminal(c.Out) && os.Getenv("NO_COLOR") == ""
	for i := 0; i < len(r.Results); i++ {
		x := r.Results[i]
		if n := sameReason(r.Results[i:]); n > 3 {
			x.Name = fmt.Sprintf("%s and %s", x.Name, display.Count(n-1, "more check"))
			i += n - 1
		}
		verdict := fmt.Sprintf("%-11s", x.Verdict)
		if colour := colours[x.Verdict]; paint && colour != "" {
			verdict = colour + verdict + "\x1b[0m"
		}
		line := verdict + " " + x.Name
		if x.Text != "" {
			line += ": " + display.Line(x.Text)
		}
		if x.Verdict == conformance.Broken {
			line += " (" + x.Clause + ")"
		}
		if _, err := fmt.Fprintln(c.Out, line); err != nil {
			return err
		}
		if o.Show && x.Verdict == conformance.Broken {
			for l := range strings.Lines(x.Exchange) {
				fmt.Fprintln(c.Out, "    "+display.Printable(strings.TrimRight(l, "\n")))
			}
		}
	}
	_, err := fmt.Fprintf(c.Out, "\n%d kept, %d broken, %d not offered, %d not tried, in %s.\n", r.Count(conformance.Kept), r.Count(conformance.Broken),
		r.Count(conformance.NotOffered), r.Count(conformance.NotTried), display.Duration(took.Round(time.Second)))
	return err
}

// sameReason counts the results, from the first on, that were not tried for the same reason.
func sameReason(list []conformance.Result) (n int) {
	for _, x := range list {
		if x.Verdict != conformance.NotTried || x.Text != list[0].Text {
			break
		}
		n++
	}
	return n
}

// junit returns a report in JUnit's form, in which CI servers show single checks.
func junit(url string, r *conformance.Report) ([]byte, error) {
	type message struct {
		Text string `xml:"message,attr"`
		Body string `xml:",chardata"`
	}
	type testCase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Time    string   `xml:"time,attr"`
		Failure *message `xml:"failure,omitempty"`
		Skipped *message `xml:"skipped,omitempty"`
	}
	type suite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	s := suite{Name: "patchbay probe " + url, Tests: len(r.Results), Failures: r.Count(conformance.Broken),
		Skipped: r.Count(conformance.NotOffered) + r.Count(conformance.NotTried)}
	for _, x := range r.Results {
		group, _, _ := strings.Cut(x.Name, ".")
		t := testCase{Class: group, Name: x.Name, Time: fmt.Sprintf("%.3f", x.Took.Seconds())}
		why := &message{Text: cmp.Or(x.Text, string(x.Verdict)), Body: x.Clause}
		switch x.Verdict {
		case conformance.Broken:
			t.Failure = why
		case conformance.NotOffered, conformance.NotTried:
			t.Skipped = why
		}
		s.Cases = append(s.Cases, t)
	}
	text, err := xml.MarshalIndent(s, "", "  ")
	return bytes.Join([][]byte{[]byte(xml.Header), text, []byte("\n")}, nil), err
}
