package credentials_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
)

// scene is somebody who calls and presents something. What is left out is right:
// alice calls, wants to Allocate in the slice s1, and the sa is trusted.
type scene struct {
	documents   []credentials.Presented
	caller      [][]byte // the certificates shown
	speakingFor string
	right       credentials.Right
	slice       urn.URN
	now         time.Time
	config      credentials.Config
	anchors     func() *cert.Anchors
	// pretended is whose work the attacker says that a credential is which nobody
	// signed. It matters only while rule.Signed is off.
	pretended *pki.Entity
}

// attack is somebody who must not get in.
type attack struct {
	number int // of the specification; 0 for none of it
	name   string
	// rule refuses it. Where that is rule.Readable or rule.Presented there is
	// nothing that could be switched off, and nothing to go on with.
	rule rule.Rule
	// also is a second rule that refuses it when the first is switched off; it is
	// rule.Readable where nobody can read it then.
	also              rule.Rule
	attack, neighbour scene
}

// themes are all attacks but those on what another program has signed.
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

// try is what becomes of a scene. Nothing is remembered from an earlier one.
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

// broken are the rules that a refusal names.
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

// TestAttacks presents every attack of the specification: the rule that is named
// refuses it, and its neighbour, which breaks no rule, is accepted. That nothing
// but this rule refuses it TestWithoutTheRule shows, which needs the tag attack.
// No rule is without an attack.
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
	count(t, all)
	if ran < len(themes) {
		return // only some were asked for
	}
	numbers, rules := map[int]bool{}, map[rule.Rule]bool{}
	for _, a := range all {
		numbers[a.number], rules[a.rule], rules[a.also] = true, true, true
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

// TestAttacksOnWhatXmlsec1Signed is TestAttacks on documents of an outside signer.
func TestAttacksOnWhatXmlsec1Signed(t *testing.T) {
	w := newWorld(t)
	rows := outsideAttacks(t, w)
	refuseAll(t, w, rows)
	count(t, rows)
}

func refuseAll(t *testing.T, w *world, rows []attack) {
	for _, a := range rows {
		t.Run(a.title(), func(t *testing.T) {
			if err := a.neighbour.try(w); err != nil {
				t.Errorf("the neighbour is refused: %v", err)
			}
			err := a.attack.try(w)
			if err == nil {
				t.Fatal("accepted")
			}
			if got := broken(t, err); !slices.Equal(got, []rule.Rule{a.rule}) {
				t.Errorf("refused by %q, want %q: %v", got, a.rule, err)
			}
			t.Logf("%-60s refused by: %s", a.title(), a.rule)
		})
	}
}

func count(t *testing.T, rows []attack) {
	unreadable := 0
	rules := map[rule.Rule]bool{}
	for _, a := range rows {
		rules[a.rule] = true
		if a.nothing() || a.also == rule.Readable {
			unreadable++
		}
	}
	t.Logf("%d attacks, %d rules, %d neighbours; %d attacks leave nothing to read and so no rule to switch off",
		len(rows), len(rules), len(rows), unreadable)
}

// nothing reports whether there is no rule that could be switched off.
func (a attack) nothing() bool { return a.rule == rule.Readable || a.rule == rule.Presented }

func (a attack) title() string {
	if a.number == 0 {
		return a.name
	}
	return strconv.Itoa(a.number) + " " + a.name
}

// TestEveryRuleIsChecked holds the list of rules against the code. Each is named
// as no other is.
func TestEveryRuleIsChecked(t *testing.T) {
	checked := checkedRules(t)
	named := map[rule.Rule]string{}
	for name, value := range listedRules(t) {
		if other, again := named[value]; again {
			t.Errorf("rule.%s and rule.%s are both %q", other, name, value)
		}
		named[value] = name
		if !checked[name] {
			t.Errorf("no check refuses by rule.%s: %s", name, value)
		}
	}
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

// checkedRules are the names of the rules that code refuses by.
func checkedRules(t *testing.T) map[string]bool {
	t.Helper()
	checked := map[string]bool{}
	name := regexp.MustCompile(`\brule\.([A-Z]\w*)`)
	for _, room := range []string{".", "../schemas/xmltree"} {
		err := filepath.WalkDir(room, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.Contains(path, "testdata") || strings.HasSuffix(path, "off.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range name.FindAllStringSubmatch(string(text), -1) {
				checked[m[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return checked
}
