package api

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"patchbay/am"
)

// All tests of this package that write files share this flag.
var update = flag.Bool("update", false, "write the tables of guide/api.md")

const (
	guide      = "../../cmd/patchbay/guide/"
	guideBegin = "<!-- made from am/api and am by: go test ./am/api -run TestGuideAPI -update -->\n"
	guideEnd   = "<!-- end of what is made -->\n"
)

// TestGuideAPI compares guide/api.md with the tables of methods, options and
// transitions. With -update it writes them there.
func TestGuideAPI(t *testing.T) {
	text, err := os.ReadFile(guide + "api.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), guideBegin)
	is, after, ok2 := strings.Cut(rest, guideEnd)
	if !ok || !ok2 {
		t.Fatalf("guide/api.md lacks the lines\n%s%s", guideBegin, guideEnd)
	}
	want := guideTables(t)
	if *update {
		if err := os.WriteFile(guide+"api.md", []byte(before+guideBegin+want+guideEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	w, g := strings.Split(want, "\n"), strings.Split(is, "\n")
	for i := range max(len(w), len(g)) {
		if i >= len(w) || i >= len(g) || w[i] != g[i] {
			t.Fatalf("guide/api.md differs from the code; run: go test ./am/api -run TestGuideAPI -update\nit has %q\nwant   %q", g[min(i, len(g)-1)], w[min(i, len(w)-1)])
		}
	}
}

// TestGuideCodes compares the tables of guide/codes.md with the codes, HTTP statuses
// and faults that the code has.
func TestGuideCodes(t *testing.T) {
	text, err := os.ReadFile(guide + "codes.md")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]bool)
	for code := am.ServerBusy; code < 100; code++ {
		if name := code.String(); name != "UNKNOWN" {
			want[fmt.Sprintf("geni_code: %d %s", code, name)] = true
		}
	}
	for name, n := range constants(t, "..", "Detail") {
		if n != int(am.NoDetail) {
			want[fmt.Sprintf("am_code: %d %s", n, name)] = true
		}
	}
	for name, n := range constants(t, "xmlrpc", "") {
		if strings.HasPrefix(name, "Fault") {
			want[fmt.Sprintf("Fault: %d %s", n, name)] = true
		}
	}
	want["HTTP status: 200 OK"] = true
	for _, file := range []string{"handler.go", "panic.go", "route.go"} {
		code, err := os.ReadFile("../server/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\bhttp\.Status(\w+)`).FindAllStringSubmatch(string(code), -1) {
			for status := range 600 {
				name := http.StatusText(status)
				if name != "" && strings.ReplaceAll(name, " ", "") == m[1] {
					want[fmt.Sprintf("HTTP status: %d %s", status, name)] = true
				}
			}
		}
	}
	got := make(map[string]bool)
	kind := ""
	for line := range strings.SplitSeq(string(text), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case !strings.HasPrefix(line, "|") || len(cells) < 3 || strings.HasPrefix(line, "|--"):
		case cells[1] == "Name":
			kind = cells[0]
		default:
			got[kind+": "+cells[0]+" "+cells[1]] = true
		}
	}
	for _, row := range slices.Sorted(maps.Keys(want)) {
		if !got[row] {
			t.Errorf("guide/codes.md lacks %s", row)
		}
	}
	for _, row := range slices.Sorted(maps.Keys(got)) {
		if !want[row] {
			t.Errorf("guide/codes.md has %s, the code does not", row)
		}
	}
}

// constants returns the integer constants of a package, of one type; of no named type for "".
func constants(t *testing.T, dir, typ string) map[string]int {
	t.Helper()
	all := make(map[string]int)
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				if id, ok := v.Type.(*ast.Ident); len(v.Values) != 1 || (v.Type != nil) != (typ != "") || ok && id.Name != typ {
					continue
				}
				sign, e := 1, v.Values[0]
				if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.SUB {
					sign, e = -1, u.X
				}
				if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.INT {
					n, err := strconv.Atoi(lit.Value)
					if err != nil {
						continue
					}
					all[v.Names[0].Name] = sign * n
				}
			}
		}
	}
	return all
}

