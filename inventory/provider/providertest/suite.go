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

// Finding is one violation of PROVIDER.md.
type Finding struct {
	// Rule is the heading in PROVIDER.md.
	Rule string
	// Text is the problem and the remedy, in one line.
	Text string
	// Note means that the provider can still be used.
	Note bool
}

func (f Finding) String() string { return f.Rule + ": " + f.Text }

// Options limit what the suite may do.
type Options struct {
	// Node is a node that the suite may create and remove: its component, and other
	// attributes that the provider needs, such as image and sliver_type. Without Node
	// nothing is created.
	Node provider.Resource
	// Wait is the time limit of one operation; zero means ten minutes.
	Wait time.Duration
	// Poll is the time between gets while an operation runs; zero means one second.
	Poll time.Duration
	// Progress, if not nil, is called with the name of each step as it begins.
	Progress func(step string)
}

// T is the part of *testing.T that Run needs.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Context() context.Context
}

// Run opens the provider and reports through t each finding of Check, or of Life if the
// options have a node.
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

// The headings of PROVIDER.md in findings.
const (
	ruleFiles        = "Files"
	ruleCalls        = "Calls"
	ruleGet          = "get"
	ruleSet          = "set"
	ruleNoop         = "set, dry run"
	ruleState        = "Slow work"
	ruleErrors       = "Errors"
	ruleAttributes   = "Attributes of a node"
	ruleCapabilities = "Capabilities"
	ruleInterfaces   = "Interfaces"
	ruleServices     = "Services"
	ruleStages       = "Stages"
	ruleInPlace      = "Changes in place"
)

type suite struct {
	ctx               context.Context
	interrupted       func() bool // reports whether the caller's context has ended
	p                 *provider.Provider
	o                 Options
	ignoresNoop       bool // the provider changes something in a dry run
	acceptsProperties bool // the provider accepts properties of links
	acceptsOperations bool // the provider accepts steps of the operations stop and uninstall

	quiet bool // errors are expected and not recorded

	mu       sync.Mutex // guards findings and reported
	findings []Finding
	reported map[string]bool // the findings that are recorded, by rule and format
}

// newSuite returns a suite that also checks the provider's log lines and answers.
func newSuite(ctx context.Context, p *provider.Provider, o Options) *suite {
	if o.Wait == 0 {
		o.Wait = 10 * time.Minute
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	watched := *p
	s := &suite{ctx: ctx, interrupted: func() bool { return ctx.Err() != nil }, p: &watched, o: o, reported: map[string]bool{}}
	watched.Log = s.listen(p.Log)
	watched.Trace = s.trace
	return s
}

// wrong records a finding that is an error. note records a finding with Note set.
func (s *suite) wrong(rule, format string, args ...any) { s.find(rule, false, format, args) }
func (s *suite) note(rule, format string, args ...any)  { s.find(rule, true, format, args) }

// find records a finding, unless an earlier finding has the same rule and format. So a
// mistake that occurs with every node is one finding. After an interruption, and while
// s.quiet is set, find records only notes.
func (s *suite) find(rule string, note bool, format string, args []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reported[rule+format] || (s.quiet || s.interrupted()) && !note {
		return
	}
	s.reported[rule+format] = true
	s.findings = append(s.findings, Finding{rule, fmt.Sprintf(format, args...), note})
}

func (s *suite) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.findings, func(f Finding) bool { return !f.Note })
}

func (s *suite) progress(step string) {
	if s.o.Progress != nil {
		s.o.Progress(step)
	}
}

// run returns the findings of f. It adds a note for each new file in the provider's folder whose
// name does not begin with the provider's name.
func (s *suite) run(f func()) []Finding {
	before := map[string]bool{}
	for _, name := range s.files() {
		before[name] = true
	}
	f()
	stem := strings.TrimSuffix(filepath.Base(s.p.Path), provider.Suffix)
	for _, name := range s.files() {
		if !before[name] && !strings.HasPrefix(name, stem) {
			s.note(ruleFiles, "while the provider ran, the file %q appeared beside it; keep state in files or folders whose names begin with %s, because other providers use the same folder", name, stem)
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

// detail returns the error text for the provider's author.
func detail(err error) string {
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return e.Detail()
	}
	return err.Error()
}

func unusedName() string { return uuid.NewString() }

func unusedNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = unusedName()
	}
	return names
}

// pause returns false if the suite is interrupted.
func (s *suite) pause() bool {
	select {
	case <-time.After(s.o.Poll):
		return true
	case <-s.ctx.Done():
		return false
	}
}
