package providertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"patchbay/inventory/provider"
)

// Finding is one thing that is not as PROVIDER.md says.
type Finding struct {
	// Rule is the heading in PROVIDER.md.
	Rule string
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
}

// T is what Run needs of a *testing.T.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Context() context.Context
}

// Run opens the provider and reports every finding of Check, and of Life when
// the options allow it, through t.
func Run(t T, path string, o Options) {
	t.Helper()
	p, err := provider.Open(path, nil)
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	findings := Check(t.Context(), p, o)
	if o.Node != nil {
		findings = append(findings, Life(t.Context(), p, o)...)
	}
	for _, f := range findings {
		if f.Note {
			t.Logf("%v", f)
		} else {
			t.Errorf("%v", f)
		}
	}
}

// suite collects findings about one provider.
type suite struct {
	ctx      context.Context
	p        *provider.Provider
	o        Options
	findings []Finding
}

func (s *suite) wrong(rule, format string, args ...any) {
	s.findings = append(s.findings, Finding{Rule: rule, Text: fmt.Sprintf(format, args...)})
}

func (s *suite) note(rule, format string, args ...any) {
	s.findings = append(s.findings, Finding{Rule: rule, Text: fmt.Sprintf(format, args...), Note: true})
}

// Check looks at the metadata, gets everything, gets a name nobody has, and
// makes a dry run of making it. It changes nothing, and finds out when the
// provider does.
func Check(ctx context.Context, p *provider.Provider, o Options) []Finding {
	s := &suite{ctx: ctx, p: p, o: o}
	s.checkAttributes()
	if !s.checkGet() {
		return s.findings
	}
	s.checkNoop()
	return s.findings
}

// declared is the type of each attribute of a node, and whether the manager
// sets it (rw), only reads it (r), or only writes it (w).
var declared = map[string][2]string{
	provider.AttrName:          {"string", ""},
	provider.AttrEnsure:        {"enum[present,absent]", "rw"},
	provider.AttrPower:         {"enum[on,off]", "rw"},
	provider.AttrRestartSerial: {"string", "rw"},
	provider.AttrComponent:     {"string", "rw"},
	provider.AttrSliverType:    {"string", "rw"},
	provider.AttrImage:         {"string", "rw"},
	provider.AttrHostname:      {"string", "rw"},
	provider.AttrUsers:         {"array[string]", "rw"},
	provider.AttrInterfaces:    {"array[string]", "rw"},
	provider.AttrSetup:         {"array[string]", "w"},
	provider.AttrState:         {"enum[pending,changing,ready,failed]", "r"},
	provider.AttrMessage:       {"string", "r"},
	provider.AttrAddresses:     {"array[string]", "r"},
	provider.AttrLogin:         {"array[string]", "r"},
	provider.AttrProxy:         {"string", "r"},
	provider.AttrHostKeys:      {"array[string]", "r"},
	provider.AttrCapabilities:  {"array[string]", "r"},
}

// lacking says what cannot be had from a provider without the attribute.
var lacking = map[string]string{
	provider.AttrPower:         "nodes cannot be stopped and started",
	provider.AttrRestartSerial: "nodes cannot be restarted",
	provider.AttrUsers:         "nobody can be given a login",
	provider.AttrInterfaces:    "nodes get neither links nor public addresses",
	provider.AttrLogin:         "nobody is told where to log in",
	provider.AttrState:         "a node counts as ready as soon as get knows it",
	provider.AttrMessage:       "nobody is told why a node failed",
}

const (
	ruleAttributes = "Attributes of a node"
	ruleInterfaces = "Interfaces"
)

func (s *suite) checkAttributes() {
	if s.p.Type != provider.TypeNode {
		s.note(ruleAttributes, "the type is %s, of which this suite knows only the general rules", s.p.Type)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.p.Attributes)) {
		a := s.p.Attributes[name]
		want, known := declared[name]
		if !known {
			s.note(ruleAttributes, "%s is not asked for by anybody", name)
			continue
		}
		if got := a.Type.String(); !sameType(got, want[0]) {
			s.wrong(ruleAttributes, "%s is %s and must be %s", name, got, want[0])
		}
		if want[1] != "" && a.Kind != want[1] {
			s.wrong(ruleAttributes, "%s has kind %s and must have %s", name, a.Kind, want[1])
		}
	}
	for _, name := range []string{provider.AttrEnsure, provider.AttrComponent} {
		if !s.p.Has(name) {
			s.wrong(ruleAttributes, "%s is missing", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		if !s.p.Has(name) {
			s.note(ruleAttributes, "%s is missing, so %s", name, lacking[name])
		}
	}
}

// sameType ignores the order of an enum's options and allows more of them.
func sameType(got, want string) bool {
	a, err1 := provider.ParseType(got)
	b, err2 := provider.ParseType(want)
	if err1 != nil || err2 != nil || a.Base != b.Base {
		return false
	}
	for _, o := range b.Options {
		if !slices.Contains(a.Options, o) {
			return false
		}
	}
	return true
}

// detail is an error as its provider's author needs it.
func detail(err error) string {
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return e.Detail()
	}
	return err.Error()
}

