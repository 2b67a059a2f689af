package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"patchbay/am"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/am/testkit/program"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// controlText has characters that a client may send, and that control terminals.
const controlText = "n\x1b[2J\u202e\u009b1m\tz"

// newSiteWithSlivers creates a site with slivers, which is not served.
func newSiteWithSlivers(t testing.TB) string {
	t.Helper()
	dir := program.NewSite(t)
	addSlivers(t, dir)
	return dir
}

// addSlivers adds three slices with a sliver each to the database of a site: first;
// second, whose sliver has failed and a name with control characters; and frozen, which
// was shut down.
func addSlivers(t testing.TB, dir string) {
	t.Helper()
	inv, err := inventory.Load(filepath.Join(dir, "inventory.yaml"), "testbed.example.org")
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(filepath.Join(dir, "state.db"), store.Options{Site: "testbed.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	then := now.Add(-5 * time.Hour)
	user := urn.URN{Authority: "fed.example.org", Type: urn.User, Name: "alice"}
	err = st.Commit(t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
		for i, name := range []string{"first", "second", "frozen"} {
			slice := urn.URN{Authority: "fed.example.org", Type: urn.Slice, Name: name}
			s := am.Slice{URN: slice, Created: then}
			x := am.Sliver{
				URN: urn.URN{Authority: "testbed.example.org", Type: urn.Sliver, Name: fmt.Sprint("s", i)}, Slice: slice, ClientID: "web", Document: "d" + name,
				Component: inv.Components[i].URN, ComponentName: inv.Components[i].Name, Provider: "simulated", SliverType: "raw-pc", Exclusive: true, Amount: am.Amount{Slots: 1},
				Status: am.Status{Allocation: am.Provisioned, Operational: am.Ready}, Created: then, Creator: user, Expires: now.Add(3*time.Hour + 10*time.Second), Generation: 1,
			}
			if i == 1 {
				x.ClientID, x.Error, x.Status.Operational = controlText, "the provider says "+controlText, am.Failed
				cs.PutTask(am.Task{Sliver: x.URN, Generation: 1, Goal: am.GoalRestart, Attempt: 3, NotBefore: now.Add(time.Hour), Since: now})
			}
			if i == 2 {
				s.Shutdown, s.ShutdownBy, x.Frozen = now, user, true
			}
			cs.PutSlice(s)
			cs.PutDocument(am.Document{ID: x.Document, Slice: slice, Received: then, Text: []byte(`<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="web"/></rspec>`)})
			cs.PutSliver(x)
			cs.Log(am.JournalEntry{At: then, Event: "Allocate", Caller: user, Slice: slice, Slivers: []urn.URN{x.URN}, Text: controlText})
		}
		return cs, nil
	})
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
}

// wantPrintable fails if the output has control characters.
func wantPrintable(t *testing.T, what, out string) {
	t.Helper()
	if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%s prints %q", what, out[max(0, i-20):])
	}
}

