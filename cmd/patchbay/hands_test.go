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
	"syscall"
	"testing"
	"time"
	"unicode"

	"patchbay/am"
	"patchbay/am/operate"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// escapes are what a client may write, and a terminal obey.
const escapes = "n\x1b[2J\u202e\u009b1m\tz"

// stocked is a site that is not served and holds something.
func stocked(t *testing.T) string {
	t.Helper()
	dir := made(t)
	inv, err := inventory.Load(filepath.Join(dir, "inventory.yaml"), "testbed.example.org")
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(filepath.Join(dir, "state.db"), store.Options{Site: "testbed.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	user := urn.URN{Authority: "fed.example.org", Type: urn.User, Name: "flooby"}
	err = st.Commit(t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
		for i, name := range []string{"first", "second", "frozen"} {
			slice := urn.URN{Authority: "fed.example.org", Type: urn.Slice, Name: name}
			s := am.Slice{URN: slice, Created: now}
			x := am.Sliver{
				URN: urn.URN{Authority: "testbed.example.org", Type: urn.Sliver, Name: fmt.Sprint("s", i)}, Slice: slice, ClientID: "web", Document: "d" + name,
				Component: inv.Components[i].URN, ComponentName: inv.Components[i].Name, Provider: "simulated", SliverType: "raw-pc", Exclusive: true, Amount: am.Amount{Slots: 1},
				Status: am.Status{Allocation: am.Provisioned, Operational: am.Ready}, Created: now, Creator: user, Expires: now.Add(3*time.Hour + 10*time.Second), Generation: 1,
			}
			if i == 1 {
				x.ClientID, x.Error, x.Status.Operational = escapes, "the provider says "+escapes, am.Failed
				cs.PutTask(am.Task{Sliver: x.URN, Generation: 1, Goal: am.GoalRestart, Attempt: 3, NotBefore: now.Add(time.Hour), Since: now})
			}
			if i == 2 {
				s.Shutdown, s.ShutdownBy, x.Frozen = now, user, true
			}
			cs.PutSlice(s)
			cs.PutDocument(am.Document{ID: x.Document, Slice: slice, Received: now, Text: []byte(`<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="web"/></rspec>`)})
			cs.PutSliver(x)
			cs.Log(am.JournalEntry{At: now, Event: "Allocate", Caller: user, Slice: slice, Slivers: []urn.URN{x.URN}, Text: escapes})
		}
		return cs, nil
	})
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// plain holds that a terminal has nothing to obey.
func plain(t *testing.T, what, out string) {
	t.Helper()
	if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%s prints %q", what, out[max(0, i-20):])
	}
}

// TestOperatorsListWithoutServer looks at a site that is not served, and at a
// backup of it.
func TestOperatorsListWithoutServer(t *testing.T) {
	dir := stocked(t)
	look := func(args ...string) string {
		t.Helper()
		code, out := tell(t, append(args, "--config", dir)...)
		if code != 0 {
			t.Errorf("%q: %d\n%s", args, code, out)
		}
		plain(t, fmt.Sprint(args), out)
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
		rows []string // cells, without the time of the day
	}{
		{[]string{"slices"}, []string{
			"SLICE|SLIVERS|STATES|FIRST END|USERS",
			"first|1|1 ready|TIME SOON|flooby",
			"frozen|1|shut down, 1 ready|kept; TIME SOON|flooby",
			"second|1|1 failed|TIME SOON|flooby",
		}},
		{[]string{"slices", "--shutdown", "--wide"}, []string{
			"SLICE|SLIVERS|STATES|FIRST END|USERS|LAST END|CREATED|SHUT DOWN",
			"frozen|1|shut down, 1 ready|kept; TIME SOON|flooby|kept; TIME SOON|TIME AGO|TIME by urn:publicid:IDN+fed.example.org+user+flooby",
		}},
		{[]string{"slivers"}, []string{
			"SLIVER|ON|STATE|END|USER|ERROR",
			"first/web|pc1|ready|TIME SOON|flooby",
			"frozen/web|pc3|frozen, ready|kept; TIME SOON|flooby",
			"second/n\ufffd[2J\ufffd\ufffd1m z|pc2|failed|TIME SOON|flooby|the provider says n\ufffd[2J\ufffd\ufffd1m z",
		}},
		{[]string{"slivers", "fi*", "--wide"}, []string{
			"SLIVER|ON|STATE|END|USER|SPEAKER|TYPE|PROVIDER|CREATED|TASK|LOGINS|URN|ERROR",
			"first/web|pc1|ready|TIME SOON|flooby|-|raw-pc|simulated|TIME AGO|-|-|urn:publicid:IDN+testbed.example.org+sliver+s0",
		}},
		{[]string{"slivers", "first", "--urns"}, []string{
			"SLIVER|ON|STATE|END|USER|ERROR",
			"urn:publicid:IDN+testbed.example.org+sliver+s0|urn:publicid:IDN+testbed.example.org+node+pc1|ready|TIME SOON|urn:publicid:IDN+fed.example.org+user+flooby",
		}},
		{[]string{"nodes", "--slice", "first"}, []string{"NODE|STATE|TAKEN|LAST END|HELD BY|REMARK", "pc1|held|1 sliver|TIME SOON|first"}},
		{[]string{"nodes", "vm1", "--wide"}, []string{
			"NODE|STATE|TAKEN|LAST END|HELD BY|KIND|PROVIDER|USERS|REMARK",
			"vm1|free|0 slivers, 0/10 slots, 0/16 cores, 0/65536 MiB, 0/1048576 MiB disk|-|-|shared|simulated|-",
		}},
		{[]string{"tasks"}, []string{
			"SLIVER|GOAL|ON|FAILED|NEXT TRY|SINCE|ERROR",
			"second/n\ufffd[2J\ufffd\ufffd1m z|restart|pc2|3|SOON|TIME AGO|the provider says n\ufffd[2J\ufffd\ufffd1m z",
		}},
		{[]string{"journal", "--limit", "1"}, []string{"TIME|EVENT|BY|SLICE|SLIVERS|TEXT", "TIME|Allocate|flooby|frozen|1|n\ufffd[2J\ufffd\ufffd1m z"}},
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
	for _, what := range operate.Lists {
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
	has(t, look("manifest", "frozen"), `type="manifest"`, `client_id="web"`, "sliver+s2")
	has(t, look("thaw"), "slice+frozen  shut down at", "1 sliver")

	// A backup is looked into where it lies, and stays as it is.
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
	has(t, look("slivers", "--backup", backup), "first/web", "frozen/web")
	has(t, look("manifest", "first", "--backup", backup), `type="manifest"`)
	if now, err := os.ReadFile(backup); err != nil || !bytes.Equal(now, text) {
		t.Errorf("the backup has changed, %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(scratch, "*")); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	pipe, damaged := filepath.Join(dir, "pipe"), filepath.Join(dir, "damaged.db")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(damaged, text[:3*os.Getpagesize()], 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"slivers"}, "the site has no store yet"},
		{[]string{"slivers", "--backup", filepath.Join(dir, "none")}, "no such file"},
		{[]string{"slivers", "--backup", dir}, "it is not a regular file but a folder"},
		{[]string{"slivers", "--backup", pipe}, pipe + ": it is not a regular file but a pipe"},
		{[]string{"manifest", "first", "--backup", pipe}, pipe + ": it is not a regular file but a pipe"},
		{[]string{"restore", pipe}, "name a file"},
		{[]string{"check", pipe}, "not a regular file"},
		{[]string{"call", "--url", "https://localhost:1", "--user", pipe, "GetVersion"}, "not a regular file"},
		{[]string{"slivers", "--backup", damaged}, "cannot open the store " + damaged + ": "},
		{[]string{"slivers", "--backup", filepath.Join(dir, "patchbay.yaml")}, "cannot open the store"},
	} {
		if code, out := tell(t, append(c.args, "--config", dir)...); code != 1 || !strings.Contains(out, c.want) {
			t.Errorf("%q: %d %s", c.args, code, out)
		}
	}
	for _, what := range []string{"import", "draw"} {
		if code, out := tell(t, what, pipe); code != 1 || !strings.Contains(out, "not a regular file") {
			t.Errorf("%s: %d %s", what, code, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "state.db")); err == nil {
		t.Error("who only looks has made a store")
	}
}

// TestUndrainOfWhatIsGone lifts ranges of names that the inventory no longer has, and
// more of them than it has components.
func TestUndrainOfWhatIsGone(t *testing.T) {
	dir := stocked(t)
	if err := os.WriteFile(filepath.Join(dir, "maintenance.yaml"), []byte("drained: [{components: [ghost1..ghost40], text: renamed}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"drain"}, 0, "drained: renamed"},
		{[]string{"undrain", "pc1..pc60"}, 1, `the inventory has no component "pc`},
		{[]string{"undrain", "pc1..pc300"}, 1, `"pc1..pc300" makes 300 names, and there is room for `},
		{[]string{"drain", "pc1"}, 0, "this counts from its next start on"},
		{[]string{"undrain", "pc1", "nowhere"}, 1, `the inventory has no component "nowhere"`},
		{[]string{"undrain", "ghost1..ghost40"}, 0, "No longer drained: ghost1..ghost40"},
		{[]string{"undrain", "ghost1..ghost40"}, 1, `"ghost1..ghost40" makes 40 names, and there is room for `},
	} {
		code, out := tell(t, append(c.args, "--config", dir)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%q: exit status %d, want %d and %q\n%s", c.args, code, c.code, c.want, out)
		}
		if code != 0 && strings.Contains(out, "this counts from its next start on") {
			t.Errorf("%q fails, and promises to count:\n%s", c.args, out)
		}
	}
}

// TestOperatorsActWithoutServer changes a site that is not served, and has the
// audit tell of it.
func TestOperatorsActWithoutServer(t *testing.T) {
	dir := stocked(t)
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"release", "frozen"}, 1, []string{"was shut down at", "--frozen"}},
		{[]string{"release", "first", "--reason", "rack 4 moves"}, 0, []string{"Released: 1 sliver of slice urn:publicid:IDN+fed.example.org+slice+first.", "to be removed by providers when the site is served"}},
		{[]string{"release", "first"}, 1, []string{"no slivers but those that are being removed already, 1"}},
		{[]string{"renew", "second", "--for", "40d"}, 0, []string{"The leases of 1 sliver", "(in 40d)", "Note: experimenters of slice second could renew until"}},
		{[]string{"renew", "second", "--until", "2001-01-01T00:00:00Z"}, 1, []string{"the time 2001-01-01T00:00:00Z is over"}},
		{[]string{"thaw", "second"}, 1, []string{"is not shut down"}},
		{[]string{"thaw", "frozn"}, 1, []string{"there is no slice frozn here; did you mean frozen?"}},
		{[]string{"thaw", "frozen", "--extend", "2h", "--reason", "all well"}, 0, []string{"no longer shut down; it has 1 sliver", "The nodes are off; the first lease ends at"}},
		{[]string{"slivers", "secnd"}, 1, []string{"there is no slice secnd here; did you mean second?"}},
		{[]string{"nodes", "pc99"}, 1, []string{"there is no component pc99"}},
		{[]string{"drain", "pc1", "pc3..pc5", "fan broken"}, 0, []string{"nothing new goes there: pc1 pc3..pc5", "What is there is left alone", "pc1   first", "pc3   frozen", "from its next start on"}},
		{[]string{"drain", "pc4"}, 0, []string{"Drained before: pc4", "No sliver is there."}},
		{[]string{"drain", "urn:publicid:IDN+testbed.example.org+node+pc6"}, 0, []string{"nothing new goes there: pc6"}},
		{[]string{"undrain", "urn:publicid:IDN+testbed.example.org+node+pc6"}, 0, []string{"No longer drained: pc6"}},
		{[]string{"drain", "urn:publicid:IDN+testbed.example.org+node+pc99"}, 1, []string{`the inventory has no component "urn:publicid:IDN+testbed.example.org+node+pc99"`}},
		{[]string{"drain", "pc8,pc9..pc10"}, 0, []string{"nothing new goes there: pc8..pc10"}},
		{[]string{"undrain", "pc8..pc9,pc10"}, 0, []string{"No longer drained: pc8..pc10"}},
		{[]string{"drain", "pc*"}, 1, []string{"pc* is a pattern; name components one by one", "nodes 'pc*'"}},
		{[]string{"undrain", "pc?"}, 1, []string{"pc? is a pattern"}},
		{[]string{"release", "first,second"}, 1, []string{"there is no slice first,second here; several stand with spaces between"}},
		{[]string{"tasks", "--goal", "mak"}, 2, []string{`there is no goal "mak"; did you mean make?`}},
		{[]string{"drain", "urn:publicid:pc6"}, 1, []string{"URN"}},
		{[]string{"maintenance", "urn:publicid:IDN+testbed.example.org+node+pc6", "--from", "1h", "--for", "1h", "new disks"}, 0, []string{"Maintenance 1 is planned, of pc6, from"}},
		{[]string{"maintenance", "--lift", "1"}, 0, []string{"Taken back: pc6"}},
		{[]string{"drain", "pc44"}, 1, []string{`the inventory has no component "pc44"; did you mean pc4?`}},
		{[]string{"drain", "pc4", "broken"}, 1, []string{`no component "broken"; to say why: --reason`}},
		{[]string{"drain"}, 0, []string{"pc3", "pc5", "drained by", "fan broken"}},
		{[]string{"nodes", "--state", "drained"}, 0, []string{"pc1   drained", "fan broken"}},
		{[]string{"undrain", "pc4", "pc7"}, 0, []string{"No longer drained: pc4", "Not drained before: pc7"}},
		{[]string{"drain"}, 0, []string{"pc3", "pc5"}},
		{[]string{"check"}, 0, []string{"drained, so nothing new goes there: pc1 pc3 pc5: fan broken"}},
		{[]string{"undrain", "pc44"}, 1, []string{"no component \"pc44\""}},
		{[]string{"undrain", "pc1", "pc3", "pc5"}, 0, []string{"No longer drained: pc1 pc3 pc5"}},
		{[]string{"drain"}, 0, []string{"Nothing is drained."}},
		{[]string{"release"}, 2, []string{"name what to release"}},
		{[]string{"renew", "second"}, 2, []string{"it does not say when the leases end"}},
		{[]string{"renew", "second", "--for", "soon"}, 2, []string{"--for"}},
		{[]string{"renew", "second", "--until", "soon"}, 2, []string{"neither a time like"}},
		{[]string{"renew", "second", "--until", "2099-12-24"}, 2, []string{`"2099-12-24" has no time of day; write it with time and zone, like 2099-12-24T00:00:00Z`}},
		{[]string{"renew", "second", "--for", "1h", "--until", "2h"}, 2, []string{"give one"}},
		{[]string{"thaw", "--extend", "2h"}, 2, []string{"it does not say which slice"}},
		{[]string{"thaw", "a", "b"}, 2, []string{"one argument"}},
		{[]string{"drain", "fan broken"}, 2, []string{"name components before the text"}},
		{[]string{"undrain"}, 2, []string{"name the components"}},
		{[]string{"manifest"}, 2, []string{"one argument"}},
		{[]string{"slices", "first", "second"}, 0, []string{"first", "second"}},
		{[]string{"slivers", "second/n*"}, 0, []string{"second/"}},
		{[]string{"slivers", "first/web"}, 0, []string{"first/web"}},
		{[]string{"nodes", "pc1..pc3", "pc7", "--state", "free,held"}, 0, []string{"pc7"}},
		{[]string{"nodes", "pc11..pc99"}, 1, []string{"there is no component pc21; of the 89 in pc11..pc99, 79 are missing"}},
		{[]string{"slivers", "a", "--slice", "b"}, 2, []string{"give one"}},
		{[]string{"nodes", "--state", "fre"}, 2, []string{`there is no state "fre"; did you mean free?`}},
		{[]string{"slivers", "--limit", "-1"}, 2, []string{"a number of rows"}},
		{[]string{"journal", "--since", "yesterday"}, 2, []string{"--since", "a while ago such as 2h"}},
		{[]string{"slivers", "--ends-before", "x"}, 2, []string{"--ends-before"}},
		{[]string{"journal", "--since", "1h", "--wide"}, 0, []string{"operator", "rack 4 moves", "all well"}},
		{[]string{"journal", "--event", "release"}, 0, []string{"no such entry", "What release gives back is called Delete"}},
	} {
		code, out := tell(t, append(c.args, "--config", dir)...)
		if code != c.code {
			t.Errorf("%q: exit status %d, want %d\n%s", c.args, code, c.code, out)
		}
		has(t, out, c.want...)
		if t.Failed() {
			t.Fatalf("after %q", c.args)
		}
	}
	for _, what := range []string{`"what":"Delete"`, `"what":"Renew"`, `"what":"thaw"`, `"what":"drain"`, `"what":"undrain"`, "rack 4 moves", "pc1 pc3..pc5: fan broken"} {
		has(t, readFile(t, filepath.Join(dir, "audit.log")), what)
	}

	// What the inventory drains, it drains.
	edit(t, filepath.Join(dir, "inventory.yaml"), "names: pc1..pc12", "drained: true\n    names: pc1..pc12")
	code, out := tell(t, "undrain", "pc1", "--config", dir)
	if code != 1 || !strings.Contains(out, "drained in "+filepath.Join(dir, "inventory.yaml")+", so take drained: true out there: pc1") {
		t.Errorf("undrain of what the inventory drains: %d %s", code, out)
	}
}

// TestThawTellsOfNodesWhereThereAre thaws what was reserved and never made.
func TestThawTellsOfNodesWhereThereAre(t *testing.T) {
	k := newKeeper(t)
	s := serve(t, k.dir, "--listen", "127.0.0.1:0")
	k.allocate(s, "first")
	if code, out := tell(t, "call", "--url", s.url, "--user", k.path("users/ann"), "--slice", "first", "Shutdown"); code != 0 {
		t.Fatal(out)
	}
	if out := k.ok([]string{"thaw", "first"}, "it has 2 slivers", "No node was made yet; the first lease ends at "); strings.Contains(out, "nodes are off") {
		t.Errorf("it tells of nodes:\n%s", out)
	}
	s.stop()
}
