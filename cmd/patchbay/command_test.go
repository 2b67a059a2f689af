package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/credentials/cert"
)

// tell runs a command line in this process and gives its exit status and all
// that it said.
func tell(t testing.TB, args ...string) (int, string) {
	t.Helper()
	dir, err := programs() // init looks for patchbay-local
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(os.Getenv("PATH"), dir) {
		if err := os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	code := run(t.Context(), args, console{&out, &out})
	return code, out.String()
}

// made is a folder with a new site.
func made(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "site")
	if code, out := tell(t, "init", "--authority", "testbed.example.org", "--listen", "127.0.0.1:0", dir); code != 0 {
		t.Fatalf("init: %d\n%s", code, out)
	}
	return dir
}

func has(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}

func edit(t testing.TB, file, old, new string) {
	t.Helper()
	text := readFile(t, file)
	if !strings.Contains(text, old) {
		t.Fatalf("%s does not hold %q", file, old)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(text, old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCommandLineMistakesSayWhatToDo(t *testing.T) {
	tell(t, "version") // builds our programs, before we leave the module
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		name, args string
		code       int
		want       string
	}{
		{"UnknownCommand", "srve", 2, `there is no command "srve"; did you mean "serve"?`},
		{"UnknownFlag", "serve --colour", 2, "see: patchbay serve --help"},
		{"SuperfluousArgument", "serve now", 2, `it takes no argument, not "now"`},
		{"InitWithoutFolder", "init", 2, "it takes one argument, the folder to make"},
		{"InitWithLoopbackAuthority", "init --authority localhost d", 2, "testbed.example.org"},
		{"InitWithBadAuthority", "init --authority a+b d", 2, "cannot name a site"},
		{"InitWithBadURL", "init --authority a --public-url http://a d", 2, "https://HOST:PORT"},
		{"InitLocalComesLater", "init --provider local d", 2, "comes with a later release"},
		{"InitUnknownProvider", "init --provider none d", 2, "neither simulated nor local"},
		{"ServeWithoutSite", "serve", 2, "patchbay init DIR"},
		{"ServeWithBadAddress", "serve --listen nowhere", 2, "HOST:PORT"},
		{"SliceWithoutOwner", "slice s1", 2, "--owner USER is missing"},
		{"SliceWithBadTime", "slice s1 --owner ann --expires soon", 2, "30d"},
		{"CallWithoutMethod", "call", 2, "patchbay call GetVersion"},
		{"CallNobody", "call GetVersion", 1, "--url https://HOST:PORT/am/3.0"},
		{"CallUnknownUser", "call --url https://127.0.0.1:1 --user nobody GetVersion", 1, "nobody: no such file"},
		{"CallNoServer", "call --url https://127.0.0.1:1 GetVersion", 1, "nothing listens at 127.0.0.1:1"},
		{"CheckWithoutSite", "check", 1, "patchbay init DIR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out := tell(t, strings.Fields(c.args)...)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			has(t, out, c.want)
		})
	}
	if left, _ := os.ReadDir("."); len(left) > 0 {
		t.Errorf("something was written: %v", left)
	}
}

func TestInitMakesASiteThatChecksOut(t *testing.T) {
	dir := made(t)
	for name, mode := range map[string]fs.FileMode{
		"authority": 0o700 | fs.ModeDir, "authority/authority.key": 0o600, "server-rsa-key.pem": 0o600,
		"server-ecdsa-key.pem": 0o600, "patchbay.yaml": 0o644, "inventory.yaml": 0o644,
		"trusted/trial.pem": 0o644, "providers/simulated.prov": 0o755, "providers/simulated.yaml": 0o644,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if info.Mode() != mode {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), mode)
		}
	}
	for _, kind := range []string{"ecdsa", "rsa"} {
		block, _ := pem.Decode([]byte(readFile(t, filepath.Join(dir, "server-"+kind+".pem"))))
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
			if err := c.VerifyHostname(host); err != nil {
				t.Errorf("%s certificate: %v", kind, err)
			}
		}
		if got := c.PublicKeyAlgorithm.String(); !strings.EqualFold(got, kind) {
			t.Errorf("the %s certificate has a key of %s", kind, got)
		}
	}
	code, out := tell(t, "check", "--config", dir)
	if code != 0 || strings.Contains(out, "error") {
		t.Errorf("check: %d\n%s", code, out)
	}
	has(t, out, "24 components (20 exclusive)", "covers testbed.example.org and below", "provider simulated of type node", "RSA certificate", "ECDSA certificate")
}

func TestInitLeavesOtherFoldersAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out := tell(t, "init", "--authority", "a.example.org", dir)
	if entries, _ := os.ReadDir(dir); code != 1 || len(entries) != 1 {
		t.Errorf("exit status %d, left %v", code, entries)
	}
	has(t, out, "is not empty and was left as it is")

	site := made(t)
	before := readFile(t, filepath.Join(site, "authority", "authority.pem"))
	code, out = tell(t, "init", "--authority", "b.example.org", site)
	if code != 1 || readFile(t, filepath.Join(site, "authority", "authority.pem")) != before {
		t.Error("a site was overwritten")
	}
	has(t, out, "holds a site already")

	if code, out := tell(t, "init", "--authority", "a.example.org", t.TempDir()); code != 0 {
		t.Errorf("an empty folder was refused: %s", out)
	}
}

func TestUserIsMadeOnceAndRenewedOnDemand(t *testing.T) {
	dir := made(t)
	code, out := tell(t, "user", "ann", "--config", filepath.Join(dir, "patchbay.yaml"))
	if code != 0 {
		t.Fatal(out)
	}
	has(t, out, "was made", "--usercredfile", "listresources", "-V 3", "patchbay call --url")
	home := filepath.Join(dir, "users", "ann")
	for name, mode := range map[string]fs.FileMode{
		"ann-cert.pem": 0o644, "ann-key.pem": 0o600, "ann-usercred.xml": 0o600, "id_ed25519": 0o600, "id_ed25519.pub": 0o644, "omni_config": 0o644,
	} {
		info, err := os.Stat(filepath.Join(home, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	has(t, readFile(t, filepath.Join(home, "omni_config")),
		"[omni]", "default_cf = trial-authority", "users = user-ann", "type = gcf", "authority = testbed.example.org", "ch = https://",
		"cert = "+home+"/ann-cert.pem", "key = "+home+"/ann-key.pem", "urn = urn:publicid:IDN+testbed.example.org+user+ann", "keys = "+home+"/id_ed25519.pub")

	state := func() map[string]string {
		m := make(map[string]string)
		for _, name := range []string{"ann-cert.pem", "ann-key.pem", "ann-usercred.xml", "id_ed25519"} {
			m[name] = readFile(t, filepath.Join(home, name))
		}
		return m
	}
	before := state()
	if code, out = tell(t, "user", "ann", "--config", dir); code != 0 {
		t.Fatal(out)
	}
	has(t, out, "exists already")
	for name, text := range state() {
		if text != before[name] {
			t.Errorf("%s has changed without --renew", name)
		}
	}
	if code, out = tell(t, "user", "ann", "--renew", "--config", dir); code != 0 {
		t.Fatal(out)
	}
	has(t, out, "has a fresh credential")
	for name, text := range state() {
		if same := text == before[name]; same == (name == "ann-usercred.xml") {
			t.Errorf("%s: same after --renew: %v", name, same)
		}
	}
	if code, out := tell(t, "user", "far_too_long", "--config", dir); code == 0 {
		t.Errorf("a name that is too long was taken: %s", out)
	}
}

func TestSliceBelongsToAUser(t *testing.T) {
	dir := made(t)
	code, out := tell(t, "slice", "first", "--owner", "ann", "--config", dir)
	if code != 1 {
		t.Errorf("a slice of nobody: exit status %d", code)
	}
	has(t, out, "there is no user ann here", "patchbay user ann")
	tell(t, "user", "ann", "--config", dir)
	if code, out = tell(t, "slice", "first", "--owner", "ann", "--expires", "2d", "--config", dir); code != 0 {
		t.Fatal(out)
	}
	file := filepath.Join(dir, "users", "ann", "slices", "first-cred.xml")
	has(t, out, file, "--slicecredfile", "allocate first request.xml", "patchbay call")
	c, err := readCredential([]byte(readFile(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	if c.owner != "urn:publicid:IDN+testbed.example.org+user+ann" || c.target != "urn:publicid:IDN+testbed.example.org+slice+first" {
		t.Errorf("the credential is of %s over %s", c.owner, c.target)
	}
	if left := time.Until(c.expires); left > 48*time.Hour || left < 47*time.Hour {
		t.Errorf("the credential lasts %s, not 2 days", left)
	}
	code, out = tell(t, "check", "--config", dir, file)
	if code != 0 {
		t.Error(out)
	}
	has(t, out, "rights over urn:publicid:IDN+testbed.example.org+slice+first")
}

func TestCheckExplains(t *testing.T) {
	dir := made(t)
	for _, c := range []struct {
		name           string
		file, old, new string
		code           int
		want           string
	}{
		{"UnknownKey", "patchbay.yaml", "listen:", "lisen:", 1, "did you mean listen?"},
		{"InventoryMistake", "inventory.yaml", "sliver_types: [raw-pc]", "sliver_typs: [raw-pc]", 1, "inventory.yaml:"},
		{"ProviderMissing", "inventory.yaml", "provider: simulated", "provider: rack", 1, `the inventory names a provider "rack"`},
		{"BrokenAnchor", "trusted/trial.pem", "MII", "mii", 1, "trusted/trial.pem"},
		{"KeyOfAnother", "patchbay.yaml", "key: server-rsa-key.pem", "key: server-ecdsa-key.pem", 1, "server-rsa.pem"},
		{"LoopbackURL", "patchbay.yaml", "# public_url: https://testbed.example.org:8443", "public_url: https://localhost:8443", 0, "clients elsewhere cannot reach"},
		{"ForeignHostInURL", "patchbay.yaml", "# public_url: https://testbed.example.org:8443", "public_url: https://am.example.net:8443", 0, "it is not for am.example.net"},
		{"MissingKey", "patchbay.yaml", "server-rsa-key.pem", "nowhere.pem", 1, "nowhere.pem"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(dir, c.file)
			before := readFile(t, file)
			defer os.WriteFile(file, []byte(before), 0o644)
			edit(t, file, c.old, c.new)
			code, out := tell(t, "check", "--config", dir)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			has(t, out, c.want)
		})
	}
	t.Run("KeyForEverybody", func(t *testing.T) {
		file := filepath.Join(dir, "server-rsa-key.pem")
		os.Chmod(file, 0o644)
		defer os.Chmod(file, 0o600)
		code, out := tell(t, "check", "--config", dir)
		if code != 1 {
			t.Errorf("exit status %d", code)
		}
		has(t, out, "chmod 0600")
	})
	t.Run("EmptyTrust", func(t *testing.T) {
		file := filepath.Join(dir, "trusted", "trial.pem")
		before := readFile(t, file)
		os.Remove(file)
		defer os.WriteFile(file, []byte(before), 0o644)
		code, out := tell(t, "check", "--config", dir)
		if code != 1 {
			t.Errorf("exit status %d", code)
		}
		has(t, out, "nobody may call")
	})
}

func TestCheckReadsRequestsAsTheSiteWould(t *testing.T) {
	dir := made(t)
	request := func(body string) string {
		return `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3">` + "\n" + body + "\n</rspec>"
	}
	for _, c := range []struct {
		name, text string
		code       int
		want       string
	}{
		{"Good", demoRequest, 0, "2 nodes and 1 link for this site"},
		{"NotWellFormed", request("<node>"), 1, "request.xml:3: "},
		{"UnknownSliverType", request(`<node client_id="a"><sliver_type name="mainframe"/></node>`), 1, "mainframe"},
		{"SomebodyElses", request(`<node client_id="a" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm"/>`), 1, "urn:publicid:IDN+testbed.example.org+authority+cm"},
		{"TwiceTheSameName", request("<node client_id=\"a\"/>\n<node client_id=\"a\"/>"), 1, "request.xml:3: "},
		{"OldVersion", `<rspec type="request" xmlns="http://www.protogeni.net/resources/rspec/2"/>`, 1, "GENI version 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "request.xml")
			if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			code, out := tell(t, "check", "--config", dir, file)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			has(t, out, c.want)
		})
	}
}

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

func serve(t *testing.T, dir string, args ...string) *serving {
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
	within(t, 20*time.Second, "the announcement", func() bool {
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

func get(t *testing.T, url string) (int, string) {
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
	has(t, out, "SLIVER", "allocated", "pending_allocation")
	if strings.Contains(out, "<rspec") {
		t.Error("the manifest was printed although -o was given")
	}
	has(t, readFile(t, manifest), `type="manifest"`, `client_id="server"`)
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
		t.Error("version 2 answers")
	}
	has(t, out, "fault")

	_, metrics := get(t, s.admin+"/metrics")
	has(t, metrics, `patchbay_calls_total{code="0",method="Allocate"} 1`, `patchbay_calls_total{code="12",method="Status"} 1`,
		"patchbay_trust_anchors 1", "patchbay_slivers 0", "patchbay_tls_connections")

	t.Run("TrustFolderCountsAtOnce", func(t *testing.T) {
		file := filepath.Join(dir, "trusted", "trial.pem")
		pem := readFile(t, file)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		within(t, 5*time.Second, "nobody is trusted", func() bool {
			code, out := call("ListResources")
			return code == 1 && strings.Contains(out, "FORBIDDEN (3)")
		})
		if code, body := get(t, s.admin+"/readyz"); code != 503 || !strings.Contains(body, "trust folder") {
			t.Errorf("readyz: %d %s", code, body)
		}
		if err := os.WriteFile(file, []byte(pem), 0o644); err != nil {
			t.Fatal(err)
		}
		within(t, 5*time.Second, "trusted again", func() bool { code, _ := call("ListResources"); return code == 0 })
	})
	t.Run("HangupReadsCertificates", func(t *testing.T) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		within(t, 5*time.Second, "reload", func() bool { return strings.Contains(s.out.String(), "certificates were read again") })
		key := filepath.Join(dir, "server-rsa-key.pem")
		os.Chmod(key, 0o644)
		defer os.Chmod(key, 0o600)
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		within(t, 5*time.Second, "refused reload", func() bool { return strings.Contains(s.out.String(), "the old ones stay") })
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

func TestServeRefusesASiteThatCannotServe(t *testing.T) {
	dir := made(t)
	for _, c := range []struct{ name, file, old, new, want string }{
		{"NoAnchor", "trusted/trial.pem", "CERTIFICATE", "NOTHING", "holds no trusted certificate"},
		{"NoProvider", "inventory.yaml", "provider: simulated", "provider: rack", `a provider "rack"`},
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

func TestDemoShowsAnExperiment(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	code, out := tell(t, "demo", "--keep", dir)
	if code != 0 {
		t.Fatal(out)
	}
	has(t, out, "24 nodes, 24 of them free", "Allocate request.xml", "provisioned", "ready, ready", "ssh -i", "SEARCHFAILED (12)", "24 nodes are free, as before", "patchbay serve --config")
	for i := range 11 {
		has(t, out, fmt.Sprintf("\n%2d. ", i+1))
	}
	if code, out := tell(t, "check", "--config", dir); code != 0 {
		t.Errorf("the kept site: %s", out)
	}
	if _, _, err := cert.LoadAnchors(filepath.Join(dir, "trusted")); err != nil {
		t.Error(err)
	}
}
