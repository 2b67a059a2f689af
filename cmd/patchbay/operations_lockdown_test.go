package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/wait"
)

// lockable is a site with a user and a slice, and calls to it.
func lockable(t *testing.T) (dir string, site func(args ...string) (int, string)) {
	t.Helper()
	dir = prepared(t, annAndFirst...)
	return dir, func(args ...string) (int, string) { return tell(t, append(args, "--config", dir)...) }
}

// annAndFirst make a user and her slice.
var annAndFirst = [][]string{{"user", "ann"}, {"slice", "first", "--owner", "ann"}}

// TestLockdownAsAnOperatorSeesIt goes through a lockdown by commands, of a site
// that is not served, served, and served again.
func TestLockdownAsAnOperatorSeesIt(t *testing.T) {
	dir, site := lockable(t)
	ok := func(parts ...string) func(args ...string) {
		return func(args ...string) {
			t.Helper()
			code, out := site(args...)
			if code != 0 {
				t.Errorf("%q: exit status %d", args, code)
			}
			has(t, out, parts...)
		}
	}
	ok("The site is not locked down.", "not served")("lockdown")
	ok("was not locked down")("lockdown", "--lift")
	ok("The site is not served. From its next start on, no new work is taken.", "(code 11): power cut at noon", "0 slivers of 0 slices", "lockdown --lift")("lockdown", "power cut at noon")
	ok("No new work is taken since ", ": power cut at noon")("lockdown")
	ok("the site is locked down, and takes no new work: power cut at noon")("check")

	s := serve(t, dir, "--listen", "127.0.0.1:0")
	call := func(args ...string) (int, string) {
		return tell(t, append([]string{"call", "--url", s.url, "--user", filepath.Join(dir, "users", "ann"), "--slice", "first"}, args...)...)
	}
	request := filepath.Join(dir, "request.xml")
	code, out := call("Allocate", request)
	if code != 1 {
		t.Errorf("Allocate: %d", code)
	}
	has(t, out, "UNAVAILABLE (11)", "this aggregate takes no new work for now, and what runs goes on: power cut at noon")
	if _, out = call("GetVersion"); true {
		has(t, out, "patchbay_lockdown: power cut at noon", "no new work is taken for now: power cut at noon")
	}
	if _, out = call("--option", "geni_available=true", "-o", "-", "ListResources"); strings.Contains(out, "<node ") {
		t.Error("nodes are available in a lockdown")
	}
	if _, out = call("-o", "-", "ListResources"); strings.Contains(out, `now="true"`) || !strings.Contains(out, `now="false"`) {
		t.Error("the advertisement shows something available, or nothing at all")
	}

	ok("No new work is taken from now on.", "What runs goes on: 0 slivers of 0 slices.\n")("lockdown", "power cut at one")
	if _, out = call("Allocate", request); !strings.Contains(out, "power cut at one") {
		t.Errorf("the new text does not count at once:\n%s", out)
	}
	ok("New work is taken again.")("lockdown", "--lift")
	if code, out = call("Allocate", request); code != 0 {
		t.Error(out)
	}
	if _, out = call("GetVersion"); strings.Contains(out, "lockdown") {
		t.Errorf("GetVersion still tells:\n%s", out)
	}

	ok("What runs goes on: 0 slivers of 0 slices.\n", "What is only reserved cannot be provisioned meanwhile, and lapses unless it is renewed: 2 slivers.\n")("lockdown", "power cut at two")
	shows := func(parts ...string) func() bool {
		return func() bool {
			_, metrics := get(t, s.admin+"/metrics")
			for _, p := range parts {
				if !strings.Contains(metrics, "\n"+p+"\n") {
					return false
				}
			}
			return true
		}
	}
	wait.Until(t, "the metrics tell of the lockdown", shows("patchbay_lockdown 1", "patchbay_maintenance_broken 0"))
	ok("New work is taken again.")("lockdown", "--lift")
	wait.Until(t, "the metrics tell of its end", shows("patchbay_lockdown 0"))

	// By hand, with a mistake, and mended.
	file := filepath.Join(dir, "maintenance.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	version := func(text string) func() bool {
		return func() bool { _, out := call("GetVersion"); return strings.Contains(out, text) }
	}
	write("lockdown: {text: by hand}\n")
	wait.Until(t, "a file edited by hand counts", version("patchbay_lockdown: by hand"))
	write("lokdown: {text: by hand}\n")
	wait.Until(t, "a mistake is logged", func() bool { return strings.Contains(s.out.String(), "what it said stays in force") })
	if !version("patchbay_lockdown: by hand")() {
		t.Error("a file with a mistake lifts the lockdown")
	}
	wait.Until(t, "the metrics tell of a mistake", shows("patchbay_lockdown 1", "patchbay_maintenance_broken 1"))
	if code, out := site("lockdown", "--lift"); code != 1 || !strings.Contains(out, `did you mean "lockdown"?`) || !strings.Contains(out, "nothing was changed") {
		t.Errorf("a command on a file with a mistake: %d %s", code, out)
	}
	if code, out := site("check"); code != 1 || !strings.Contains(out, `maintenance.yaml:1: the file has no key "lokdown"`) {
		t.Errorf("check: %d %s", code, out)
	}

	// Whether it was locked down is not known now, so it is.
	if code := s.stop(); code != 0 {
		t.Errorf("stopped with %d", code)
	}
	s = serve(t, dir, "--listen", "127.0.0.1:0")
	has(t, s.out.String(), "the site starts locked down")
	if !version("patchbay_lockdown: the operators of this aggregate have to mend its settings; please try again later")() {
		t.Error("a site starts open though its file cannot be read")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "without the file the site is open", func() bool { return !version("patchbay_lockdown")() })
}

