package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/am/clock"
	"patchbay/am/testkit/wait"
)

// ahead has what a site knew before a boot be so far in the future, so that the
// host's clock is behind it.
func ahead(t *testing.T, dir string, d time.Duration) {
	t.Helper()
	then := time.Now().Add(d)
	if err := os.Remove(filepath.Join(dir, "clock.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	c, err := clock.Open(clock.Options{Host: clock.Host{
		Boot: "another", Read: func() (time.Time, time.Duration) { return then, 1 }, Synced: func() bool { return false },
	}, File: filepath.Join(dir, "clock.json")})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
}

var expiresTold = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// TestClockAsAnOperatorSeesIt goes through a doubt by commands, of a site that is
// served and one that is not.
func TestClockAsAnOperatorSeesIt(t *testing.T) {
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
	ok("Leases count by the host's clock: it is ")("clock")
	ok("was believed already")("clock", "--believe")

	ahead(t, dir, time.Hour)
	ok("not believed: after a boot it was behind", " behind that", "If it is right, type: ", "clock --believe")("clock")
	ok("Leases count by the host's clock again: it is ")("clock", "--believe")
	ok("Leases count by the host's clock: it is ")("clock")

	ahead(t, dir, time.Hour)
	s := serve(t, dir, "--listen", "127.0.0.1:0")
	wait.Until(t, "the log tells of the doubt", func() bool {
		return strings.Contains(s.out.String(), "the host's clock is behind the last known time")
	})
	has(t, s.out.String(), "level=ERROR")
	metric := func(line string) func() bool {
		return func() bool { _, text := get(t, s.admin+"/metrics"); return strings.Contains(text, "\n"+line+"\n") }
	}
	wait.Until(t, "the metrics tell of the doubt", metric("patchbay_clock_in_doubt 1"))
	ok("not believed: after a boot it was behind")("clock")

	// What is promised counts by the site's time, which is an hour ahead.
	earliest := time.Now()
	code, out := tell(t, "call", "--url", s.url, "--user", filepath.Join(dir, "users", "ann"), "--slice", "first", "Allocate", filepath.Join(dir, "request.xml"))
	if code != 0 {
		t.Fatal(out)
	}
	ends := expiresTold.FindString(out)
	end, err := time.Parse(time.RFC3339, ends)
	if err != nil || end.Before(earliest.Add(time.Hour)) {
		t.Errorf("the lease ends at %q, %v:\n%s", ends, err, out)
	}
	// So do commands reckon.
	ok("first/", "in 10m")("slivers", "--ends-before", "15m")
	ok("There is no such sliver.")("slivers", "--ends-before", "5m")
	ok("(in 20m)")("renew", "first", "--for", "20m")
	ok("first/", "in 20m")("slivers")
	ok("Maintenance 1 is planned")("maintenance", "pc1", "new disks", "--for", "20m")
	ok("1  now  ")("maintenance")
	ok("warning", "clock.json: the host's clock is not believed: after a boot it was behind")("check")
	ok("Taken back")("maintenance", "--lift", "1")

	ok("Leases count by the host's clock again: it is ")("clock", "--believe")
	wait.Until(t, "the metrics tell of its end", metric("patchbay_clock_in_doubt 0"))
	wait.Until(t, "the log tells of its end", func() bool {
		return strings.Contains(s.out.String(), "leases count by the host's clock again")
	})
	ok("was believed already")("clock", "--believe")
	if code := s.stop(); code != 0 {
		t.Errorf("stopped with %d", code)
	}
	s = serve(t, dir, "--listen", "127.0.0.1:0")
	wait.Until(t, "it stays believed", metric("patchbay_clock_in_doubt 0"))
	ok("clock believed", "operator ", " instead of ", "maintenance lifted", "Renew", "until 20")("journal", "--wide")
	acts := readFile(t, filepath.Join(dir, "audit.log"))
	if got := strings.Count(acts, `"clock believed"`); got != 2 {
		t.Errorf("the audit tells of %d acts, want 2", got)
	}
}

func TestClockBrokenFileIsTold(t *testing.T) {
	dir := made(t)
	if err := os.WriteFile(filepath.Join(dir, "clock.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out := tell(t, "check", "--config", dir)
	if code != 1 {
		t.Errorf("check: exit status %d", code)
	}
	has(t, out, "error", "clock.json is broken", "see that that is right")
	s := serve(t, dir, "--listen", "127.0.0.1:0")
	has(t, s.out.String(), "what was known of the time is lost", "clock.json is broken")
	for _, c := range []struct{ args, want []string }{
		{[]string{"check"}, []string{"warning", "clock.json is broken", "--believe"}},
		{[]string{"clock"}, []string{"is lost", "clock.json is broken", "--believe"}},
		{[]string{"clock", "--believe"}, []string{"The host's clock is right, you say"}},
		{[]string{"journal"}, []string{"clock believed"}},
	} {
		_, out := tell(t, append(c.args, "--config", dir)...)
		has(t, out, c.want...)
	}
	if _, out := tell(t, "clock", "--config", dir); strings.Contains(out, "lost") {
		t.Errorf("it is told still: %s", out)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("stopped with %d", code)
	}

	// So it is without a server, and in the words of a command, not of a log.
	if err := os.RemoveAll(filepath.Join(dir, "clock.json.old")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "clock.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out = tell(t, "clock", "--config", dir)
	if has(t, out, "is lost", "clock.json is broken"); code != 0 || strings.Contains(out, "ERROR") {
		t.Errorf("%d %s", code, out)
	}
	tell(t, "clock", "--believe", "--config", dir)
	if _, out := tell(t, "clock", "--config", dir); strings.Contains(out, "lost") {
		t.Errorf("it is told still: %s", out)
	}
}
