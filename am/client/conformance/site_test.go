package conformance_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/am/client/conformance"
)

// programFolder has the built programs, of an aggregate that the tests probe.
var programFolder string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "patchbay-conformance")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		programFolder = dir
		return m.Run()
	}())
}

// buildPrograms builds the programs once.
var buildPrograms = sync.OnceValue(func() error {
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", programFolder+"/", "patchbay/cmd/patchbay", "patchbay/cmd/patchbay-local")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
})

// patchbay runs a command line, which must succeed.
func patchbay(t *testing.T, args ...string) string {
	t.Helper()
	if err := buildPrograms(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(programFolder, "patchbay"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("patchbay %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// probeLab is a served site with the user alice, in dir.
type probeLab struct {
	dir, folder, url string
}

var serveLine = regexp.MustCompile(`listening on (https://\S+),`)

// newProbeLab serves a site with simulated nodes without delays. chance is that setting of
// the provider.
func newProbeLab(t *testing.T, chance string) *probeLab {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "site")
	patchbay(t, "init", "--authority", "testbed.example.org", "--listen", "127.0.0.1:0", dir)
	patchbay(t, "user", "alice", "--config", dir)
	settings := "timing: {make: 0s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 0s, install: 0s, execute: 0s}\nchance: {" + chance + "}\n"
	if err := os.WriteFile(filepath.Join(dir, "providers", "simulated.yaml"), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(filepath.Join(programFolder, "patchbay"), "serve", "--config", dir)
	server.Env = append(os.Environ(), "PATCHBAY_LIMITS_MAX_CHANGES_BURST=1000000")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGTERM)
		server.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	m := serveLine.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("the server did not start: %v %q", err, line)
	}
	return &probeLab{dir: dir, folder: filepath.Join(dir, "users", "alice"), url: m[1]}
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// slice creates a slice, and returns its URN and credential.
func (l *probeLab) slice(t *testing.T, name, life string) (urn string, credential []byte) {
	t.Helper()
	patchbay(t, "slice", name, "--owner", "alice", "--expires", life, "--config", l.dir)
	return "urn:publicid:IDN+testbed.example.org+slice+" + name, readFile(t, filepath.Join(l.folder, "slices", name+"-cred.xml"))
}

var expiresElement = regexp.MustCompile(`<expires>(.*?)</expires>`)

// config returns the configuration of a probe with a new slice.
func (l *probeLab) config(t *testing.T, name string) conformance.Config {
	t.Helper()
	c := conformance.Config{
		URL: l.url + "/am/3.0", CertFile: filepath.Join(l.folder, "alice-cert.pem"), KeyFile: filepath.Join(l.folder, "alice-key.pem"), Wait: time.Minute,
		User: readFile(t, filepath.Join(l.folder, "alice-usercred.xml")),
	}
	c.SliceURN, c.Slice = l.slice(t, name, "1d")
	var err error
	if c.SliceExpires, err = time.Parse(time.RFC3339, string(expiresElement.FindSubmatch(c.Slice)[1])); err != nil {
		t.Fatal(err)
	}
	return c
}

// hasSlivers returns whether the site has slivers.
func (l *probeLab) hasSlivers(t *testing.T) bool {
	return !strings.Contains(patchbay(t, "slivers", "--config", l.dir), "There are no slivers.")
}
