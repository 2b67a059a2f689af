package credentials_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
)

// scene is a call with its caller and credentials. Empty fields have valid values: alice calls
// Allocate for the slice s1, and the sa is trusted.
type scene struct {
	documents   []credentials.Presented
	caller      [][]byte // the certificates shown
	speakingFor string
	right       credentials.Right
	slice       urn.URN
	now         time.Time
	config      credentials.Config
	anchors     func() *cert.Anchors
}

// attack is a call that must be refused.
type attack struct {
	number int // of the specification; 0 for none of it
	name   string
	// rule is the only rule in the refusal.
	rule              rule.Rule
	attack, neighbour scene
}

// themes are all attacks except those on documents signed by another program.
var themes = []struct {
	name string
	rows func(*testing.T, *world) []attack
}{
	{"document", documentAttacks},
	{"signature", signatureAttacks},
	{"certificate", certificateAttacks},
	{"meaning", meaningAttacks},
	{"speaks-for", speaksForAttacks},
}

// shows is a scene with credentials.
func shows(documents ...string) scene { return scene{documents: sfa(documents...)} }

// try authorizes a scene with a new authorizer, which remembers nothing.
func (s scene) try(w *world) error {
	if s.caller == nil {
		s.caller = pki.Raw(w.alice)
	}
	if s.right == "" {
		s.right = credentials.RightAllocate
	}
	if s.slice.IsZero() && s.right != credentials.RightListResources {
		s.slice = w.slice.URN
	}
	if s.now.IsZero() {
		s.now = now
	}
	anchors := pki.Anchors(w.sa)
	if s.anchors != nil {
		anchors = s.anchors()
	}
	z := credentials.New(anchors, s.config)
	g, err := z.Authorize(z.Identify(s.caller, s.now), s.documents, s.speakingFor, s.right, s.now)
	if err != nil || s.slice.IsZero() {
		return err
	}
	_, err = g.Over(s.slice)
	return err
}

// broken returns the rules in a refusal.
func broken(t *testing.T, err error) []rule.Rule {
	t.Helper()
	denied, ok := errors.AsType[*credentials.DeniedError](err)
	if !ok {
		t.Fatalf("%v is no denial", err)
	}
	detail(t, err) // one readable line
	named := map[rule.Rule]bool{}
	for _, r := range denied.Reasons {
		if r.Rule != "" {
			named[r.Rule] = true
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// TestAttacks tries every attack of the specification. The named rule refuses it, and a similar
// call that breaks no rule is accepted. Each rule has an attack. TestMutants shows that the
// attacks succeed without the rule.
func TestAttacks(t *testing.T) {
	w := newWorld(t)
	var all []attack
	ran := 0
	for _, theme := range themes {
		t.Run(theme.name, func(t *testing.T) {
			rows := theme.rows(t, w)
			refuseAll(t, w, rows)
			words(t, w, theme.name, rows)
			all = append(all, rows...)
			ran++
		})
	}
	if ran < len(themes) {
		return // only some were asked for
	}
	numbers, rules := map[int]bool{}, map[rule.Rule]bool{}
	for _, a := range all {
		numbers[a.number], rules[a.rule] = true, true
	}
	for n := 1; n <= 35; n++ {
		if !numbers[n] {
			t.Errorf("attack %d of the specification is not tried", n)
		}
	}
	for name, value := range listedRules(t) {
		if !rules[value] {
			t.Errorf("no attack breaks rule.%s: %s", name, value)
		}
	}
}

// TestAttacksOnDocumentsOfXmlsec1 is TestAttacks on documents of an outside signer.
func TestAttacksOnDocumentsOfXmlsec1(t *testing.T) {
	w := newWorld(t)
	refuseAll(t, w, outsideAttacks(t, w))
}

func refuseAll(t *testing.T, w *world, rows []attack) {
	for _, a := range rows {
		t.Run(a.title(), func(t *testing.T) {
			if err := a.neighbour.try(w); err != nil {
				t.Errorf("the neighbour is refused: %v", err)
			}
			err := a.attack.try(w)
			if err == nil {
				t.Fatalf("accepted although it breaks the rule %q", a.rule)
			}
			if got := broken(t, err); !slices.Equal(got, []rule.Rule{a.rule}) {
				t.Errorf("refused by %q, want the rule %q: %v", got, a.rule, err)
			}
			t.Logf("%-60s refused by: %s", a.title(), a.rule)
		})
	}
}

func (a attack) title() string {
	if a.number == 0 {
		return a.name
	}
	return strconv.Itoa(a.number) + " " + a.name
}

// listedRules are the constants of package rule.
func listedRules(t *testing.T) map[string]rule.Rule {
	t.Helper()
	rules := map[string]rule.Rule{}
	files, err := filepath.Glob("rule/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			if text, ok := spec.Values[0].(*ast.BasicLit); ok {
				value, err := strconv.Unquote(text.Value)
				if err != nil {
					t.Fatal(err)
				}
				rules[spec.Names[0].Name] = rule.Rule(value)
			}
			return true
		})
	}
	if len(rules) < 10 {
		t.Fatalf("only %d rules were found", len(rules))
	}
	return rules
}
