package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/executable"
)

// The rules L1 to L16 of the convention, as far as they concern one provider.

func TestL1CompanionFileReplacesDescribe(t *testing.T) {
	p := open(t, nodeMetadata, double{Exit: 3}) // fails on describe
	if p.Type != TypeNode || !p.Has("cpu") || p.Attributes["setup"].Kind != "w" {
		t.Errorf("loaded %+v, want what the file says", p)
	}
	if got := calls(t, p); len(got) != 0 {
		t.Errorf("was run %d times while it was loaded", len(got))
	}
}

// TestDescribeUsesLogOfLoader checks that the log passed to Load receives what a provider writes
// during describe.
func TestDescribeUsesLogOfLoader(t *testing.T) {
	dir := t.TempDir()
	installDouble(t, dir, "rack", "", double{Stderr: "error: no route to 10.9.9.9\n", Exit: 1})
	var log strings.Builder
	if _, problems := Load(dir, slog.New(slog.NewJSONHandler(&log, nil))); len(problems) != 1 || !strings.HasPrefix(log.String(), "{") || !strings.Contains(log.String(), `"level":"ERROR","msg":"no route to 10.9.9.9","provider":"rack","action":"describe"`) {
		t.Errorf("problems %v, log %s", problems, log.String())
	}
}

func TestL1CompanionFileWithSettingsOnlyDoesNot(t *testing.T) {
	p := open(t, "colour: blue\n", double{Stdout: nodeMetadata})
	if got := calls(t, p); len(got) != 1 || got[0].Args[0] != "ral_action=describe" {
		t.Errorf("calls while it was loaded: %v, want one describe", got)
	}
}

func TestL2RejectedWithFileAndReasonWhileOthersLoad(t *testing.T) {
	without := func(old, new string) string {
		if !strings.Contains(nodeMetadata, old) {
			t.Fatalf("metadata has no %q", old)
		}
		return strings.Replace(nodeMetadata, old, new, 1)
	}
	bad := []struct {
		name      string
		d         double
		companion string
		reason    string
	}{
		{"a-list", double{Stdout: "- a\n- b\n"}, "", "not a YAML mapping"},
		{"a-nothing", double{}, "", "no YAML mapping with the key provider"},
		{"a-scalar", double{Stdout: "provider: yes\n"}, "", ""},
		{"a-null", double{Stdout: "provider:\n"}, "", "not a mapping"},
		{"a-exit", double{Stdout: nodeMetadata, Exit: 2}, "", "exit status 2"},
		{"a-simple", double{}, without("invoke: json", "invoke: simple"), `"simple"`},
		{"a-unsuitable", double{}, without("suitable: true", "suitable: false"), "suitable: false"},
		{"a-missing", double{}, without("suitable: true", "desc: x"), "suitable is missing"},
		{"a-command", double{}, without("suitable: true", "suitable: {commands: [sh, no-such-command]}"), "no-such-command"},
		{"a-not", double{}, without("suitable: true", "suitable: {commands: [not sh]}"), `"sh"`},
		{"a-nameless", double{}, without("name: {type: string}", "nome: {type: string}"), "name must be declared"},
		{"a-typeless", double{}, without("type: node", "desc: x"), "type is missing"},
		{"a-enum", double{}, without("cpu: {type: string}", "cpu: {type: enum}"), "attribute cpu"},
		{"a-kind", double{}, without("cpu: {type: string}", "cpu: {kind: x}"), "attribute cpu"},
		{"a-reserved", double{}, without("cpu: {type: string}", "ral_cpu: {}"), "reserved"},
		{"a-ensure", double{}, without(`ensure: {type: "enum[present,absent]"}`, "ensure: {}"), "enum[present,absent]"},
		{"a-parallel", double{}, without("type: node", "type: node\n  parallel: 0"), "parallel"},
		{"a-timeout", double{}, without("type: node", "type: node\n  timeouts: {get: 1h}"), "timeouts"},
		{"a-cleaning", double{}, without("type: node", "type: node\n  cleaning: 25h"), `cleaning is "25h"; it must be a duration of at most 24h, such as 2m`},
		{"a-cleaning-unit", double{}, without("type: node", "type: node\n  cleaning: 120"), `cleaning is "120"`},
		{"a-cleaning-none", double{}, without("type: node", "type: node\n  cleaning: 0s"), `cleaning is "0s"`},
		{"a-list-action", double{}, without("type: node", "type: node\n  actions: [get, list]"), `"list"`},
		{"a-yaml", double{}, "provider: {", "not a YAML mapping"},
		{"a-twice", double{}, without("type: node", "type: node\n  name: good"), ""},
	}
	dir := t.TempDir()
	installDouble(t, dir, "good", nodeMetadata, double{})
	for _, b := range bad {
		installDouble(t, dir, b.name, b.companion, b.d)
	}
	write(t, filepath.Join(dir, "b-plain.prov"), "#!/bin/sh\n", 0o644)
	write(t, filepath.Join(dir, "b-open.prov"), "#!/bin/sh\n", 0o777)
	write(t, filepath.Join(dir, "b-other.txt"), "not a provider", 0o644)
	if err := os.Mkdir(filepath.Join(dir, "b-folder.prov"), 0o755); err != nil {
		t.Fatal(err)
	}

	found, problems := Load(dir, nil)
	// a-twice sorts first and so gets the name; good is the one refused.
	if len(found) != 1 || found["good"] == nil || found["good"].Path != filepath.Join(dir, "a-twice.prov") {
		t.Errorf("loaded %v, want a-twice.prov as good alone", found)
	}
	text := func(part string) string {
		for _, err := range problems {
			if strings.Contains(err.Error(), part) {
				return err.Error()
			}
		}
		t.Errorf("no problem names %s in %q", part, problems)
		return ""
	}
	for _, b := range bad {
		if b.name == "a-twice" {
			continue
		}
		if got := text(filepath.Join(dir, b.name) + "."); !strings.Contains(got, b.reason) {
			t.Errorf("%s: problem %q does not say %q", b.name, got, b.reason)
		}
	}
	for name, reason := range map[string]string{
		"b-plain.prov": "chmod +x", "b-open.prov": "chmod o-w", "b-folder.prov": "not a regular file", "good.prov": "taken",
	} {
		if got := text(filepath.Join(dir, name)); !strings.Contains(got, reason) {
			t.Errorf("%s: problem %q does not say %q", name, got, reason)
		}
	}
	if want := len(bad) - 1 + 4; len(problems) != want {
		t.Errorf("%d problems, want %d: %q", len(problems), want, problems)
	}
}

