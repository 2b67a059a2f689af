package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/am/client"
)

// Verdict is the result of a check.
type Verdict string

// Verdicts.
const (
	Kept       Verdict = "kept"
	Broken     Verdict = "broken"
	NotOffered Verdict = "not offered"
	NotTried   Verdict = "not tried"
)

// Result is the verdict of one check. Text is empty if the rule is kept.
type Result struct {
	Name    string        `json:"name"`
	Clause  string        `json:"clause"`
	Verdict Verdict       `json:"verdict"`
	Text    string        `json:"text,omitempty"`
	Took    time.Duration `json:"-"`
	// Exchange is what went over the wire during the check, credentials included. It is shortened
	// in the middle.
	Exchange string `json:"-"`
}

// check is one rule of a specification.
type check struct {
	// name is GROUP.RULE, or GROUPn.RULE for version n of the API.
	name string
	// clause is the section that contains the rule.
	clause string
	// needs are checks without which this one cannot be tried. They come earlier in the list.
	needs []string
	// changes means that the check reserves or changes something.
	changes bool
	// run returns nil if the rule is kept.
	run func(*probe) error
}

func (c *check) group() string {
	group, _, _ := strings.Cut(c.name, ".")
	return strings.TrimRight(group, "23")
}

// errMalformed ends a check whose answer has no usable envelope, which the checks of the group
// types report.
var errMalformed = errors.New("the answer is malformed; see the group types")

type verdictError struct {
	verdict Verdict
	text    string
}

func (e *verdictError) Error() string { return e.text }

func notOffered(format string, a ...any) error {
	return &verdictError{NotOffered, fmt.Sprintf(format, a...)}
}

func notTried(format string, a ...any) error {
	return &verdictError{NotTried, fmt.Sprintf(format, a...)}
}

// Groups are the names of all groups, in the order in which they run.
var Groups = []string{"transport", "version", "advertisement", "credentials", "life", "documents", "login", "links", "types", "limits", "authority"}

// onRequest are the groups that run only if they are named.
var onRequest = []string{"limits"}

// Config describes what is to be checked, and with what.
type Config struct {
	// URL is the URL of an aggregate, with the path of one version.
	URL string
	// Version is the version of the API at the URL; 0 for the one with which the URL ends, or else for
	// what the aggregate says.
	Version int
	// Other is the URL of the other version; "" to find it out.
	Other string
	// CertFile, KeyFile and ServerCAFile are as in client.Config.
	CertFile, KeyFile, ServerCAFile string
	// User is the user credential. Slice is the credential of the slice SliceURN; the slice must have
	// no slivers. Without them, fewer checks can be tried.
	User, Slice []byte
	SliceURN    string
	// SliceExpires is the end of the slice credential; zero if it is not known.
	SliceExpires time.Time
	// Expired returns the credential of a slice that has expired, and the slice's URN. Nil means that
	// there is none.
	Expired func(context.Context) (credential []byte, slice string, err error)
	// Request is a request RSpec; empty for one node.
	Request []byte
	// ReadOnly leaves out checks that reserve or change something.
	ReadOnly bool
	// Groups limits the groups; empty for all but limits.
	Groups []string
	// Only limits the checks to those whose names contain one of the texts; empty for all.
	Only []string
	// Wait is how long nodes may take to become ready; zero means 20 minutes.
	Wait time.Duration
	// Progress is called before each check, with its number and the number of all checks.
	Progress func(name string, n, all int)
}

// Report is the result of Run.
type Report struct {
	Results []Result
	// Left describes what the probe created and could not delete; empty if nothing is left.
	Left string
}

// Count returns the number of checks with a verdict.
func (r *Report) Count(v Verdict) (n int) {
	for _, x := range r.Results {
		if x.Verdict == v {
			n++
		}
	}
	return n
}

// Run runs the checks of an aggregate. When ctx ends, it runs no further checks, deletes what it
// has created, and reports the other checks as not tried.
func Run(ctx context.Context, c Config) (*Report, error) {
	p, err := newProbe(ctx, c)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.runAll(ctx, aggregateChecks(p.first)), nil
}

