package program

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am/display"
	"patchbay/am/testkit/require"
)

// builds is the folder of the built programs; empty if no test needed them.
var builds string

// Build builds our programs once for all tests, the server with the race detector if
// PATCHBAY_RACE is set.
var Build = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "patchbay-bin"); err != nil {
		return "", err
	}
	builds = dir
	for name, env := range map[string]string{"patchbay": "CGO_ENABLED=1", "patchbay-local": "CGO_ENABLED=0"} {
		args := []string{"build", "-ldflags=-s -w", "-o", filepath.Join(dir, name)} // links faster without tables for debuggers
		if name == "patchbay" && os.Getenv("PATCHBAY_RACE") != "" {
			args = append(args, "-race")
		}
		c := exec.Command("go", append(args, "patchbay/cmd/"+name)...)
		c.Env = append(os.Environ(), env)
		if out, err := c.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %v\n%s", name, err, out)
		}
	}
	return dir, nil
})

// Main is for TestMain. It runs the tests, calls the functions atEnd, and removes what tests share.
func Main(m *testing.M, atEnd ...func()) {
	display.Program = "patchbay" // instead of the name of the test
	require.FastPython()
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // tests often wait
		panic(err)
	}
	// Less time in the garbage collector, here and in the programs that tests start.
	os.Setenv("GOMEMLIMIT", "off")
	debug.SetGCPercent(400)
	os.Setenv("GOGC", "400")
	// Tests work faster than people, so the limit on changes is high.
	os.Setenv("PATCHBAY_LIMITS_MAX_CHANGES_BURST", "1000000")
	code := m.Run()
	for _, end := range atEnd {
		end()
	}
	for _, dir := range []string{builds, templates.folder} {
		if dir != "" {
			os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// Run runs the built program in a new folder, and returns its exit status and all
// output.
func Run(t testing.TB, args ...string) (int, string) {
	t.Helper()
	return RunIn(t, t.TempDir(), args...)
}

// RunIn runs the built program in a folder.
func RunIn(t testing.TB, dir string, args ...string) (int, string) {
	t.Helper()
	bin, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(filepath.Join(bin, "patchbay"), args...)
	c.Args[0] = "patchbay"
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// templates are sites created once, by init and further commands, since keys take
// seconds. Tests get copies.
var templates struct {
	sync.Mutex
	folder string // empty until the first site is created
	made   map[string]string
}

// NewSite returns the folder of a copy of a site on which some commands were run
// after init.
func NewSite(t testing.TB, commands ...[]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "site")
	NewSiteAt(t, dir, []string{"init", "--authority", "testbed.example.org", "--listen", "127.0.0.1:0"}, commands...)
	return dir
}

// NewSiteAt copies a site to dir that was created by init and some commands.
func NewSiteAt(t testing.TB, dir string, init []string, commands ...[]string) {
	t.Helper()
	templates.Lock()
	defer templates.Unlock()
	if err := Execute("cp", "-a", siteTemplate(t, init, commands), dir); err != nil {
		t.Fatal(err)
	}
}

// siteTemplate returns the folder of a template. The last command runs on a copy of the template
// for the commands before it.
func siteTemplate(t testing.TB, init []string, commands [][]string) string {
	t.Helper()
	key := fmt.Sprint(init, commands)
	if made := templates.made[key]; made != "" {
		return made
	}
	if templates.folder == "" {
		var err error
		if templates.folder, err = os.MkdirTemp("", "patchbay-sites"); err != nil {
			t.Fatal(err)
		}
		templates.made = map[string]string{}
	}
	var from string
	args := init
	if n := len(commands) - 1; n >= 0 {
		from, args = siteTemplate(t, init, commands[:n]), append(slices.Clone(commands[n]), "--config")
	}
	made := filepath.Join(templates.folder, fmt.Sprint(len(templates.made)))
	if from != "" {
		if err := Execute("cp", "-a", from, made); err != nil {
			t.Fatal(err)
		}
	}
	if code, out := Run(t, append(slices.Clone(args), made)...); code != 0 {
		t.Fatalf("%q: %d\n%s", args, code, out)
	}
	templates.made[key] = made
	return made
}

// RemoveSimulatedDelays removes the delays of a site's simulated nodes.
func RemoveSimulatedDelays(t testing.TB, site string) string {
	t.Helper()
	Edit(t, filepath.Join(site, "providers", "simulated.yaml"), "timing:\n  make: 2s\n  start: 1500ms\n  stop: 500ms\n  restart: 2s\n  users: 200ms\n  remove: 500ms\n  install: 1s    # each archive, when the node is on for the first time\n  execute: 300ms # each other step of setup\n",
		"timing: {make: 0s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 0s, install: 0s, execute: 0s}\n")
	return filepath.Join(site, "providers", "simulated.prov")
}

// WantTexts fails for each part that the text does not have.
func WantTexts(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}

// Edit replaces the first occurrence of a text, which must occur.
func Edit(t testing.TB, file, old, new string) {
	t.Helper()
	text := ReadFile(t, file)
	if !strings.Contains(text, old) {
		t.Fatalf("%s does not hold %q", file, old)
	}
	Write(t, file, strings.Replace(text, old, new, 1))
}

// ReadFile reads a file.
func ReadFile(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Write writes a file.
func Write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Execute runs a program. Its error has the output.
func Execute(words ...string) error {
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", words, err, out)
	}
	return nil
}

// Metric returns the sum of the values of a metric in the text of /metrics that have all
// these labels, each NAME="VALUE". It fails without the metric.
func Metric(t testing.TB, text, name string, labels ...string) (sum float64) {
	t.Helper()
	found := false
lines:
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if bare, _, _ := strings.Cut(series, "{"); bare != name {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(series, l) {
				continue lines
			}
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		t.Fatalf("no metric %s with %v in:\n%s", name, labels, text)
	}
	return sum
}

// Get returns the status and the body of the answer at a URL.
func Get(t testing.TB, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// NewTerminal returns both ends of a pseudo-terminal.
func NewTerminal(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { master.Close() })
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return master, terminal
}

// SmallRequest is so small that the requests of all workers fit.
const SmallRequest = `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3"><node client_id="n" exclusive="false"><sliver_type name="vm"/></node></rspec>`
