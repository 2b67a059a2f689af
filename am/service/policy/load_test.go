package policy

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var testSite = Site{
	Components:  []string{"pc1", "pc2", "pc3", "pc4", "pc5", "vm01", "vm02", "Big"},
	SliverTypes: []string{"raw-pc", "container"},
	Cores:       []string{"container"},
}

const testPolicy = `# who may have what
rules:
  - name: students
    who: ["example.org:course-*+user+*"]
    projects: example.org:course-net
    sliver_types: [container]
    components: [pc2..pc4, vm01..vm02]
    nodes: {user: 10, slice: 5, project: 40}
    cores: {user: 20}
    ahead: {windows: 20, node_hours: 100}
    lease: {first: 2h, longest: 3d, renew: 1d12h}
    says: Ask your teacher.
    terms: {url: "https://testbed.example.org/terms", accepted: accepted}
  - name: closed
    who: "example.net:**+user+*"
    refuse: You are to use the other site.
otherwise: refuse
`

// write makes a policy with a list of those who have accepted terms.
func write(t testing.TB, policy, accepted string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"policy.yaml": policy, "accepted": accepted} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "policy.yaml")
}

func load(t testing.TB, policy, accepted string) *Rules {
	t.Helper()
	r, err := Load(write(t, policy, accepted), testSite)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLoadDescribesTheRules(t *testing.T) {
	r := load(t, testPolicy, "# of this year\nurn:publicid:IDN+example.org:course-net+user+alice  2026-01-02\n")
	want := []string{
		`rule "students", for example.org:course-*+user+* in example.org:course-net: only container on only pc2..pc4, vm01..vm02; at most 10 nodes a user; at most 5 nodes a slice; at most 40 nodes a project; at most 20 cores a user; at most 20 reservations a user that have not begun; at most 100 node-hours a user that have not begun; the first lease at most 2h; renewals to at most 1d12h after the renewal; slivers live at most 3d; only for users who have accepted https://testbed.example.org/terms and are listed in accepted (in upper or lower case); text in refusals: Ask your teacher.`,
		`rule "closed", for example.net:**+user+*: nothing new: You are to use the other site.`,
		"users that match no rule may reserve nothing",
	}
	if got := strings.Join(r.Sentences(), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if len(r.Files()) != 2 || filepath.Base(r.Files()[1]) != "accepted" {
		t.Errorf("it was read from %q", r.Files())
	}
	if got := r.list[0].components.list; len(got) != 5 || got[0] != 1 || got[4] != 6 {
		t.Errorf("components %v", got)
	}
	if len(r.Remarks()) != 0 {
		t.Errorf("remarks %v", r.Remarks())
	}
}

func TestLoadOfNoRules(t *testing.T) {
	for rule, text := range map[string]string{"comments": "# none yet\n", "a key": "rules:\n", "an empty list": "rules: []\n", "allow": "otherwise: allow\n"} {
		r := load(t, text, "")
		if r.Len() != 0 || r.find(userURN("alice"), sliceURN("x", "y")) != nil {
			t.Errorf("%s: %q", rule, r.Sentences())
		}
	}
}

func TestLoadFindsMistakes(t *testing.T) {
	for _, tt := range []struct{ rule, old, new, want string }{
		{"an empty file", testPolicy, "", "the file is empty; to have no rules, leave a comment"},
		{"no YAML", "rules:", "rules: ]", "this is not YAML"},
		{"no mapping", testPolicy, "- a\n", "1: the policy must be a list of keys and values: rules, otherwise"},
		{"two documents", "otherwise: refuse", "---\notherwise: refuse", "a second YAML document begins here"},
		{"a misspelt key", "sliver_types", "sliver_type", `6: a rule has no key "sliver_type"; did you mean "sliver_types"?`},
		{"an unknown key", "says:", "colour:", `12: a rule has no key "colour"; there are name, who`},
		{"a key twice", "says: Ask", "name: other\n    says: Ask", `12: a rule has the key "name" twice`},
		{"rules of the wrong kind", testPolicy, "rules: {a: b}", "1: rules must be a list"},
		{"a rule of the wrong kind", testPolicy, "rules: [a]", "1: a rule must be a list of keys"},
		{"no name", "name: students\n    who", "who", "3: the rule has no name"},
		{"a name of two words", "name: students", "name: my students", `3: the name "my students" must be one word`},
		{"a misspelt key of ahead", "node_hours", "nodehours", `10: ahead has no key "nodehours"; did you mean "node_hours"?`},
		{"hours that are no number", "node_hours: 100", "node_hours: 4d", "10: node_hours must be a whole number"},
		{"a name twice", "name: closed", "name: students", `14: the rule in line 3 is called "students", too`},
		{"a pattern for nobody", "example.net:**+user+*", "example.net", `15: who: "example.net" is not a pattern for users`},
		{"a project that is a slice", "projects: example.org:course-net", "projects: example.org+slice+a", `5: projects: "example.org+slice+a" is more than`},
		{"an empty list", `["example.org:course-*+user+*"]`, "[]", "4: who is empty; drop the key to allow all"},
		{"nothing in place of a list", `["example.org:course-*+user+*"]`, "", "4: who is empty"},
		{"a text that is none", `["example.org:course-*+user+*"]`, "[[a]]", "4: who must be a text"},
		{"an unknown sliver type", "[container]", "[containr]", `6: there is no sliver type "containr"; did you mean "container"?`},
		{"an unknown component", "pc2..pc4", "pc77x", `7: there is no component "pc77x"; there are pc1, pc2`},
		{"a range without components", "pc2..pc4", "pc12..pc14", `7: no component is in "pc12..pc14"`},
		{"a range backwards", "pc2..pc4", "pc4..pc2", `7: "pc4..pc2" is not a range`},
		{"a range too long", "pc2..pc4", "pc1..pc99999999", `7: "pc1..pc99999999" is not a range of components, or too long`},
		{"a negative number", "user: 10", "user: -1", "8: nodes of a user must be a whole number"},
		{"a size that is none", "cores: {user: 20}", "disk: {user: 40 pounds}", "9: disk of a user must be a size such as 512M"},
		{"a number that is none", "user: 20", "user: many", "9: cores of a user must be a whole number"},
		{"amounts of something else", "slice: 5", "slices: 5", `8: nodes has no key "slices"; did you mean "slice"?`},
		{"no time", "first: 2h", "first: 2", "11: first of a lease must be a time like"},
		{"a time of nothing", "first: 2h", "first: 0d", "11: first of a lease must be a time like"},
		{"a time too long", "longest: 3d", "longest: 99999d", "11: longest of a lease must be a time like"},
		{"the first longer than the longest", "first: 2h", "first: 4d", "11: the first lease, 4d, is longer than the longest, 3d"},
		{"a text of two lines", "says: Ask your teacher.", `says: "a\nb"`, "12: says must be one line without control"},
		{"a long text", "says: Ask your teacher.", "says: " + strings.Repeat("a", 501), "12: says must have at most 500 bytes"},
		{"a refusal that is a switch", "refuse: You are to use the other site.", "refuse: false", "16: refuse is not a switch but the text of the refusal: write the reason"},
		{"a refusal that is switched on", "refuse: You are to use the other site.", "refuse: Yes", "16: refuse is not a switch"},
		{"a refusal that is a switch in quotes", "refuse: You are to use the other site.", `refuse: " no "`, "16: refuse is not a switch"},
		{"a refusal without text", "refuse: You are to use the other site.", "refuse:", "16: refuse must be a text"},
		{"terms without a list", ", accepted: accepted", "", "13: terms needs both url"},
		{"terms at no address", "https://testbed.example.org/terms", "testbed", `13: url "testbed" must be a web address`},
		{"terms at a script", "https://testbed.example.org/terms", "javascript:alert", `13: url "javascript:alert" must be a web address`},
		{"a list that is not there", "accepted: accepted", "accepted: nobody", "13: the list of users who have accepted the terms: "},
		{"a list that is a folder", "accepted: accepted", "accepted: .", "is not a regular file"},
		{"otherwise neither", "otherwise: refuse", "otherwise: maybe", "17: otherwise must be allow or refuse"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			text := strings.Replace(testPolicy, tt.old, tt.new, 1)
			if text == testPolicy {
				t.Fatal("nothing was changed")
			}
			file := write(t, text, "")
			_, err := Load(file, testSite)
			if err == nil {
				t.Fatal("no mistake is found")
			}
			if lines := strings.Split(err.Error(), "\n"); len(lines) != 1 || !strings.HasPrefix(lines[0], file) || !strings.Contains(lines[0], tt.want) {
				t.Errorf("got %s, want %q", err, tt.want)
			}
		})
	}
	pipe := filepath.Join(t.TempDir(), "policy.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(pipe, testSite); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
	link := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.Symlink("gone.yaml", link); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(link, testSite); err == nil || !strings.Contains(err.Error(), "it is a symbolic link to a missing file") {
		t.Errorf("a link that leads nowhere: %v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none"), testSite); err == nil || !strings.Contains(err.Error(), "cannot read the policy") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestLikelyMistakesAreRemarked(t *testing.T) {
	for _, tt := range []struct{ rule, text, want string }{
		{"a rule behind one for all", "rules: [{name: a}, {name: b, who: x+user+y}]", `rule "b": this rule never applies: rule "a" in line 1`},
		{"a rule behind a wider one", `rules: [{name: a, who: ["c+user+*", "x:**+user+*"]}, {name: b, who: ["x:z+user+y", "c+user+d"]}]`, "this rule never applies"},
		{"one of two patterns is left", `rules: [{name: a, who: "x:**+user+*"}, {name: b, who: ["x+user+y", "c+user+d"]}]`, ""},
		{"another project", `rules: [{name: a, projects: x}, {name: b, who: x+user+y}]`, ""},
		{"all behind some", `rules: [{name: a, who: x+user+y}, {name: b}]`, ""},
		{"a wide star", `rules: [{name: a, who: "example.*+user+*"}]`, "also matches names of other authorities, such as example.evil.example.net"},
		{"a range beyond the inventory", `rules: [{name: a, components: [pc3..pc99, vm01..vm02]}]`, `policy.yaml:1: the inventory has no component "pc6", and lacks 94 of the 97 in "pc3..pc99"`},
		{"a range within it", `rules: [{name: a, components: pc1..pc4}]`, ""},
		{"cores of sliver types that take none", `rules: [{name: a, sliver_types: raw-pc, cores: {user: 4}}]`, `rule "a": no sliver type that it allows takes cores`},
		{"cores of sliver types of which one takes some", `rules: [{name: a, sliver_types: [raw-pc, container], cores: {user: 4}}]`, ""},
		{"disk of sliver types that take none", `rules: [{name: a, sliver_types: raw-pc, disk: {user: 4G}}]`, `rule "a": no sliver type that it allows takes disk`},
		{"cores of all sliver types", `rules: [{name: a, cores: {user: 4}}]`, ""},
		{"a refusal with amounts", `rules: [{name: a, refuse: Not here., nodes: {user: 1}}]`, "have no effect"},
		{"a refusal with reservations ahead", `rules: [{name: a, refuse: Not here., ahead: {windows: 1}}]`, "have no effect"},
		{"a refusal that tools pass by", `rules: [{name: a, who: "x+user+*"}, {name: b, who: "y+user+*", refuse: Not here.}]`, `rule "b": it does not refuse a tool that calls for itself`},
		{"with an end for all", `rules: [{name: b, who: "y+user+*", refuse: Not here.}, {name: c, nodes: {user: 1}}]`, ""},
		{"with an end for some", `rules: [{name: b, who: "y+user+*", refuse: Not here.}, {name: c, projects: x}]`, "does not refuse a tool"},
		{"with nothing for others", "rules: [{name: b, who: \"y+user+*\", refuse: Not here.}]\notherwise: refuse", ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			var got []string
			for _, p := range load(t, tt.text, "").Remarks() {
				got = append(got, p.String())
			}
			if text := strings.Join(got, "\n"); tt.want == "" && text != "" || !strings.Contains(text, tt.want) {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
	r := load(t, testPolicy, "urn:publicid:IDN+a+user+b\nnobody\nurn:publicid:IDN+a+slice+b\n")
	if len(r.Remarks()) != 2 || r.Remarks()[0].Line != 2 || r.Remarks()[1].Line != 3 {
		t.Errorf("lines that name no user: %v", r.Remarks())
	}
}

func TestCoresThatNothingTakesAreRemarked(t *testing.T) {
	site := testSite
	site.Cores = nil
	r, err := Parse([]byte("rules: [{name: a, cores: {user: 4}}]"), "policy.yaml", site)
	if err != nil || len(r.Remarks()) != 1 || !strings.Contains(r.Remarks()[0].String(), "no sliver type of the inventory takes cores") {
		t.Errorf("%v, %v", r.Remarks(), err)
	}
}

func TestPatternsOfUntrustedAuthoritiesAreReported(t *testing.T) {
	r := load(t, `rules: [{name: a, who: ["example.org:x+user+*", "example.net+user+*", "exampel.org:**+user+*"], projects: [example.org, other.org]}]`, "")
	var got []string
	for _, p := range r.UnmatchedPatterns([]string{"example.org"}) {
		got = append(got, p.String())
	}
	text := strings.Join(got, "\n")
	if len(got) != 3 || !strings.Contains(text, "example.net+user+*") || !strings.Contains(text, "exampel.org:**+user+*") || !strings.Contains(text, "other.org") {
		t.Errorf("got %s", text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(testPolicy))
	f.Add([]byte("rules: [{name: a, who: [&x \"a+user+b\", *x]}]\notherwise: allow"))
	f.Add([]byte("rules: &r [{name: a, components: pc1..pc9}, *r]"))
	f.Add([]byte("rules:\n  - name: a\n    lease: {first: 1d1h, longest: 1h}\n---\n"))
	f.Add([]byte("otherwise: refuse"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse(text, filepath.Join(t.TempDir(), "policy.yaml"), testSite)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("a mistake without words")
			}
			return
		}
		p := New(r).For(userURN("alice"), sliceURN("course-net", "s"))
		p.CheckUser()
		p.Within(Amount{Nodes: 1, Cores: 1}, heldBy())
		for _, s := range r.Sentences() {
			if strings.ContainsAny(s, "\n\r\x00") {
				t.Fatalf("a sentence of several lines: %q", s)
			}
		}
		r.Explain(userURN("alice"), sliceURN("course-net", "s"))
	})
}

func FuzzAccepted(f *testing.F) {
	f.Add([]byte("# a\nurn:publicid:IDN+a+user+b c\nx\n\xff\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		accepted, problems := readAccepted(text, "accepted")
		if len(problems) > maxRemarks || len(accepted) > strings.Count(string(text), "\n")+1 {
			t.Fatalf("%d users and %d problems of %d bytes", len(accepted), len(problems), len(text))
		}
	})
}