// guideTables returns the tables as Markdown.
func guideTables(t *testing.T) string {
	var b bytes.Buffer
	b.WriteString("The options are the last argument, a struct, and may be left out; unknown options are ignored. All names\n" +
		"begin with `geni_`, which the first two tables omit; required options are **bold**. Every method with credentials also\n" +
		"understands `geni_speaking_for`.\n")
	for _, version := range []int{Version3, Version2} {
		fmt.Fprintf(&b, "\n| Version %d | Arguments | Options | Value |\n|---|---|---|---|\n", version)
		for _, m := range tables[version] {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.name, argumentsOf(m), optionsOf(t, m), m.answers)
		}
	}
	b.WriteString("\n| Option | Must be | Without it | With it |\n|---|---|---|---|\n")
	for _, o := range allOptions() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", o.name, o.kind, withoutIt(o), o.effect)
	}
	b.WriteString(`
The next table has the state of a sliver after each call, without ` + "`geni_`" + `: the new state, = if it does not
change, or the code of the refusal. Status and Describe change nothing, and neither does a refused call.

- For a whole slice, Provision takes the allocated slivers (12 if there is none), and the actions take the provisioned
  ones (13 if there is none). An unknown action is refused with 13.
- ` + "`geni_update_users_cancel` is the same as `geni_updating_users_cancel`" + `. The sliver is ready at once;
  the new users still take effect.
- Without ` + "`geni_best_effort`" + ` one refusal refuses the call. With it the other slivers are changed, and each
  refused one reports the reason in ` + "`geni_error`" + `.
- Of several mistakes in a call the first in this order is reported: arguments (1), caller and credentials (3), a
  slice that is shut down (3), missing slivers (12), options, action and request (1, 4, 13), states and limits.
- Calls on one slice wait for each other, so none is refused because another is running.

`)
	states := []am.Status{
		{Allocation: am.Allocated, Operational: am.PendingAllocation}, {Allocation: am.Provisioned, Operational: am.PendingAllocation},
	}
	for _, o := range am.AdvertisedStates {
		states = append(states, am.Status{Allocation: am.Provisioned, Operational: o})
	}
	b.WriteString("| |")
	for _, s := range states {
		fmt.Fprintf(&b, " %s |", stateName(s))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(states)) + "\n")
	rows := []am.Event{am.EventProvision, am.EventRenew, am.EventDelete, am.EventShutdown}
	rows = append(rows, am.Actions...)
	for _, e := range append(rows, am.EventDone, am.EventGaveUp, am.EventLost, am.EventExpire) {
		fmt.Fprintf(&b, "| %s |", cmp.Or(itself[e], string(e)))
		for _, s := range states {
			fmt.Fprintf(&b, " %s |", cell(s, e))
		}
		b.WriteByte('\n')
	}
	b.WriteString("| SliverStatus of version 2 |")
	for _, s := range states {
		fmt.Fprintf(&b, " %s |", status2(s, false))
	}
	fmt.Fprintf(&b, "\n\nSliverStatus reports %s for a slice that is shut down. \nA slice has the first of these states that one of its slivers has: %s.\n", status2(am.Status{}, true), strings.Join(states2, ", "))
	return b.String()
}

func argumentsOf(m method) string {
	var names []string
	for _, a := range m.args[:len(m.args)-1] {
		names = append(names, a.name)
	}
	return cmp.Or(strings.Join(names, ", "), "–")
}

// optionsOf lists a method's options, except geni_speaking_for, which all methods
// with credentials have.
func optionsOf(t *testing.T, m method) string {
	t.Helper()
	var names []string
	speaks := false
	for _, o := range m.options {
		switch {
		case o.name == optSpeakingFor.name:
			speaks = true
		case o.effect == optNoSliceURN.effect: // listed to be refused
		case o.required != "":
			names = append(names, "**"+strings.TrimPrefix(o.name, "geni_")+"**")
		default:
			names = append(names, strings.TrimPrefix(o.name, "geni_"))
		}
	}
	if slices.ContainsFunc(m.args, func(a argument) bool { return a.name == argCredentials.name }) != speaks {
		t.Errorf("%s: guide/api.md says that all methods with credentials have geni_speaking_for", m.name)
	}
	return cmp.Or(strings.Join(names, ", "), "–")
}

// allOptions are the options of all methods, each once, by name.
func allOptions() (all []option) {
	for _, version := range []int{Version3, Version2} {
		for _, m := range tables[version] {
			for _, o := range m.options {
				if !slices.ContainsFunc(all, func(x option) bool { return x.effect == o.effect }) {
					all = append(all, o)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b option) int { return strings.Compare(a.name, b.name) })
	return all
}

func withoutIt(o option) string {
	if o.required != "" {
		return "refused (1)"
	}
	return cmp.Or(o.without, "–")
}

// itself describes the events that no call causes.
var itself = map[am.Event]string{
	am.EventDone: "when its work is done", am.EventGaveUp: "when its work fails for good", am.EventLost: "when its resource vanishes", am.EventExpire: "when its lease ends",
}

func stateName(s am.Status) string {
	if s.Allocation != am.Provisioned {
		return strings.TrimPrefix(string(s.Allocation), "geni_")
	}
	return strings.TrimPrefix(string(s.Operational), "geni_")
}

func cell(s am.Status, e am.Event) string {
	to, err := am.Next(s, e)
	switch {
	case err != nil && itself[e] != "":
		return ""
	case err != nil:
		return fmt.Sprint(int(am.CodeOf(err)))
	case to == s:
		return "="
	}
	return stateName(to)
}