func TestL3MoreResourcesThanAsked(t *testing.T) {
	p := openAnswering(t, `{"resources": [{"name":"a"},{"name":"b","cpu":"2","ghost":{"x":1}},{"name":"c"},{"name":"d"},{"name":"e"}]}`)
	got, err := p.Get(t.Context(), []string{"a", "b"})
	if err != nil || len(got) != 5 {
		t.Fatalf("Get = %v, %v; want five resources", got, err)
	}
	want := map[string]Result{"b": {Resource: Resource{"name": "b", "cpu": "2"}}}
	for _, name := range []string{"a", "c", "d", "e"} {
		want[name] = Result{Resource: Resource{"name": name}}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestL4ErrorOfOneResource(t *testing.T) {
	p := openAnswering(t, `{"resources": [{"name":"a","error":{"message":"no\u0000such\nnode","kind":"unknown"}},{"name":"b"}]}`)
	got, err := p.Get(t.Context(), []string{"a", "b"})
	if err != nil || got["b"].Err != nil {
		t.Fatalf("Get = %v, %v; want b to be well", got, err)
	}
	want := &Error{Kind: Unknown, Msg: "no such node"}
	if diff := cmp.Diff(want, got["a"].Err); diff != "" || got["a"].Resource != nil {
		t.Errorf("a: %v (-want +got):\n%s", got["a"].Resource, diff)
	}
}

var update = []Update{{Name: "a", Is: Resource{"name": "a", "ensure": "absent"}, Should: Resource{"ensure": "present"}}}

func TestMessagesHideDetailsOfHost(t *testing.T) {
	for _, tt := range []struct {
		d    double
		says string
	}{
		{double{Exit: 127}, "is not working properly"}, {double{Stdout: "nonsense"}, "is not working properly"},
		{double{Stdout: "{}"}, "is not working properly"}, {double{Signal: true}, "was killed before it answered"},
	} {
		d := tt.d
		p := open(t, nodeMetadata, d)
		var logged []string
		p.Log = slog.New(memory{&logged})
		_, err := p.Get(t.Context(), nil)
		e, ok := errors.AsType[*Error](err)
		if !ok || !strings.Contains(e.Error(), tt.says) || strings.Contains(e.Error(), e.Unwrap().Error()) {
			t.Errorf("%+v: the experimenter reads %v", d, err)
			continue
		}
		if !strings.HasPrefix(e.Detail(), "provider "+p.Name+": get: ") || len(logged) != 1 {
			t.Errorf("%+v: the operator reads %q and in the log %q", d, e.Detail(), logged)
		}
	}
}

func TestL5OutputOfAFailedProcessDoesNotCount(t *testing.T) {
	const perfect = `{"changes": [{"name":"a","ensure":{"is":"present","was":"absent"}}]}`
	for _, tt := range []struct {
		rule string
		d    double
		says string
	}{
		{"exit status", double{Stdout: perfect, Exit: 1}, "exit status 1"},
		{"signal", double{Stdout: perfect, Signal: true}, "signal: killed"},
		{"more than 16 MiB", double{Stdout: perfect, Flood: 16 << 20}, "more than 16777216 bytes"},
		{"not UTF-8", double{Stdout: perfect, Raw: []byte{' ', 0xff}}, "UTF-8"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			p := open(t, nodeMetadata, tt.d)
			got, err := p.Set(t.Context(), update, false)
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Kind != Failed || !e.Temporary || e.Err == nil || !strings.Contains(e.Detail(), tt.says) {
				t.Errorf("Set: %v, want a temporary failure that says %q", err, tt.says)
			}
			if len(got) != 1 || len(got[0].Is) != 0 {
				t.Errorf("changes %v, want none to be recorded", got)
			}
		})
	}
}

func TestL6TopLevelErrorBeatsChanges(t *testing.T) {
	p := openAnswering(t, `{"changes": [{"name":"a","ensure":{"is":"present","was":"absent"}}], "error": {"message":"not you","kind":"forbidden"}}`)
	got, err := p.Set(t.Context(), update, false)
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != Forbidden || e.Temporary || e.Msg != "not you" || e.Err != nil {
		t.Errorf("Set: %+v, want forbidden", e)
	}
	if len(got) != 1 || len(got[0].Is) != 0 {
		t.Errorf("changes %v, want none", got)
	}
}

func TestL7LevelsOfStandardError(t *testing.T) {
	p := open(t, nodeMetadata, double{Stdout: `{"resources":[]}`, Stderr: "debug: a\nERROR: b\nc\nwarning: d\ninfo:\n" +
		strings.Repeat("x", 2*maxLine) + "\nwarn:\t e \x1b[31m"})
	var got []string
	p.Log = slog.New(memory{&got})
	if _, err := p.Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"DEBUG a", "ERROR b", "WARN c", "WARN warning: d", "INFO ", "WARN " + strings.Repeat("x", maxLine), "WARN e  [31m"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
}

func TestL7FloodOfLinesIsCut(t *testing.T) {
	p := open(t, nodeMetadata, double{Stdout: `{"resources":[]}`, Stderr: strings.Repeat("x\n", 3*maxLines)})
	var got []string
	p.Log = slog.New(memory{&got})
	if _, err := p.Get(t.Context(), nil); err != nil || len(got) != maxLines+1 {
		t.Errorf("%d lines logged, %v; want %d and a note", len(got), err, maxLines)
	}
}

func TestL8NothingDiffersNothingStarts(t *testing.T) {
	p := openAnswering(t, `{}`)
	is := Resource{"name": "a", "ensure": "present", "cpu": "1", "users": []string{`{"login":"u","keys":[]}`}}
	got, err := p.Set(t.Context(), []Update{
		{Name: "a", Is: is, Should: Resource{"ensure": "present", "cpu": "1", "image": "", "users": []string{`{"keys": [], "login": "u"}`}}},
		{Name: "b", Is: Resource{"ensure": "absent"}, Should: Resource{"ensure": "absent", "cpu": "7"}},
		{Name: "c", Is: is, Should: Resource{"ensure": "present", "state": "ready", "unheard_of": "x"}},
	}, false)
	if err != nil || len(got) != 3 || got[0].Name != "a" || got[2].Name != "c" {
		t.Errorf("Set = %v, %v", got, err)
	}
	if c := calls(t, p); len(c) != 0 {
		t.Errorf("a process was started: %v", c)
	}
}

func TestL9ShouldHoldsOnlyWhatDiffers(t *testing.T) {
	p := openAnswering(t, `{"changes":[]}`)
	_, err := p.Set(t.Context(), []Update{{
		Name:   "a",
		Is:     Resource{"name": "a", "cpu": "1", "image": "A"},
		Should: Resource{"name": "a", "cpu": "1", "image": "B"},
	}}, true)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"updates":[{"name":"a","is":{"cpu":"1","image":"A","name":"a"},"should":{"image":"B"}}],"ral":{"noop":true}}`
	if got := calls(t, p); len(got) != 1 || got[0].Stdin != want {
		t.Errorf("standard input %v, want %s", got, want)
	}
}

func TestL10NoopIsSentAsAsked(t *testing.T) {
	for _, noop := range []bool{true, false} {
		p := openAnswering(t, `{"derive": true}`)
		got, err := p.Set(t.Context(), update, noop)
		want := []Change{{Name: "a", Is: Resource{"ensure": "present"}, Was: Resource{"ensure": "absent"}}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("noop %v: %v (-want +got):\n%s", noop, err, diff)
		}
		if in := calls(t, p)[0].Stdin; !strings.HasSuffix(in, fmt.Sprintf(`"ral":{"noop":%v}}`, noop)) {
			t.Errorf("noop %v: standard input %s", noop, in)
		}
	}
}

func TestL11DeriveFillsInTheRest(t *testing.T) {
	p := openAnswering(t, `{"derive": true, "changes": [{"name":"a","cpu":{"is":"3","was":"1"}},{"name":"bonus","cpu":{"is":"2","was":null}}]}`)
	got, err := p.Set(t.Context(), []Update{
		{Name: "a", Is: Resource{"cpu": "1"}, Should: Resource{"cpu": "2"}},
		{Name: "b", Is: Resource{"cpu": "1", "image": "A"}, Should: Resource{"cpu": "2", "image": "A", "fast": true}},
	}, false)
	want := []Change{
		{Name: "a", Is: Resource{"cpu": "3"}, Was: Resource{"cpu": "1"}},
		{Name: "b", Is: Resource{"cpu": "2", "fast": true}, Was: Resource{"cpu": "1"}},
		{Name: "bonus", Is: Resource{"cpu": "2"}, Was: Resource{}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Set: %v (-want +got):\n%s", err, diff)
	}
}

func TestL12DeriveOfAbsentIsEnsureAlone(t *testing.T) {
	u := Update{Name: "a", Is: Resource{"ensure": "present", "image": "A"}, Should: Resource{"ensure": "absent", "image": "B"}}
	want := Change{Name: "a", Is: Resource{"ensure": "absent"}, Was: Resource{"ensure": "present"}}
	p := openAnswering(t, `{"derive": true}`)
	got, err := p.Set(t.Context(), []Update{u}, false)
	if diff := cmp.Diff([]Change{want}, got); diff != "" || err != nil {
		t.Errorf("Set: %v (-want +got):\n%s", err, diff)
	}
}

func TestL13OneOfThreeUpdatesFails(t *testing.T) {
	p := openAnswering(t, `{"changes": [{"name":"c","cpu":{"is":"2","was":"1"}},{"name":"b","error":{"message":"no room"}},{"name":"a","cpu":{"is":"2","was":"1"}}]}`)
	one := Resource{"cpu": "1"}
	two := Resource{"cpu": "2"}
	got, err := p.Set(t.Context(), []Update{{"a", one, two}, {"b", one, two}, {"c", one, two}}, false)
	want := []Change{
		{Name: "a", Is: two, Was: one},
		{Name: "b", Err: &Error{Kind: Failed, Msg: "no room", Temporary: true}},
		{Name: "c", Is: two, Was: one},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Set: %v (-want +got):\n%s", err, diff)
	}
}

func TestL14EnvironmentOfProvider(t *testing.T) {
	t.Setenv("PATCHBAY_SECRET", "hush")
	p := open(t, "", double{Stdout: nodeMetadata})
	got := calls(t, p)
	if len(got) != 1 || got[0].Stdin != "" {
		t.Fatalf("describe: %v, want one call without input", got)
	}
	want := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LANG=C.UTF-8"}
	if !slices.Equal(got[0].Env, want) {
		t.Errorf("environment %q, want %q", got[0].Env, want)
	}
	if dir, _ := filepath.EvalSymlinks(p.Dir); got[0].Dir != p.Dir && got[0].Dir != dir {
		t.Errorf("working directory %s, want %s", got[0].Dir, p.Dir)
	}
}

func TestL15MalformedAnswersFailTheCall(t *testing.T) {
	for _, tt := range []struct{ rule, answer, says string }{
		{"change without name", `{"changes":[{"cpu":{"is":"1","was":"2"}}]}`, "without a name"},
		{"error without name", `{"changes":[{"error":{"message":"x"}}]}`, "without a name"},
		{"attribute without was", `{"changes":[{"name":"a","cpu":{"is":"1"}}]}`, "lacks is or was"},
		{"attribute without is", `{"changes":[{"name":"a","cpu":{"was":"1"}}]}`, "lacks is or was"},
		{"attribute is no pair", `{"changes":[{"name":"a","cpu":"1"}]}`, "lacks is or was"},
		{"one name twice", `{"changes":[{"name":"a"},{"name":"a"}]}`, "twice"},
		{"one member twice", `{"changes":[{"name":"a","name":"b"}]}`, "twice"},
		{"name is a number", `{"changes":[{"name":1}]}`, "where a name belongs"},
		{"changes is an object", `{"changes":{}}`, "something else"},
		{"error is text", `{"error":"x"}`, "object with the strings message and kind"},
		{"message is a number", `{"error":{"message":1}}`, "object with the strings message and kind"},
		{"derive is text", `{"derive":"yes"}`, "where true or false belongs"},
		{"nothing", ``, "not one JSON object"},
		{"half", `{"changes":[`, "not one JSON object"},
		{"two objects", `{"changes":[]}{}`, "not one JSON object"},
		{"an array", `[]`, "something else"},
		{"no JSON", `done`, "not one JSON object"},
		{"neither of changes, derive, error", `{}`, "none of"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			p := nodeProvider(t)
			got, err := p.readSet([]byte(tt.answer), []setUpdate{{Name: "a"}})
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Kind != Failed || !e.Temporary || e.Err == nil || !strings.Contains(e.Detail(), tt.says) || got != nil {
				t.Errorf("readSet(%s) = %v, %v; want a failure that says %q", tt.answer, got, err, tt.says)
			}
		})
	}
}

func TestL15AnErrorExcusesAHalfChange(t *testing.T) {
	got, err := nodeProvider(t).readSet([]byte(`{"changes":[{"name":"a","cpu":{"is":"1"},"error":{"kind":"odd"}}]}`), nil)
	want := []Change{{Name: "a", Err: &Error{Kind: Failed, Temporary: true}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("readSet: %v (-want +got):\n%s", err, diff)
	}
}

func TestL16Types(t *testing.T) {
	for _, bad := range []string{"enum", "enum[ ]", "enum[yes, ]", "enum[Yes]", "enum[a", "array", "array[enum]", "int", "strings", "enum[a-b]"} {
		if got, err := ParseType(bad); err == nil {
			t.Errorf("ParseType(%q) = %v, want an error", bad, got)
		}
	}
	for text, want := range map[string]string{
		"array\t[ string ]": "array[string]", "": "string", " string ": "string", "boolean": "boolean", "enum [ on, off ]": "enum[on,off]",
	} {
		if got, err := ParseType(text); err != nil || got.String() != want {
			t.Errorf("ParseType(%q) = %v, %v; want %s", text, got, err, want)
		}
	}
}

// nodeProvider returns a provider of nodes that is never run.
func nodeProvider(t testing.TB) *Provider {
	t.Helper()
	m, err := parseMetadata([]byte(nodeMetadata))
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{Name: "bare", Log: slog.New(slog.DiscardHandler)}
	if err := p.apply(m); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMissingResources(t *testing.T) {
	p := openAnswering(t, `{"resources":[]}`)
	got, err := p.Get(t.Context(), []string{"a"})
	if err != nil || !Gone(got["a"].Resource) || got["a"].Err != nil || !got["a"].LeftOut {
		t.Errorf("with ensure: %v, %v; want absent, left out", got, err)
	}
	p = openAnswering(t, `{"resources":[{"name":"a","ensure":"absent"}]}`)
	if got, err = p.Get(t.Context(), []string{"a"}); err != nil || got["a"].LeftOut {
		t.Errorf("called absent: %v, %v; want that it was not left out", got, err)
	}
	p = open(t, strings.Replace(nodeMetadata, `ensure: {type: "enum[present,absent]"}`, "", 1), double{Stdout: `{"resources":[]}`})
	got, err = p.Get(t.Context(), []string{"a"})
	if err != nil || got["a"].Err == nil || got["a"].Err.Kind != Unknown || !got["a"].LeftOut {
		t.Errorf("without ensure: %v, %v; want unknown, left out", got, err)
	}
}

func TestGetSplitsLongLists(t *testing.T) {
	p := openAnswering(t, `{"resources":[]}`)
	names := make([]string, 2*MaxNames+1)
	for i := range names {
		names[i] = "n" + strings.Repeat("x", i)
	}
	got, err := p.Get(t.Context(), names)
	if err != nil || len(got) != len(names) || len(calls(t, p)) != 3 {
		t.Errorf("%d results of %d runs, %v; want %d of 3", len(got), len(calls(t, p)), err, len(names))
	}
	if got, err := p.Get(t.Context(), []string{}); len(got) != 0 || err != nil || len(calls(t, p)) != 3 {
		t.Errorf("nothing asked: %v, %v", got, err)
	}
}

// TestSetSplitsLongTexts checks that the input of a run is limited, except for one large update,
// and has no unnecessary escapes.
func TestSetSplitsLongTexts(t *testing.T) {
	p := openAnswering(t, `{"derive":true}`)
	runs := 0
	p.Execute = func(_ context.Context, c *executable.Command) (bool, error) {
		runs++
		_, err := io.WriteString(c.Stdout, `{"derive":true}`)
		return false, err
	}
	many := make([]Update, 5)
	for i := range many {
		many[i] = Update{Name: fmt.Sprint(i), Should: Resource{"image": strings.Repeat("<&>", 1<<20)}}
	}
	changes, err := p.Set(t.Context(), many, false)
	if err != nil || len(changes) != len(many) {
		t.Fatalf("%d changes, %v", len(changes), err)
	}
	for i, c := range changes {
		if c.Name != fmt.Sprint(i) || c.Is.Text("image") == "" {
			t.Errorf("change %d is that of %q, %d attributes", i, c.Name, len(c.Is))
		}
	}
	if runs != 3 {
		t.Errorf("%d runs for 15 MiB, want 3: of 2, 1 and 2", runs)
	}
	many[0].Should["image"] = strings.Repeat("x", 9<<20)
	if _, err := p.Set(t.Context(), many[:1], false); err != nil || runs != 4 {
		t.Errorf("one alone: %v after %d runs", err, runs)
	}
}

func TestActionsNotOffered(t *testing.T) {
	p := open(t, strings.Replace(nodeMetadata, "type: node", "type: node\n  actions: [get]", 1), double{})
	_, err := p.Set(context.Background(), update, false)
	if e, ok := errors.AsType[*Error](err); !ok || e.Temporary || len(calls(t, p)) != 0 {
		t.Errorf("Set: %v, want a lasting refusal without a run", err)
	}
}

func TestParallelLimitsSets(t *testing.T) {
	p := open(t, nodeMetadata, double{})
	p.places <- struct{}{} // the only place is taken
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Set(ctx, update, false); !errors.Is(err, context.Canceled) || len(calls(t, p)) != 0 {
		t.Errorf("Set beside another: %v after %d runs, want it to wait", err, len(calls(t, p)))
	}
	twice := []Update{update[0], update[0]}
	if _, err := p.Set(t.Context(), twice, false); err == nil {
		t.Error("one resource twice in a set was accepted")
	}
}
