package providertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"patchbay/inventory/provider"
)

// Finding is one thing that is not as PROVIDER.md says.
type Finding struct {
	// Rule is the heading in PROVIDER.md.
	Rule string
	// Text is what was seen and what to do about it, in one line.
	Text string
	// Note says that the provider may be used all the same.
	Note bool
}

func (f Finding) String() string { return f.Rule + ": " + f.Text }

// Options say what may be done to a real provider.
type Options struct {
	// Node is a node that may be made and removed again: component, and image,
	// sliver_type or whatever else the provider needs. Without it nothing is made.
	Node provider.Resource
	// Wait is how long one operation may take; zero is ten minutes.
	Wait time.Duration
	// Poll is how often get asks meanwhile; zero is a second.
	Poll time.Duration
	// Progress is told what begins now, in a few words; nil tells nobody.
	Progress func(step string)
}

// T is what Run needs of a *testing.T.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Context() context.Context
}

// Run opens the provider and reports every finding of Check, or of Life when
// the options allow it, through t.
func Run(t T, path string, o Options) {
	t.Helper()
	p, err := provider.Open(path, nil)
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	suite := Check
	if o.Node != nil {
		suite = Life
	}
	for _, f := range suite(t.Context(), p, o) {
		if f.Note {
			t.Logf("%v", f)
		} else {
			t.Errorf("%v", f)
		}
	}
}

// The headings of PROVIDER.md that findings are under.
const (
	ruleFiles      = "Files"
	ruleCalls      = "Calls"
	ruleGet        = "get"
	ruleSet        = "set"
	ruleNoop       = "set, dry run"
	ruleState      = "Slow work"
	ruleErrors     = "Errors"
	ruleAttributes = "Attributes of a node"
	ruleInterfaces = "Interfaces"
	ruleServices   = "Services"
)

// suite collects findings about one provider.
type suite struct {
	ctx    context.Context
	over   func() bool // somebody has interrupted us
	p      *provider.Provider
	o      Options
	deaf   bool // a dry run changes something
	shapes bool // it accepts properties of links

	quiet bool // what is found was to be expected

	mu       sync.Mutex // guards what follows
	findings []Finding
	told     map[string]bool // by rule and what was said, whatever about
}

// newSuite watches p through what it writes.
func newSuite(ctx context.Context, p *provider.Provider, o Options) *suite {
	if o.Wait == 0 {
		o.Wait = 10 * time.Minute
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	watched := *p
	s := &suite{ctx: ctx, over: func() bool { return ctx.Err() != nil }, p: &watched, o: o, told: map[string]bool{}}
	watched.Log = s.listen(p.Log)
	watched.Trace = s.trace
	return s
}

func (s *suite) wrong(rule, format string, args ...any) { s.find(rule, false, format, args) }
func (s *suite) note(rule, format string, args ...any)  { s.find(rule, true, format, args) }

// find notes a finding. The same about something else is one mistake, too, and
// told once. What goes wrong when somebody has interrupted us is nobody's fault.
func (s *suite) find(rule string, note bool, format string, args []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told[rule+format] || (s.quiet || s.over()) && !note {
		return
	}
	s.told[rule+format] = true
	s.findings = append(s.findings, Finding{rule, fmt.Sprintf(format, args...), note})
}

// failed tells whether anything wrong was found.
func (s *suite) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.findings, func(f Finding) bool { return !f.Note })
}

func (s *suite) begin(step string) {
	if s.o.Progress != nil {
		s.o.Progress(step)
	}
}

// around runs f and looks what new files it left in the provider's folder.
func (s *suite) around(f func()) []Finding {
	before := map[string]bool{}
	for _, name := range s.files() {
		before[name] = true
	}
	f()
	stem := strings.TrimSuffix(filepath.Base(s.p.Path), provider.Suffix)
	for _, name := range s.files() {
		if !before[name] && !strings.HasPrefix(name, stem) {
			s.note(ruleFiles, "while it ran, %q appeared beside it; keep state in files or folders whose names begin with %s, for other providers live there, too", name, stem)
		}
	}
	return s.findings
}

func (s *suite) files() (names []string) {
	entries, _ := os.ReadDir(s.p.Dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// detail is an error as its provider's author needs it.
func detail(err error) string {
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return e.Detail()
	}
	return err.Error()
}

// unheardOf is a name like those the manager gives, which nobody has.
func unheardOf() string { return uuid.NewString() }

func unheardOfNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = unheardOf()
	}
	return names
}

// pause waits for the next look, and tells whether nobody has interrupted it.
func (s *suite) pause() bool {
	select {
	case <-time.After(s.o.Poll):
		return true
	case <-s.ctx.Done():
		return false
	}
}
