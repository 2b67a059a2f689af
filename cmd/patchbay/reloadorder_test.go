package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"patchbay/am/audit"
	"patchbay/am/site"
	"patchbay/am/testkit/wait"
)

// countAudited counts the lines of a site's audit for an operator's command.
func countAudited(t testing.TB, dir, what, operator string) int {
	t.Helper()
	n := 0
	for line := range strings.Lines(readFile(t, filepath.Join(dir, "audit.log"))) {
		if strings.Contains(line, fmt.Sprintf(`"what":%q`, what)) && strings.Contains(line, fmt.Sprintf(`"operator":%q`, operator)) {
			n++
		}
	}
	return n
}

// sendAndLeave sends a command to the server and does not wait for the answer.
func sendAndLeave(t testing.TB, dir, what, order string) {
	t.Helper()
	conn, err := net.Dial("unix", socketPath(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.0\r\nHost: site\r\nContent-Length: %d\r\n\r\n%s", what, len(order), order); err != nil {
		t.Fatal(err)
	}
}

// TestAuditRecordsCommandsOfDisconnectedClients proves that the server audits a reload,
// or an order to trust the clock, exactly once, even if the client has disconnected.
func TestAuditRecordsCommandsOfDisconnectedClients(t *testing.T) {
	dir := newSite(t)
	advanceClock(t, dir, "1h")
	s := serve(t, dir)
	want := func(what, operator string, n int) {
		t.Helper()
		wait.Until(t, fmt.Sprintf("the audit has %d of %s by %s", n, what, operator), func() bool { return countAudited(t, dir, what, operator) >= n })
	}
	sendAndLeave(t, dir, "/reload", `{"operator":"alice"}`)
	want("reload", "alice", 1)
	sendAndLeave(t, dir, "/clock", `{"operator":"alice"}`)
	want("clock trusted", "alice", 1)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	want("reload", "SIGHUP", 1)
	if code, out := runCommand(t, "reload", "--config", dir); code != 0 {
		t.Error(out)
	}
	if n := countAudited(t, dir, "reload", audit.Operator()); n != 1 {
		t.Errorf("one reload by command is told %d times", n)
	}
	if code, out := runCommand(t, "clock", "--trust", "--config", dir); code != 0 {
		t.Error(out)
	}
	if n := countAudited(t, dir, "clock trusted", audit.Operator()); n != 0 {
		t.Errorf("what was already trusted is told %d times", n)
	}
	s.stop()
}

// TestReloadWaitsForNoPipe proves that a pipe without a writer blocks neither a reload,
// nor later ones, nor the stop.
func TestReloadWaitsForNoPipe(t *testing.T) {
	for _, name := range []string{"inventory.yaml", site.ConfigName, "providers/simulated.yaml"} {
		t.Run(name, func(t *testing.T) {
			dir := newSite(t)
			config, err := site.ReadConfig(filepath.Join(dir, site.ConfigName))
			if err != nil {
				t.Fatal(err)
			}
			s := serve(t, dir)
			file := filepath.Join(dir, name)
			if name == "providers/simulated.yaml" { // a file that is open is not read again
				file = filepath.Join(dir, "providers", "other.yaml")
				script := readFile(t, filepath.Join(dir, "providers", "simulated.prov"))
				if err := os.WriteFile(filepath.Join(dir, "providers", "other.prov"), []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
				edit(t, filepath.Join(dir, "inventory.yaml"), "names: pc1..pc12", "names: pc1..pc12\n    provider: other")
			} else if err := os.Rename(file, file+".away"); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(file, 0o600); err != nil {
				t.Fatal(err)
			}
			wait.Until(t, "a reload is refused", func() bool {
				var r site.ReloadReport
				err := site.Order(t.Context(), config, "/reload", site.ServerCommand{Operator: "alice"}, &r)
				if err != nil {
					t.Fatal(err)
				}
				return strings.Contains(strings.Join(r.Wrong, "\n"), "is not a regular file")
			})
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			wait.Until(t, "a signal is heeded", func() bool { return strings.Count(s.out.String(), "is not a regular file") >= 2 })
			if code := s.stop(); code != 0 {
				t.Errorf("stopped with %d", code)
			}
		})
	}
}
