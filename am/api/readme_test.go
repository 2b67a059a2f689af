package api

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"patchbay/am"
)

// The flag is shared by all that this package's tests write.
var update = flag.Bool("update", false, "write the tables of README.md anew")

const (
	readme      = "../../README.md"
	readmeBegin = "<!-- made from am/api and am by: go test ./am/api -run TestReadme -update -->\n"
	readmeEnd   = "<!-- end of what is made -->\n"
)

// TestReadme holds the README against the tables of methods, options and
// transitions. With -update it writes them there.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), readmeBegin)
	is, after, ok2 := strings.Cut(rest, readmeEnd)
	if !ok || !ok2 {
		t.Fatalf("README.md lacks the lines\n%s%s", readmeBegin, readmeEnd)
	}
	want := readmeTables(t)
	if *update {
		if err := os.WriteFile(readme, []byte(before+readmeBegin+want+readmeEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	w, g := strings.Split(want, "\n"), strings.Split(is, "\n")
	for i := range max(len(w), len(g)) {
		if i >= len(w) || i >= len(g) || w[i] != g[i] {
			t.Fatalf("README.md tells something else than the code; run: go test ./am/api -run TestReadme -update\nit says %q\nwant    %q", g[min(i, len(g)-1)], w[min(i, len(w)-1)])
		}
	}
}

// readmeTables are the tables as Markdown.
func readmeTables(t *testing.T) string {
	var b bytes.Buffer
	b.WriteString("The options come last, as a struct, and may be left out; unknown ones are ignored. Here they stand without `geni_`, and required\n" +
		"ones are **bold**. Every method with credentials understands `geni_speaking_for`, too.\n")
	for _, version := range []int{Version3, Version2} {
		fmt.Fprintf(&b, "\n| Version %d | Arguments | Options | Value |\n|---|---|---|---|\n", version)
		for _, m := range tables[version] {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.name, argumentsOf(m), optionsOf(t, m), m.answers)
		}
	}
	b.WriteString("\n| Option | Must be | Without it | With it |\n|---|---|---|---|\n")
	for _, o := range allOptions() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", o.name, o.kind, withoutIt(o), o.says)
	}
	b.WriteString(`
What each call makes of a sliver in each state (without ` + "`geni_`" + `): the state after it, = where nothing changes, or the code of the refusal.
Status and Describe change nothing, nor does what was refused. For a whole slice, Provision takes the slivers that are allocated (12 if
none is) and the actions take those that are provisioned (13 if none is). An unknown action is refused with 13;
` + "`geni_update_users_cancel` is `geni_updating_users_cancel`, too, and leaves what was promised. Without `geni_best_effort`" + ` one refusal refuses
the call; with it the other slivers go on, and each that could not says why in ` + "`geni_error`" + `. Of several mistakes in a call the first in this
order is told: arguments (1), caller and credentials (3), a slice that is shut down (3), what is not there (12), options, action and request
(1, 4, 13), states and limits. Calls on one slice wait for each other, so none is refused because another is under way.

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
	b.WriteString("| SliverStatus of version 2 says |")
	for _, s := range states {
		fmt.Fprintf(&b, " %s |", status2(s, false))
	}
	fmt.Fprintf(&b, "\n\nOf a slice that is shut down SliverStatus says %s. A slice is in the first of these states that one of its slivers is in:\n%s.\n", status2(am.Status{}, true), strings.Join(states2, ", "))
	return b.String()
}

func argumentsOf(m method) string {
	var names []string
	for _, a := range m.args[:len(m.args)-1] {
		names = append(names, a.name)
	}
	return cmp.Or(strings.Join(names, ", "), "–")
}

// optionsOf lists a method's options but for geni_speaking_for, which is with
// all that have credentials.
func optionsOf(t *testing.T, m method) string {
	t.Helper()
	var names []string
	speaks := false
	for _, o := range m.options {
		switch {
		case o.name == optSpeakingFor.name:
			speaks = true
		case o.says == optNoSliceURN.says: // listed to be refused
		case o.required != "":
			names = append(names, "**"+strings.TrimPrefix(o.name, "geni_")+"**")
		default:
			names = append(names, strings.TrimPrefix(o.name, "geni_"))
		}
	}
	if slices.ContainsFunc(m.args, func(a argument) bool { return a.name == argCredentials.name }) != speaks {
		t.Errorf("%s: the README says that geni_speaking_for is with all methods that have credentials", m.name)
	}
	return cmp.Or(strings.Join(names, ", "), "–")
}

// allOptions are the options of all methods, each once, by name.
func allOptions() (all []option) {
	for _, version := range []int{Version3, Version2} {
		for _, m := range tables[version] {
			for _, o := range m.options {
				if !slices.ContainsFunc(all, func(x option) bool { return x.says == o.says }) {
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

// itself are the words for what no call does.
var itself = map[am.Event]string{
	am.EventDone: "when its work is done", am.EventGaveUp: "when its work is given up", am.EventLost: "when it is lost", am.EventExpire: "when its lease is over",
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
