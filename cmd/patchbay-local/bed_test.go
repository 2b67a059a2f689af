package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/netlab"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/testbed"
)

// bedTime is the time limit for a testbed, or a node.
const bedTime = 30 * time.Second

// testSite is a testbed of one test: the real program with its own state folder. The test
// fails if anything is left on the host afterwards.
type testSite struct {
	instance, dir, state, settings string
	provider                       *provider.Provider
	key                            string // file of the private key of all users
	publicKey                      string // its line

	t    testing.TB
	in   *netlab.Lab // nil: this host
	up   *exec.Cmd
	logs *os.File
}

// newTestSite starts a testbed with this instance name. settings are top-level lines of
// NAME.yaml that replace the defaults.
func newTestSite(t testing.TB, instance string, settings ...string) *testSite {
	t.Helper()
	return newTestSiteIn(t, nil, instance, settings...)
}

// newTestSiteIn is newTestSite on the host of a lab; ssh then runs there, too.
func newTestSiteIn(t testing.TB, in *netlab.Lab, instance string, settings ...string) *testSite {
	t.Helper()
	b := prepareTestSite(t, instance, t.TempDir(), settings...)
	b.in = in
	before := b.hostState()
	t.Cleanup(func() { b.clean(before) })
	b.start()
	return b
}