func TestLockdownUsage(t *testing.T) {
	dir := made(t)
	for _, tt := range []struct {
		rule, want string
		args       []string
	}{
		{"several words without quotes", "it takes one argument, the text", []string{"lockdown", "power", "cut"}},
		{"two lines", "one line without control characters", []string{"lockdown", "a\nb"}},
		{"an escape sequence", "one line without control characters", []string{"lockdown", "\x1b[2J"}},
		{"not ASCII", "plain ASCII", []string{"lockdown", "für heute"}},
		{"nothing", "the text is empty", []string{"lockdown", " "}},
		{"a text to lift", "it takes no argument", []string{"lockdown", "--lift", "x"}},
		{"components without text", "it takes components and then a text", []string{"maintenance", "pc1", "--for", "1h"}},
		{"no text at all", "the text is missing", []string{"maintenance", "--for", "1h"}},
		{"all and one", "name no components", []string{"maintenance", "--all", "pc1", "x", "--for", "1h"}},
		{"no end", "does not say when it ends", []string{"maintenance", "pc1", "x"}},
		{"two ends", "give one", []string{"maintenance", "pc1", "x", "--for", "1h", "--until", "2h"}},
		{"an end before the beginning", "not after its beginning", []string{"maintenance", "pc1", "x", "--from", "3h", "--until", "2h"}},
		{"a time without zone", "with its zone", []string{"maintenance", "pc1", "x", "--until", "2030-01-01 12:00"}},
		{"number 0", "begins with 1", []string{"maintenance", "--lift", "0"}},
		{"one of two numbers is 0", "begins with 1", []string{"maintenance", "--lift", "1,0"}},
		{"lift with more", "goes with no other flag", []string{"maintenance", "--lift", "1", "--all"}},
	} {
		if code, out := tell(t, append(tt.args, "--config", dir)...); code != 2 || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %d %s", tt.rule, code, out)
		}
	}
	for _, tt := range []struct {
		rule, want string
		args       []string
	}{
		{"an unknown component", `no component "pc21"; did you mean pc1?`, []string{"maintenance", "pc18..pc21", "x", "--for", "1h"}},
		{"over already", "it would be over", []string{"maintenance", "pc1", "x", "--from", "2020-01-01T00:00:00Z", "--for", "1h"}},
		{"a number that is not there", "no maintenance is planned", []string{"maintenance", "--lift", "1"}},
	} {
		if code, out := tell(t, append(tt.args, "--config", dir)...); code != 1 || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %d %s", tt.rule, code, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "maintenance.yaml")); err == nil {
		t.Error("a refused command has written the file")
	}
}