const ruleGet = "get"

// checkGet tells whether get can be relied on.
func (s *suite) checkGet() bool {
	all, err := s.p.Get(s.ctx, nil)
	if err != nil {
		s.wrong(ruleGet, "asked for everything: %v", detail(err))
		return false
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if e := all[name].Err; e != nil {
			s.note(ruleGet, "%s: %v", name, detail(e))
			continue
		}
		names = append(names, name)
		s.checkNode(name, all[name].Resource)
	}
	nobody := unheardOf()
	some, err := s.p.Get(s.ctx, append(names[:min(len(names), 5)], nobody))
	if err != nil {
		s.wrong(ruleGet, "asked by name: %v", detail(err))
		return false
	}
	switch r := some[nobody]; {
	case r.Err != nil && r.Err.Kind != provider.Unknown:
		s.wrong(ruleGet, "asked for a name nobody has: %v; answer that it is absent", detail(r.Err))
	case r.Err == nil && !provider.Gone(r.Resource):
		s.wrong(ruleGet, "says that %s is there, a name nobody has", nobody)
	}
	return true
}

// checkNode looks for what a manager would leave out.
func (s *suite) checkNode(name string, r provider.Resource) {
	if s.p.Type != provider.TypeNode || provider.Gone(r) {
		return
	}
	o := provider.ObservedNode(r)
	for _, c := range []struct {
		attribute string
		used      int
	}{
		{provider.AttrAddresses, len(o.Addresses)}, {provider.AttrLogin, len(o.Logins)},
		{provider.AttrHostKeys, len(o.HostKeys)}, {provider.AttrUsers, len(o.Accounts)},
	} {
		if told := len(r.List(c.attribute)); told != c.used {
			s.wrong(ruleAttributes, "%s of %s has %d items of which only %d can be used: %q", c.attribute, name, told, c.used, r.List(c.attribute))
		}
	}
	for _, item := range r.List(provider.AttrInterfaces) {
		var i struct {
			ClientID string `json:"client_id"`
			MAC      any    `json:"mac"`
		}
		if json.Unmarshal([]byte(item), &i) == nil && i.MAC != nil && i.MAC != "" && o.MACs[i.ClientID] == "" {
			s.wrong(ruleInterfaces, "mac of interface %.80q of %s is not like 02:00:00:00:00:01: %.80q", i.ClientID, name, fmt.Sprint(i.MAC))
		}
	}
	if told := r.Text(provider.AttrProxy); told != o.Proxy {
		s.wrong(ruleAttributes, "proxy of %s is not user@host:port: %q", name, told)
	}
}

const ruleNoop = "set, dry run"

// checkNoop asks what making a node would do, which must do nothing.
func (s *suite) checkNoop() {
	nobody := unheardOf()
	is := provider.Resource{provider.AttrName: nobody, provider.AttrEnsure: provider.Absent}
	_, err := s.p.Set(s.ctx, []provider.Update{{Name: nobody, Is: is, Should: s.wanted(nobody)}}, true)
	if err != nil {
		if !errors.Is(err, errors.ErrUnsupported) {
			s.wrong(ruleNoop, "%v", detail(err))
		}
		return
	}
	after, err := s.p.Get(s.ctx, []string{nobody})
	if err != nil {
		s.wrong(ruleNoop, "get afterwards: %v", detail(err))
	} else if r := after[nobody]; r.Err == nil && !provider.Gone(r.Resource) {
		s.wrong(ruleNoop, "has really made %s; obey ral.noop, and remove that node by hand", nobody)
	}
}

// wanted is the node that may be made, or as good as nothing.
func (s *suite) wanted(name string) provider.Resource {
	r := provider.Resource{
		provider.AttrComponent: "no-such-component", provider.AttrPower: provider.On, provider.AttrRestartSerial: "0",
		provider.AttrInterfaces: []string{`{"client_id":"node0:if0","link":"link0","slice":"urn:publicid:IDN+example.org+slice+slice0","addresses":["10.128.0.1/24"]}`},
	}
	maps.Copy(r, s.o.Node)
	r[provider.AttrName], r[provider.AttrEnsure] = name, provider.Present
	return r
}

// unheardOf is a name like those the manager gives, which nobody has.
func unheardOf() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