// prepareTestSite creates the files of a testbed in a folder, or finds them there, but
// starts nothing.
func prepareTestSite(t testing.TB, instance, dir string, settings ...string) *testSite {
	t.Helper()
	require.Root(t)
	b := &testSite{
		instance: instance, dir: dir, state: filepath.Join(dir, "state"), settings: filepath.Join(dir, "local.yaml"),
		key: filepath.Join(dir, "id_ed25519"), t: t,
	}
	// t.TempDir makes folders that all users may enter, unlike those of a site.
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b.makeKey()
	site := local.Site{Instance: instance, PublicHost: "127.0.0.1", Component: "localhost", Listen: "127.0.0.1"}
	text := strings.Replace(string(local.SettingsFor(site)), "\nport_rest: 10m\n", "\nport_rest: 0s\n", 1)
	for _, line := range settings {
		key, _, _ := strings.Cut(line, ":")
		at := strings.Index(text, "\n"+key+":")
		if at < 0 {
			t.Fatalf("the settings have no key %s", key)
		}
		end := at + 1 + strings.IndexByte(text[at+1:], '\n')
		for strings.HasPrefix(text[end:], "\n-") || strings.HasPrefix(text[end:], "\n ") { // a list
			end += 1 + strings.IndexByte(text[end+1:], '\n')
		}
		text = text[:at+1] + line + text[end:]
	}
	for path, text := range map[string]string{b.settings: text, filepath.Join(dir, "local.prov"): string(local.Script(binary(), "local"))} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	found, problems := provider.Load(dir, nil)
	if b.provider = found["local"]; b.provider == nil || len(problems) > 0 {
		t.Fatalf("Load: %v, %q", found, problems)
	}
	b.provider.Log = slog.New(slog.DiscardHandler)
	var err error
	if b.logs, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *testSite) makeKey() {
	b.t.Helper()
	secret := privateKey("alice")
	signer, err := ssh.NewSignerFromKey(secret)
	if err != nil {
		b.t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(secret, "")
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.key, pem.EncodeToMemory(block), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.publicKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

func (b *testSite) hostState() hoststate.State {
	b.t.Helper()
	c, err := hoststate.Take(hoststate.Options{
		// Claims are found by the instance in their text; the folders stay.
		Only: []string{b.instance, b.dir}, Roots: []string{local.Folder, testbed.Root},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// start starts "up" and waits until it answers.
func (b *testSite) start() {
	b.t.Helper()
	b.up = exec.Command(binary(), "up", "--state", b.state, b.settings)
	b.up.Stdout, b.up.Stderr = b.logs, b.logs
	if err := b.in.Start(b.up); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func(c *exec.Cmd) {
		defer close(ended)
		_ = c.Wait()
	}(b.up)
	wait.Until(b.t, "an answer of up", func() bool {
		select {
		case <-ended:
			b.t.Fatal("up ended at once")
		default:
		}
		_, err := b.request(local.Request{Action: local.ActionList})
		return err == nil
	})
}

// stop ends "up" with a signal. Its nodes run on.
func (b *testSite) stop(s syscall.Signal) {
	b.t.Helper()
	_ = b.up.Process.Signal(s)
	wait.Until(b.t, "the end of up", func() bool { return b.up.Process.Signal(syscall.Signal(0)) != nil })
}

// restart ends "up" with a signal, starts it again, and waits until it reports all nodes.
func (b *testSite) restart(s syscall.Signal) {
	b.t.Helper()
	b.stop(s)
	b.start()
	unsettled := func(r provider.Result) bool { return stateOf(r.Resource) == provider.StateChanging }
	wait.Clear(b.t, func() string {
		all, err := b.provider.Get(b.t.Context(), nil)
		if err == nil && !slices.ContainsFunc(slices.Collect(maps.Values(all)), unsettled) {
			return ""
		}
		return fmt.Sprintf("nodes do not settle: %v, %v", all, err)
	})
}

// clean removes everything, and fails the test if anything is left.
func (b *testSite) clean(before hoststate.State) {
	b.stop(syscall.SIGTERM)
	c := exec.Command(binary(), "clean", "--state", b.state, b.settings)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := b.in.Run(c); err != nil {
		b.t.Errorf("clean: %v, %s", err, out.String())
	}
	if b.t.Failed() {
		text, _ := os.ReadFile(b.logs.Name())
		b.t.Logf("the end of the testbed's log:\n%s", text[max(0, len(text)-6000):])
	}
	b.logs.Close()
	hoststate.Await(b.t, before, 30*time.Second)
}

// request sends a request to the testbed's socket, as root.
func (b *testSite) request(r local.Request) (local.Answer, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), bedTime)
	defer cancel()
	return local.Call(ctx, local.Socket(b.instance), r)
}

// user returns an item of the attribute users: an account with the site's key.
func (b *testSite) user(login string) string {
	text, err := json.Marshal(map[string]any{
		"login": login, "urn": "urn:publicid:IDN+example.org+user+" + login, "keys": []string{b.publicKey},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// node creates a node that is on, with the account alice, and waits until it is ready.
// more has additional or different attributes.
func (b *testSite) node(t testing.TB, name string, more provider.Resource) provider.Resource {
	t.Helper()
	all := provider.Resource{"power": "on", "users": []string{b.user("alice")}, "slice_urn": "urn:publicid:IDN+example.org+slice+" + b.instance}
	for key, value := range more {
		all[key] = value
	}
	b.set(t, name, node("localhost", all))
	return b.await(t, name, provider.StateReady)
}

// set requests a state of a node, without waiting.
func (b *testSite) set(t testing.TB, name string, should provider.Resource) {
	t.Helper()
	mustSetNode(t, b.provider, name, should)
}

// await waits until a node is in the state.
func (b *testSite) await(t testing.TB, name, state string) provider.Resource {
	t.Helper()
	var r provider.Resource
	wait.Until(t, name+" is "+state, func() bool {
		r = getNode(t, b.provider, name)
		if stateOf(r) == provider.StateFailed && state != provider.StateFailed {
			t.Fatalf("%s is %s, want %s: %v", name, stateOf(r), state, r)
		}
		return stateOf(r) == state
	})
	return r
}

// remove removes a node and waits until it is gone.
func (b *testSite) remove(t testing.TB, name string) {
	t.Helper()
	b.set(t, name, provider.Resource{"ensure": "absent"})
	b.await(t, name, provider.Absent)
}

// sshArgs returns the options and the address of OpenSSH's client for a login at the
// node's own endpoint.
func (b *testSite) sshArgs(t testing.TB, name, login string) []string {
	t.Helper()
	endpoints := getNode(t, b.provider, name).List(provider.AttrLogin)
	if len(endpoints) == 0 {
		t.Fatalf("%s has no endpoint", name)
	}
	host, port, err := net.SplitHostPort(endpoints[0])
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"-F", "none", "-i", b.key, "-p", port, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=" + os.DevNull, "-o", "LogLevel=ERROR", login + "@" + host,
	}
}

// ssh runs a command in a node as alice, with OpenSSH's client, and returns its output;
// the error contains the status. args may begin with options.
func (b *testSite) ssh(t testing.TB, name string, args ...string) (string, error) {
	t.Helper()
	options := slices.IndexFunc(args, func(s string) bool { return !strings.HasPrefix(s, "-") })
	args = slices.Concat(args[:max(options, 0)], b.sshArgs(t, name, "alice"), args[max(options, 0):])
	c := exec.CommandContext(t.Context(), require.SSH(t), args...)
	var out, complaint bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaint
	err := b.in.Run(c)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, complaint.String())
	}
	return out.String(), err
}
