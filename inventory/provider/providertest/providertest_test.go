package providertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/inventory/provider"
	"patchbay/testdata/need"
)

var options = Options{
	Node: provider.Resource{provider.AttrComponent: "pc1"},
	Wait: 100 * time.Millisecond,
	Poll: 20 * time.Millisecond,
}

func TestTheExampleIsRight(t *testing.T) {
	need.Tool(t, "jq") // the example uses it
	page, err := os.ReadFile("../PROVIDER.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, language := range map[string]string{"rack.prov": "sh", "rack.yaml": "yaml"} {
		_, after, ok := strings.Cut(string(page), "\n```"+language+"\n")
		text, _, ok2 := strings.Cut(after, "```\n")
		if !ok || !ok2 {
			t.Fatalf("PROVIDER.md has no %s block", language)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	Run(t, filepath.Join(dir, "rack.prov"), options)
	if left, _ := filepath.Glob(filepath.Join(dir, "rack.nodes", "*")); len(left) != 0 {
		t.Errorf("nodes are left: %v", left)
	}
}

func TestTheDescribeOfThePageIsMetadata(t *testing.T) {
	page, err := os.ReadFile("../PROVIDER.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(page), "ral_action=describe\nprovider:\n")
	text, _, ok2 := strings.Cut(after, "```\n")
	if !ok || !ok2 {
		t.Fatal("PROVIDER.md shows no answer to describe")
	}
	text = strings.Replace(text, "[jq, ipmitool]", "[sh]", 1) // of any host
	path := filepath.Join(t.TempDir(), "rack.prov")
	script := "#!/bin/sh\ncat <<'END'\nprovider:\n" + text + "END\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := provider.Open(path, nil)
	if err != nil || p.Parallel != 4 || !p.Has(provider.AttrState) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestAGoodProviderHasNoFindings(t *testing.T) {
	p := double(t, "", "", "")
	if got := append(Check(t.Context(), p, options), Life(t.Context(), p, options)...); len(got) != 0 {
		t.Errorf("findings: %v", got)
	}
}

func TestL10ADryRunThatChangesSomethingIsFlagged(t *testing.T) {
	for fault, want := range map[string]int{"": 0, "noop": 1} {
		got := Check(t.Context(), double(t, fault, "", ""), options)
		if len(got) != want || want == 1 && (got[0].Rule != ruleNoop || got[0].Note || !strings.Contains(got[0].Text, "has really made")) {
			t.Errorf("fault %q: findings %v, want %d", fault, got, want)
		}
	}
}

func TestWhatIsWrongIsFound(t *testing.T) {
	for _, tt := range []struct{ fault, old, new, rule, says string }{
		{"get fails", "", "", ruleGet, "exit status 1"},
		{"", `power: {type: "enum[on,off]"}`, "power: {type: boolean}", ruleAttributes, "power is boolean"},
		{"", `power: {type: "enum[on,off]"}`, `power: {type: "enum[on]"}`, ruleAttributes, "power is enum[on]"},
		{"", `login: {type: "array[string]", kind: r}`, `login: {type: "array[string]"}`, ruleAttributes, "login has kind rw"},
		{"", "    component: {}\n", "", ruleAttributes, "component is missing"},
		{"no port", "", "", ruleAttributes, "login of"},
		{"no user", "", "", ruleAttributes, "proxy of"},
		{"no address", "", "", ruleInterfaces, `mac of interface "node0:if0" of`},
		{"unplugged", "", "", ruleState, "make it: it is ready, but get does not say map[interfaces:"},
		{"slow", "set: 2s", "set: 200ms", ruleState, "set took more than"},
		{"strict", "", "", ruleSet, "once more"},
		{"mute", "", "", ruleSet, "tells no change"},
		{"refuses", "", "", ruleSet, "make it: not you"},
		{"empty", "", "", ruleSet, "none of changes"},
		{"forgets", "", "", ruleState, "still absent"},
		{"never ready", "", "", ruleState, "still in state changing"},
		{"fails", "", "", ruleState, "it failed: no disk"},
		{"deaf", "", "", ruleState, "restart it: it is ready, but"},
	} {
		t.Run(tt.fault+" "+tt.says, func(t *testing.T) {
			p := double(t, tt.fault, tt.old, tt.new)
			findings := append(Check(t.Context(), p, options), Life(t.Context(), p, options)...)
			for _, f := range findings {
				if f.Rule == tt.rule && strings.Contains(f.Text, tt.says) && !f.Note {
					return
				}
			}
			t.Errorf("no finding under %q says %q: %v", tt.rule, tt.says, findings)
		})
	}
}

func TestWhatIsMissingIsANote(t *testing.T) {
	p := double(t, "", "    power: {type: \"enum[on,off]\"}\n", "")
	findings := Check(t.Context(), p, options)
	if len(findings) != 1 || !findings[0].Note || !strings.Contains(findings[0].Text, "cannot be stopped") {
		t.Errorf("findings: %v", findings)
	}
}

// recorder is a test that only takes notes.
type recorder struct {
	*testing.T
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestRunReports(t *testing.T) {
	r := &recorder{T: t}
	Run(r, filepath.Join(t.TempDir(), "none.prov"), Options{})
	if len(r.errors) != 1 {
		t.Errorf("a provider that is not there: %q, want one error", r.errors)
	}
	r = &recorder{T: t}
	Run(r, double(t, "strict", "", "").Path, options)
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "once more") {
		t.Errorf("a provider with one fault: %q, want one error", r.errors)
	}
}
