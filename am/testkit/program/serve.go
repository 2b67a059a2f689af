package program

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Addresses are the URLs at which a server listens; "" for a listener that it does not have.
type Addresses struct{ API, Admin, Pages string }

// Serve starts a server of the site in dir with the built program, which writes its log to log. It
// waits for the line with the addresses of the server. The server runs as user; nil for the user of
// the test. Args are more arguments of `patchbay serve`.
func Serve(t testing.TB, dir string, log *os.File, user *syscall.Credential, args ...string) (*exec.Cmd, Addresses) {
	t.Helper()
	bin, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(filepath.Join(bin, "patchbay"), append([]string{"serve", "--config", filepath.Join(dir, "patchbay.yaml")}, args...)...)
	c.Stderr = log
	c.Env = append(os.Environ(), "GORACE=halt_on_error=1 exitcode=66")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.Wait()
		t.Fatalf("the server did not start: %v\n%s", err, ReadFile(t, log.Name()))
	}
	find := func(name string) string {
		_, rest, _ := strings.Cut(line, name+" ")
		address, _, _ := strings.Cut(strings.TrimSpace(rest), ",")
		return address
	}
	return c, Addresses{API: find("listening on"), Admin: find(", admin"), Pages: find(", pages")}
}
