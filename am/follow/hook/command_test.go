package hook

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"

	"github.com/google/go-cmp/cmp"
)

// script writes an executable and returns a hook that runs it.
func script(t testing.TB, text string) *Hook {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "hook")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return &Hook{Name: "h", Command: path, Dir: dir, Timeout: patience}
}

var someEvent = Event{ID: "7-1", At: noon, Event: Ready, Slice: sliceURN("s").String(), Sliver: sliverURN("a").String(), Error: "a $(b) 'c' \n"}

func TestCommandGetsTheEventAndNothingElse(t *testing.T) {
	t.Setenv("PATCHBAY_STATE", "secret")
	t.Setenv("PASSWORD", "secret")
	h := script(t, "cat > event\nenv | sort > env\npwd > where\n")
	if err := h.sender().send(t.Context(), someEvent); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(h.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var got Event
	if err := json.Unmarshal([]byte(read("event")), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(someEvent, got); diff != "" {
		t.Error(diff)
	}
	if where := strings.TrimSpace(read("where")); where != h.Dir {
		t.Errorf("it runs in %s", where)
	}
	var names []string
	for l := range strings.Lines(read("env")) {
		name, value, _ := strings.Cut(strings.TrimSpace(l), "=")
		names = append(names, name)
		if want := map[string]string{"PATCHBAY_EVENT": "ready", "PATCHBAY_EVENT_ID": "7-1", "PATCHBAY_EVENT_HOOK": "h", "PATCHBAY_EVENT_SLICE": someEvent.Slice, "PATCHBAY_EVENT_SLIVER": someEvent.Sliver}[name]; want != "" && value != want {
			t.Errorf("%s is %q", name, value)
		}
	}
	want := []string{"HOME", "LANG", "PATCHBAY_EVENT", "PATCHBAY_EVENT_HOOK", "PATCHBAY_EVENT_ID", "PATCHBAY_EVENT_SLICE", "PATCHBAY_EVENT_SLIVER", "PATH"}
	got2 := names[:0]
	for _, n := range names {
		if n != "PWD" && n != "OLDPWD" && n != "SHLVL" && n != "_" { // the shell's own
			got2 = append(got2, n)
		}
	}
	if diff := cmp.Diff(want, got2); diff != "" {
		t.Error(diff)
	}
}

// TestRootRunsACommandAsTheOwnerOfTheSite proves that the owner of a site, who can change
// its hooks, gets no rights of root by them.
func TestRootRunsACommandAsTheOwnerOfTheSite(t *testing.T) {
	require.Root(t)
	h := script(t, "id -u > who\n")
	for dir := h.Dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(h.Dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if err := h.sender().send(t.Context(), someEvent); err != nil {
		t.Fatal(err)
	}
	if who, err := os.ReadFile(filepath.Join(h.Dir, "who")); err != nil || string(who) != "12345\n" {
		t.Errorf("it runs as user %q, %v", who, err)
	}
}

func TestCommandsThatDoNotTakeTheEvent(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       string // part of the error; "" for none
	}{
		{"ExitZeroTakes", "exit 0", ""},
		{"ChatterDoesNotCount", "echo all is well; echo really >&2", ""},
		{"OtherStatusDoesNot", "exit 3", "exit status 3"},
		{"OutputIsInTheError", "echo the mail server is away >&2; exit 1", `its output: "the mail server is away"`},
		{"MuchOutputIsCut", "head -c 300000000 /dev/zero; echo end; exit 1", `end"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := script(t, c.text).sender().send(t.Context(), someEvent)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			case err != nil && len(err.Error()) > 4*maxOutput:
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestCommandsThatCannotBeStarted(t *testing.T) {
	good := script(t, "exit 0")
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ name, path, want string }{
		{"Good", good.Command, ""},
		{"Missing", filepath.Join(good.Dir, "absent"), "does not exist; create it, or correct command"},
		{"Folder", good.Dir, "is not a file"},
		{"EverybodyMayWrite", write("x", "#!/bin/sh\n", 0o777), "chmod o-w"},
		{"NotExecutable", write("x", "#!/bin/sh\n", 0o644), "chmod +x"},
		{"NoInterpreter", write("x", "exit 0\n", 0o755), "#!/bin/sh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &Hook{Name: "h", Command: c.path, Dir: good.Dir}
			err := h.sender().send(t.Context(), someEvent)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestTheTimeOfACommandIsLimited(t *testing.T) {
	h := script(t, "exec sleep 1000")
	h.Timeout = 20 * time.Millisecond
	b := newBench(t, *h)
	b.start()
	b.put(reserved("s", "a"))
	wait.Until(t, "it fails", func() bool { return b.runner.Failing() == 1 })
	if s := b.runner.States()[0]; !strings.Contains(s.Error, "did not end in time") {
		t.Errorf("error %q", s.Error)
	}
}

// TestACommandGetsTheBegin begins a reservation that a hook waits for.
func TestACommandGetsTheBegin(t *testing.T) {
	h := script(t, "cat >>events\n")
	h.Events = []Kind{Begins}
	b := newBench(t, *h)
	b.start()
	x := reserved("s", "a")
	x.Begins, x.Ends = noon.Add(time.Hour), noon.Add(3*time.Hour)
	b.put(x)
	x.Begun = true
	b.put(x)
	b.drained()
	text, err := os.ReadFile(filepath.Join(h.Dir, "events"))
	if want := `"begins":"2030-01-02T13:00:00Z","ends":"2030-01-02T15:00:00Z"`; err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), want) {
		t.Errorf("it got %s, %v", text, err)
	}
}
