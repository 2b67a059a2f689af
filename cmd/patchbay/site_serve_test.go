package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/wait"
)

// serving is `patchbay serve` in this process.
type serving struct {
	dir, url, admin string
	out             *syncBuffer
	stop            func() int
}

// syncBuffer is a console that can be read while it is written to.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var announced = regexp.MustCompile(`listening on (https://\S+), admin (http://\S+)`)

func serve(t testing.TB, dir string, args ...string) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &serving{dir: dir, out: new(syncBuffer)}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"serve", "--config", dir}, args...), console{s.out, s.out})
	}()
	s.stop = sync.OnceValue(func() int {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { s.stop() })
	wait.Until(t, "the announcement", func() bool {
		m := announced.FindStringSubmatch(s.out.String())
		if m == nil {
			select {
			case code := <-ended:
				ended <- code
				t.Fatalf("serve ended with %d:\n%s", code, s.out)
			default:
			}
			return false
		}
		s.url, s.admin = m[1], m[2]
		return true
	})
	return s
}

func get(t testing.TB, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

func TestServeAnswersReloadsAndStops(t *testing.T) {
	dir := made(t)
	for _, args := range [][]string{{"user", "ann"}, {"slice", "first", "--owner", "ann"}} {
		if code, out := tell(t, append(args, "--config", dir)...); code != 0 {
			t.Fatal(out)
		}
	}
	s := serve(t, dir, "--listen", "127.0.0.1:0")
	ann := filepath.Join(dir, "users", "ann")
	call := func(args ...string) (int, string) {
		return tell(t, append([]string{"call", "--url", s.url, "--user", ann}, args...)...)
	}
	if code, body := get(t, s.admin+"/readyz"); code != 200 {
		t.Errorf("not ready: %s", body)
	}

	code, out := call("GetVersion")
	if code != 0 {
		t.Fatal(out)
	}
	has(t, out, "GetVersion: SUCCESS (0)", "geni_urn: urn:publicid:IDN+testbed.example.org+authority+cm", s.url+"/am/3.0")
	if code, out = call("--option", "geni_available=true", "--option", "geni_compressed=true", "ListResources"); code != 0 {
		t.Fatal(out)
	}
	has(t, out, `type="advertisement"`, "+node+pc20")

	request := filepath.Join(t.TempDir(), "request.xml")
	if err := os.WriteFile(request, []byte(demoRequest), 0o644); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(t.TempDir(), "manifest.xml")
	if code, out = call("--slice", "first", "-o", manifest, "Allocate", request); code != 0 {
		t.Fatal(out)
	}
	has(t, out, "SLIVER", "geni_allocated", "geni_pending_allocation")
	if strings.Contains(out, "<rspec") {
		t.Error("the manifest was printed although -o was given")
	}
	has(t, readFile(t, manifest), `type="manifest"`, `client_id="server"`)
	if code, out = call("--slice", "first", "-o", "-", "Describe", "near"); code != 0 {
		t.Error(out)
	}
	has(t, out, `<rspec`, `client_id="near"`, "NODE ", "near  urn:")
	if strings.Contains(out, "server  urn:") {
		t.Errorf("Describe of one node tells of the other:\n%s", out)
	}
	if code, out = call("--slice", "first", "Delete", "naer"); code != 1 {
		t.Errorf("exit status %d", code)
	}
	has(t, out, `no node "naer" here; did you mean near? There are: server, near, far`)
	if code, out = call("--slice", "first", "--raw", "Renew", "5m", "server"); code != 0 || strings.Count(out, "<methodResponse>") != 1 {
		t.Errorf("not one answer in\n%s", out)
	}
	if code, out = call("--slice", "first", "--raw", "Status"); code != 0 {
		t.Error(out)
	}
	has(t, out, "<methodResponse>", "geni_slivers")
	if code, out = call("--slice", "first", "PerformOperationalAction", "start"); code != 1 {
		t.Errorf("a refusal has exit status %d", code)
	}
	has(t, out, "UNSUPPORTED (13)")
	if code, out = call("--slice", "first", "Delete"); code != 0 {
		t.Error(out)
	}
	code, out = call("--slice", "first", "Status")
	if code != 1 {
		t.Error("the status of an empty slice is a success")
	}
	has(t, out, "SEARCHFAILED (12)")
	code, out = call("--api-version", "2", "--slice", "first", "SliverStatus")
	if code != 1 {
		t.Error("the status of an empty slice is a success in version 2")
	}
	has(t, out, "SEARCHFAILED (12)")

	_, metrics := get(t, s.admin+"/metrics")
	has(t, metrics, `patchbay_calls_total{code="0",method="Allocate"} 1`, `patchbay_calls_total{code="12",method="Status"} 1`,
		`patchbay_calls_total{code="12",method="SliverStatus"} 1`, "patchbay_trust_anchors 1", "patchbay_slivers 0", "patchbay_tls_connections")

	t.Run("TrustFolderCountsAtOnce", func(t *testing.T) {
		file := filepath.Join(dir, "trusted", "trial.pem")
		pem := readFile(t, file)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "nobody is trusted", func() bool {
			code, out := call("ListResources")
			return code == 1 && strings.Contains(out, "FORBIDDEN (3)")
		})
		if code, body := get(t, s.admin+"/readyz"); code != 503 || !strings.Contains(body, "trust folder") {
			t.Errorf("readyz: %d %s", code, body)
		}
		if err := os.WriteFile(file, []byte(pem), 0o644); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "trusted again", func() bool { code, _ := call("ListResources"); return code == 0 })
	})
	t.Run("HangupReadsCertificates", func(t *testing.T) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "reload", func() bool { return strings.Contains(s.out.String(), "certificates were read again") })
		key := filepath.Join(dir, "server-rsa-key.pem")
		os.Chmod(key, 0o644)
		defer os.Chmod(key, 0o600)
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "refused reload", func() bool { return strings.Contains(s.out.String(), "the old ones stay") })
		if code, out := call("GetVersion"); code != 0 {
			t.Error(out)
		}
	})
	t.Run("OneServerOnAStore", func(t *testing.T) {
		code, out := tell(t, "serve", "--config", dir)
		if code != 1 {
			t.Errorf("exit status %d", code)
		}
		has(t, out, "is a server running on it?")
	})
	t.Run("PortInUse", func(t *testing.T) {
		code, out := tell(t, "serve", "--config", dir, "--listen", strings.TrimPrefix(s.url, "https://"))
		if code != 1 {
			t.Errorf("exit status %d", code)
		}
		has(t, out, "this very site is served already; stop that server first")
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if code, out = tell(t, "serve", "--config", made(t), "--listen", l.Addr().String()); code != 1 {
			t.Errorf("exit status %d", code)
		}
		has(t, out, "another program has that port")
	})
	if code := s.stop(); code != 0 {
		t.Errorf("stopped with exit status %d:\n%s", code, s.out)
	}
	has(t, s.out.String(), "msg=call", "method=Allocate", "caller=urn:publicid:IDN+testbed.example.org+user+ann", "stopping")
	if code, out := call("GetVersion"); code != 1 {
		t.Errorf("it still answers: %s", out)
	}
}