// TestOperatorsListWithoutServer proves that lists work on a site that is not served, and
// on a backup.
func TestOperatorsListWithoutServer(t *testing.T) {
	dir := newSiteWithSlivers(t)
	look := func(args ...string) string {
		t.Helper()
		code, out := runCommand(t, append(args, "--config", dir)...)
		if code != 0 {
			t.Errorf("%q: %d\n%s", args, code, out)
		}
		wantPrintable(t, fmt.Sprint(args), out)
		return out
	}
	columns := regexp.MustCompile(` {2,}`)
	times := []struct {
		like *regexp.Regexp
		word string
	}{
		{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
		{regexp.MustCompile(`in \d\w*`), "SOON"},
		{regexp.MustCompile(`\d\w* ago`), "AGO"},
	}
	for _, c := range []struct {
		args []string
		rows []string // cells; times are replaced
	}{
		{[]string{"slices"}, []string{
			"SLICE|SLIVERS|STATES|FIRST END|USERS",
			"first|1|1 ready|TIME SOON|alice",
			"frozen|1|shut down, 1 ready|kept; TIME SOON|alice",
			"second|1|1 failed|TIME SOON|alice",
		}},
		{[]string{"slivers"}, []string{
			"SLIVER|ON|STATE|END|USER|ERROR",
			"first/web|pc1|ready|TIME SOON|alice",
			"frozen/web|pc3|frozen, ready|kept; TIME SOON|alice",
			"second/n\ufffd[2J\ufffd\ufffd1m z|pc2|failed|TIME SOON|alice|the provider says n\ufffd[2J\ufffd\ufffd1m z",
		}},
		{[]string{"slivers", "fi*", "--wide"}, []string{
			"SLIVER|ON|STATE|END|USER|SPEAKER|TYPE|PROVIDER|CREATED|TASK|LOGINS|URN|ERROR",
			"first/web|pc1|ready|TIME SOON|alice|-|raw-pc|simulated|TIME AGO|-|-|urn:publicid:IDN+testbed.example.org+sliver+s0",
		}},
		{[]string{"nodes", "--slice", "first"}, []string{"NODE|STATE|TAKEN|LAST END|HELD BY|REMARK", "pc1|held|1 sliver|TIME SOON|first"}},
		{[]string{"tasks"}, []string{
			"SLIVER|GOAL|ON|FAILED|NEXT TRY|SINCE|ERROR",
			"second/n\ufffd[2J\ufffd\ufffd1m z|restart|pc2|3|SOON|TIME AGO|the provider says n\ufffd[2J\ufffd\ufffd1m z",
		}},
		{[]string{"journal", "--limit", "1"}, []string{"TIME|EVENT|BY|SLICE|SLIVERS|TEXT", "TIME|Allocate|alice|frozen|1|n\ufffd[2J\ufffd\ufffd1m z"}},
		{[]string{"slices", "--user", "nobody*"}, []string{"There is no such slice."}},
	} {
		var rows []string
		for line := range strings.Lines(look(c.args...)) {
			for _, r := range times {
				line = r.like.ReplaceAllString(line, r.word)
			}
			rows = append(rows, columns.ReplaceAllString(strings.TrimSpace(line), "|"))
		}
		if !slices.Equal(rows, c.rows) {
			t.Errorf("%q: got\n%s\nwant\n%s", c.args, strings.Join(rows, "\n"), strings.Join(c.rows, "\n"))
		}
	}
	for _, what := range operate.ListNames {
		out := look(what, "--json")
		for line := range strings.Lines(out) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: %s", what, line)
			}
		}
		if strings.Count(out, "\n") == 0 {
			t.Errorf("%s: nothing", what)
		}
	}
	program.WantTexts(t, look("manifest", "frozen"), `type="manifest"`, `client_id="web"`, "sliver+s2")
	program.WantTexts(t, look("thaw"), "slice+frozen  shut down at", "1 sliver")

	// A list reads a backup in place, and does not change it.
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	backup := filepath.Join(dir, "copy.db")
	text, err := os.ReadFile(filepath.Join(dir, "state.db"))
	if err == nil {
		err = os.WriteFile(backup, text, 0o400)
	}
	if err == nil {
		err = os.Remove(filepath.Join(dir, "state.db"))
	}
	if err != nil {
		t.Fatal(err)
	}
	program.WantTexts(t, look("slivers", "--backup", backup), "first/web", "frozen/web")
	program.WantTexts(t, look("manifest", "first", "--backup", backup), `type="manifest"`)
	if now, err := os.ReadFile(backup); err != nil || !bytes.Equal(now, text) {
		t.Errorf("the backup has changed, %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(scratch, "*")); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	for want, name := range map[string]string{"no such file": "none", "not a regular file but a folder": "", "cannot open the store": "patchbay.yaml"} {
		if code, out := runCommand(t, "slivers", "--backup", filepath.Join(dir, name), "--config", dir); code != 1 || !strings.Contains(out, want) {
			t.Errorf("%q: %d %s", name, code, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "state.db")); err == nil {
		t.Error("who only looks has made a store")
	}
}