func (p *probe) runAll(ctx context.Context, all []check) *Report {
	chosen := choose(all, p.config)
	r := &Report{}
	verdicts := map[string]Verdict{}
	for i, c := range chosen {
		if p.config.Progress != nil {
			p.config.Progress(c.name, i+1, len(chosen))
		}
		result := Result{Name: c.name, Clause: c.clause, Verdict: Kept}
		p.recorded.Reset()
		p.ctx = ctx
		start := time.Now()
		err := p.ready(ctx, c, verdicts)
		if err == nil {
			err = c.run(p)
		}
		if ctx.Err() != nil {
			err = notTried("the probe was stopped")
		}
		result.Took, result.Exchange = time.Since(start), p.exchange()
		if err != nil {
			result.Verdict, result.Text = Broken, err.Error()
			if e, ok := errors.AsType[*verdictError](err); ok {
				result.Verdict = e.verdict
			} else if errors.Is(err, errMalformed) {
				result.Verdict = NotTried
			}
		}
		verdicts[c.name] = result.Verdict
		r.Results = append(r.Results, result)
	}
	r.Left = p.cleanUp()
	return r
}

// Reasons not to try what a stranger may not do.
const (
	withoutCertificate = "the server accepts only clients with a certificate; add --user"
	withoutUser        = "it needs the certificate and the credential of a user; add --user"
)

// ready returns why a check cannot be tried.
func (p *probe) ready(ctx context.Context, c check, verdicts map[string]Verdict) error {
	if ctx.Err() != nil {
		return notTried("the probe was stopped")
	}
	if p.config.CertFile == "" && p.refusesStrangers {
		return notTried("%s", withoutCertificate)
	}
	if g := c.group(); p.config.CertFile == "" && len(p.config.User) == 0 && !slices.Contains([]string{"transport", "version", "types", "authority"}, g) {
		return notTried("%s", withoutUser)
	}
	for _, name := range c.needs {
		switch verdicts[name] {
		case Kept:
		case NotOffered:
			return notOffered("%s is not offered", name)
		default:
			return notTried("%s is %s", name, verdicts[name])
		}
	}
	if c.changes && p.config.ReadOnly {
		return notTried("the probe only reads")
	}
	return nil
}

// choose returns the checks that the configuration selects, and those that they need, in the order
// of all. It relies on that order: a check comes after those that it needs.
func choose(all []check, c Config) (chosen []check) {
	wanted := map[string]bool{}
	for i := len(all) - 1; i >= 0; i-- {
		x := &all[i]
		inGroup := len(c.Groups) == 0 && !slices.Contains(onRequest, x.group()) || slices.Contains(c.Groups, x.group())
		named := len(c.Only) == 0 || slices.ContainsFunc(c.Only, func(s string) bool { return strings.Contains(x.name, s) })
		if inGroup && named || wanted[x.name] {
			wanted[x.name] = true
			for _, n := range x.needs {
				wanted[n] = true
			}
		}
	}
	for _, x := range all {
		if wanted[x.name] {
			chosen = append(chosen, x)
		}
	}
	return chosen
}

// maxExchange limits the recorded exchange of a check, in bytes.
const maxExchange = 64 << 10

func (p *probe) exchange() string {
	b := p.recorded.Bytes()
	if len(b) > maxExchange {
		b = bytes.Join([][]byte{b[:maxExchange/2], []byte("\n… shortened …\n"), b[len(b)-maxExchange/2:]}, nil)
	}
	return string(b)
}

// newClient returns a client that records into the probe.
func (p *probe) newClient(url, certFile, keyFile string) (*client.Client, error) {
	c, err := client.New(client.Config{URL: url, CertFile: certFile, KeyFile: keyFile, ServerCAFile: p.config.ServerCAFile, RecordTo: &p.recorded})
	if err == nil {
		p.clients = append(p.clients, c)
	}
	return c, err
}
