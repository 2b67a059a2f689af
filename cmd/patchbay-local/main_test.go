package main

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/inventory/provider"
	"patchbay/inventory/provider/providertest"
	"patchbay/inventory/provider/simulated"
)

// builds is the folder of the built program; empty if no test asked for it.
var builds string

// binary is the real program, built as it is shipped when a test asks for it.
var binary = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "patchbay-local")
	if err != nil {
		panic(err)
	}
	builds = dir
	path := filepath.Join(dir, "patchbay-local")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("cannot build patchbay-local: %v\n%s", err, out))
	}
	return path
})

func TestMain(m *testing.M) {
	code := m.Run()
	if builds != "" {
		os.RemoveAll(builds)
	}
	os.Exit(code)
}

// quick has times that are short enough for tests and long enough to be observed.
const quick = `
timing: {make: 100ms, start: 30ms, stop: 30ms, restart: 30ms, users: 30ms, remove: 30ms}
jitter: 0.1
seed: 1
slow_factor: 3
lose_after: 50ms
`

// install is what init does, with other settings.
func install(t testing.TB, settings string) *provider.Provider {
	t.Helper()
	dir := t.TempDir()
	metadata, err := exec.Command(binary(), "simulated", "ral_action=describe").Output()
	if err != nil {
		t.Fatal(err)
	}
	// A lower time limit, so that a hang is a short one.
	text := strings.Replace(string(metadata), "parallel: 4", "parallel: 4\n  timeouts: {set: 4s}", 1) + settings
	for name, text := range map[string]string{"sim.prov": string(simulated.Script(binary(), "sim")), "sim.yaml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	found, problems := provider.Load(dir, nil)
	if len(problems) > 0 || found["sim"] == nil {
		t.Fatalf("Load: %v, %q", found, problems)
	}
	found["sim"].Log = slog.New(slog.DiscardHandler)
	return found["sim"]
}

func getNode(t testing.TB, p *provider.Provider, name string) provider.Resource {
	t.Helper()
	got, err := p.Get(t.Context(), []string{name})
	if err != nil || got[name].Err != nil {
		t.Fatalf("get %s: %v, %v", name, err, got[name].Err)
	}
	return got[name].Resource
}

func stateOf(r provider.Resource) string {
	if provider.Gone(r) {
		return provider.Absent
	}
	return r.Text(provider.AttrState)
}

// setNode sets the attributes in should of one node.
func setNode(t testing.TB, p *provider.Provider, name string, should provider.Resource) (provider.Change, error) {
	t.Helper()
	got, err := p.Set(t.Context(), []provider.Update{{Name: name, Is: getNode(t, p, name), Should: should}}, false)
	if err != nil {
		return provider.Change{}, err
	}
	return got[0], nil
}

func mustSetNode(t testing.TB, p *provider.Provider, name string, should provider.Resource) provider.Change {
	t.Helper()
	c, err := setNode(t, p, name, should)
	if err != nil || c.Err != nil {
		t.Fatalf("set %s: %v, %v", name, err, c.Err)
	}
	return c
}

func node(component string, more provider.Resource) provider.Resource {
	r := provider.Resource{"ensure": "present", "component": component, "power": "off", "restart_serial": "0"}
	maps.Copy(r, more)
	return r
}

func TestSimulatedPassesSuite(t *testing.T) {
	providertest.Run(t, install(t, quick).Path, providertest.Options{
		Node: provider.Resource{"component": "pc1"},
		Wait: time.Minute,
		Poll: 10 * time.Millisecond,
	})
}

// TestConcurrentSetsAreKept checks that concurrent sets of several processes lose no node and use
// no address twice.
func TestConcurrentSetsAreKept(t *testing.T) {
	p := install(t, "timing: {make: 0s, start: 0s}\n")
	var wait sync.WaitGroup
	const n = 8
	for i := range n {
		wait.Go(func() {
			u := []provider.Update{{Name: fmt.Sprint("n", i), Should: node("pc1", nil)}}
			if c, err := p.Set(t.Context(), u, false); err != nil || c[0].Err != nil {
				t.Errorf("set: %v, %v", err, c)
			}
		})
	}
	wait.Wait()
	got, err := p.Get(t.Context(), nil)
	addresses := map[string]bool{}
	for _, r := range got {
		addresses[r.Resource.List("addresses")[0]] = true
	}
	if err != nil || len(got) != n || len(addresses) != n {
		t.Errorf("%d nodes with %d addresses, %v; want %d of each", len(got), len(addresses), err, n)
	}
}

func TestIsStatic(t *testing.T) {
	if out, err := exec.Command("go", "version", "-m", binary()).CombinedOutput(); err != nil || !strings.Contains(string(out), "CGO_ENABLED=0") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestCommands(t *testing.T) {
	out, err := exec.Command(binary(), "version").CombinedOutput()
	if err != nil || !regexp.MustCompile(`^patchbay-local \S+\n$`).Match(out) {
		t.Errorf("version: %v, %q", err, out)
	}
	for _, args := range [][]string{{"simulated"}, {"simulated", "get"}, {"simulated", "--name", "../x", "ral_action=get"}, {"nonsense"}} {
		prefix := "error: " // a provider's level, for the server's log
		if args[0] == "nonsense" {
			prefix = "patchbay-local: "
		}
		c := exec.Command(binary(), args...)
		c.Dir = t.TempDir()
		out, err := c.CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), prefix) {
			t.Errorf("%q: %v, %q; want a refusal", args, err, out)
		}
	}
}