// eager is a reader of a command's output who acts upon a word in it.
type eager struct {
	*syncBuffer
	word string
	act  func()
}

func (e eager) Write(p []byte) (int, error) {
	if strings.Contains(string(p), e.word) {
		e.act()
	}
	return e.syncBuffer.Write(p)
}

// TestHangupIsHeededFromTheFirstWord sends SIGHUP as soon as a server says where it is.
func TestHangupIsHeededFromTheFirstWord(t *testing.T) {
	guard := make(chan os.Signal, 1) // or a signal that nobody heeds ends the tests
	signal.Notify(guard, syscall.SIGHUP)
	defer signal.Stop(guard)
	out, dir := new(syncBuffer), made(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		hangUp := func() {
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Error(err)
			}
			<-guard // it has come
		}
		ended <- run(ctx, []string{"serve", "--config", dir}, console{eager{out, "listening on", hangUp}, out})
	}()
	wait.Until(t, "it is heeded", func() bool { return strings.Contains(out.String(), "the audit was opened again") })
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("stopped with %d:\n%s", code, out)
	}
}

// TestServeLooksAfterWhatTheInventoryForgot holds that a sliver's own record tells who
// made it: its component may leave the inventory, and only its provider must stay.
func TestServeLooksAfterWhatTheInventoryForgot(t *testing.T) {
	dir := made(t)
	tell(t, "user", "ann", "--config", dir)
	tell(t, "slice", "first", "--owner", "ann", "--config", dir)
	s := serve(t, dir)
	ann := filepath.Join(dir, "users", "ann")
	call := func(s *serving, args ...string) (int, string) {
		return tell(t, append([]string{"call", "--url", s.url, "--user", ann, "--slice", "first"}, args...)...)
	}
	for _, args := range [][]string{{"Allocate", filepath.Join(dir, "request.xml")}, {"Provision"}} {
		if code, out := call(s, args...); code != 0 {
			t.Fatal(out)
		}
	}
	s.stop()
	edit(t, filepath.Join(dir, "inventory.yaml"), "names: pc1..pc12", "names: pc31..pc42")
	edit(t, filepath.Join(dir, "inventory.yaml"), "provider: simulated", "provider: other")
	providers := filepath.Join(dir, "providers")
	for _, suffix := range []string{".prov", ".yaml"} {
		text := strings.ReplaceAll(readFile(t, filepath.Join(providers, "simulated"+suffix)), "--name simulated", "--name other")
		if err := os.WriteFile(filepath.Join(providers, "other"+suffix), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	away := filepath.Join(t.TempDir(), "simulated.prov")
	if err := os.Rename(filepath.Join(providers, "simulated.prov"), away); err != nil {
		t.Fatal(err)
	}
	without := serve(t, dir)
	has(t, without.out.String(), "made by a provider that is missing", "put it back until its slivers are gone", "provider=simulated", "slivers=2")
	without.stop()
	if err := os.Rename(away, filepath.Join(providers, "simulated.prov")); err != nil {
		t.Fatal(err)
	}
	again := serve(t, dir)
	if code, out := call(again, "Status"); code != 0 || !strings.Contains(out, "geni_provisioned") {
		t.Errorf("status %d: %s", code, out)
	}
	if code, out := call(again, "Delete"); code != 0 {
		t.Errorf("status %d: %s", code, out)
	}
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		code, out := call(again, "Status")
		if code != 0 && strings.Contains(out, "12") {
			break // nothing is left
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("it is not removed: %s\n%s", out, again.out)
		}
	}
	if strings.Contains(again.out.String(), "missing") {
		t.Error(again.out)
	}
	again.stop()
	edit(t, filepath.Join(dir, "patchbay.yaml"), "authority: testbed.example.org", "authority: other.example.org")
	if code, out := tell(t, "serve", "--config", dir); code != 1 || !strings.Contains(out, "testbed.example.org") {
		t.Errorf("the store of another site was taken: %d\n%s", code, out)
	}
}

func TestServeTellsOfInterfacesThatWentMissing(t *testing.T) {
	dir := made(t)
	tell(t, "user", "ann", "--config", dir)
	tell(t, "slice", "first", "--owner", "ann", "--config", dir)
	file := filepath.Join(dir, "inventory.yaml")
	edit(t, file, "  - names: pc1..pc12\n", "  - names: pc1..pc12\n    interfaces: [{name: eth1, link: core}]\n")
	edit(t, file, "\ncomponents:\n", "\nlinks: [{name: core}]\ncomponents:\n")
	request := filepath.Join(t.TempDir(), "request.xml")
	if err := os.WriteFile(request, []byte(`<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">
		<node client_id="a"><interface client_id="a:0"/></node><node client_id="b"><interface client_id="b:0"/></node>
		<link client_id="l"><interface_ref client_id="a:0"/><interface_ref client_id="b:0"/></link></rspec>`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir)
	if code, out := tell(t, "call", "--url", s.url, "--user", filepath.Join(dir, "users", "ann"), "--slice", "first", "Allocate", request); code != 0 {
		t.Fatal(out)
	}
	s.stop()
	if strings.Contains(s.out.String(), "not in the inventory") {
		t.Error(s.out)
	}
	edit(t, file, "[{name: eth1, link: core}]", "[{name: eno1, link: core}]")
	again := serve(t, dir)
	has(t, again.out.String(), "pc1 eth1, pc2 eth1: the interface is not in the inventory", "(2 slivers of urn:publicid:IDN+testbed.example.org+slice+first, until 2")
	again.stop()
}

func TestServeRefusesASiteThatCannotServe(t *testing.T) {
	dir := made(t)
	for _, c := range []struct{ name, file, old, new, want string }{
		{"NoAnchor", "trusted/trial.pem", "CERTIFICATE", "NOTHING", "holds no trusted certificate"},
		{"NoProvider", "inventory.yaml", "provider: simulated", "provider: rack", `inventory.yaml:11: the provider "rack"`},
		{"NoKey", "patchbay.yaml", "key: server-rsa-key.pem", "key: nowhere.pem", "nowhere.pem"},
		{"NoSuchAddress", "patchbay.yaml", "127.0.0.1:0", "192.0.2.1:8443", "this host has no such address"},
		{"StoreIsNone", "patchbay.yaml", "# state: state.db", "state: inventory.yaml", "damaged or no store"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(dir, c.file)
			before := readFile(t, file)
			defer os.WriteFile(file, []byte(before), 0o644)
			edit(t, file, c.old, c.new)
			code, out := tell(t, "serve", "--config", dir)
			if code == 0 {
				t.Error("it served")
			}
			has(t, out, c.want)
		})
	}
}
