package testbed

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
)

func TestHostileClients(t *testing.T) {
	h, tb := runFakeHost(t)
	waitForSocket(t, tb.o.Socket)
	if st, err := os.Stat(tb.o.Socket); err != nil || st.Mode().Perm() != 0o660 || int(st.Sys().(*syscall.Stat_t).Uid) != h.owner {
		t.Errorf("the socket is %v, %v", st, err)
	}
	frame := func(text string) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	}
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	for rule, b := range map[string][]byte{
		"nothing": nil, "half a length": {0, 0}, "too long": {0xff, 0xff, 0xff, 0xff}, "half a message": frame("{}")[:5],
		"no JSON": frame("x"), "another type": frame(`{"action":1}`), "no object": frame("[]"), "deep": frame(`{"action":"get","input":` + deep + `}`),
	} {
		c, err := net.Dial("unix", tb.o.Socket)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(b)
		_ = c.(*net.UnixConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", rule, err)
		}
		c.Close()
	}
	many := make([]string, maxNames+1)
	for _, tt := range []struct{ rule, action, input, want string }{
		{"no action", "", "null", "unknown action"},
		{"an unknown action", "shell", "null", "unknown action \"shell\""},
		{"input that is missing", "get", "", "cannot decode the input of get"},
		{"names that are none", "get", `{"names":[1]}`, "cannot decode the input of get"},
		{"too many names", "get", toJSON(object{"names": many}), "the input of get has 1001 names, at most 1000 are allowed"},
		{"too many updates", "set", toJSON(object{"updates": make([]update, maxNames+1)}), "the input of set has 1001 updates, at most 1000 are allowed"},
		{"updates that are none", "set", `{"updates":{}}`, "cannot decode the input of set"},
		{"endpoints without a provider", "endpoints", `{}`, `"" cannot be the name of a provider`},
		{"endpoints that are no list", "endpoints", `{"set":1}`, "cannot decode the input of endpoints"},
	} {
		a, err := local.Call(t.Context(), tb.o.Socket, local.Request{Action: tt.action, Input: json.RawMessage(tt.input)})
		if err != nil || !strings.Contains(a.Error, tt.want) {
			t.Errorf("%s: %q, %v", tt.rule, a.Error, err)
		}
	}
	// The testbed still works.
	setUntilReady(t, tb, nodeName(1), newNode("web", sliceURN))
	for _, action := range []string{local.ActionAgent, local.ActionNetwork} {
		if a := tb.handle(local.Request{Action: action, Name: nodeName(1)}, false); a.Error != "only root may connect to nodes" || a.Files != nil {
			t.Errorf("%s: the manager enters: %+v", action, a)
		}
	}
}

// TestOtherSitesAreRefused checks that only the provider beside the testbed's settings gets and
// sets nodes, by any path to that file, also after its site has moved.
func TestOtherSitesAreRefused(t *testing.T) {
	_, tb := runFakeHost(t)
	dir := t.TempDir()
	own, other, link := filepath.Join(dir, "own.yaml"), filepath.Join(dir, "other.yaml"), filepath.Join(dir, "link.yaml")
	for _, path := range []string{own, other} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	tb.o.SettingsFile = local.SettingsPath(own)
	check := func(path, want string) {
		t.Helper()
		for action, input := range map[string]string{local.ActionGet: `{"names":["none"]}`, local.ActionSet: `{"updates":[]}`} {
			a := tb.handle(local.Request{Action: action, Input: json.RawMessage(input), Settings: path}, true)
			if want == "" && a.Error != "" || !strings.Contains(a.Error, want) {
				t.Errorf("%s for %s: %s", action, path, a.Error)
			}
		}
	}
	check("", "") // an earlier version of the provider
	check(own, "")
	check(link, "")
	check(other, "another site, with the settings "+tb.o.SettingsFile+", acts on the nodes")
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	check(other, "")
}

func waitForSocket(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal("no process listens at the socket")
		}
	}
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestOtherUsersAreRefused calls as a user without permission.
func TestOtherUsersAreRefused(t *testing.T) {
	if path := os.Getenv("TESTBED_TEST_SOCKET"); path != "" {
		a, err := local.Call(t.Context(), path, local.Request{Action: local.ActionList})
		if err != nil || a.Error == "" || a.Output != nil {
			t.Fatalf("%+v, %v", a, err)
		}
		return
	}
	require.Root(t)
	_, tb := runFakeHost(t)
	waitForSocket(t, tb.o.Socket)
	// The same if the permissions of file and folder allow the connection.
	if err := os.Chmod(tb.o.Socket, 0o666); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "testbed-user")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tb.o.Socket, dir+"/x.sock"); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(dir+"/program", program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(dir+"/program", "-test.run", "^TestOtherUsersAreSentAway$")
	c.Env, c.Dir = append(os.Environ(), "TESTBED_TEST_SOCKET="+dir+"/x.sock"), dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// The owner of the settings is not root, and sends nothing.
func TestSilentClientsDoNotBlockRoot(t *testing.T) {
	require.Root(t)
	h := newFakeHost(t)
	h.owner = 12345
	tb, stop := h.run(-1)
	defer stop()
	waitForSocket(t, tb.o.Socket)
	for _, path := range []string{filepath.Dir(h.dir), h.dir, tb.o.Socket} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	const silent = maxClients + 3
	err := runAsUser(h.owner, func() error {
		for range silent {
			c, err := net.Dial("unix", tb.o.Socket)
			if err != nil {
				return err
			}
			t.Cleanup(func() { c.Close() })
			if _, err := c.Write([]byte{0}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), requestTime/3)
	defer cancel()
	if a, err := local.Call(ctx, tb.o.Socket, local.Request{Action: local.ActionList}); err != nil || a.Error != "" {
		t.Errorf("root gets %q, %v", a.Error, err)
	}
}

// runAsUser runs f with the user id uid.
func runAsUser(uid int, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if _, _, no := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); no != 0 {
			done <- no
			return
		}
		done <- f()
	}()
	return <-done
}

func TestFindNode(t *testing.T) {
	_, tb := runFakeHost(t)
	for i, hostname := range []string{"web.exp.example.org", "db", "db"} {
		r := newNode(hostname, sliceURN)
		r[provider.AttrClientID] = []string{"first", "0000", "third"}[i]
		set(t, tb, nodeName(i), r)
	}
	for _, tt := range []struct{ name, want string }{
		{nodeName(1), nodeName(1)}, {"00000002", nodeName(2)}, {"web", nodeName(0)}, {"web.exp", nodeName(0)}, {"third", nodeName(2)},
		{"0000", nodeName(1)}, {"we", "there is no node"},
		{"db", "2 nodes match db, such as db and db"}, {"0", "3 nodes match 0"}, {"", "there is no node"}, {"none", "there is no node none"},
	} {
		nc, err := tb.findNode(tt.name)
		if err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && nc.id != tt.want {
			t.Errorf("%q: %v, %v; want %s", tt.name, nc, err, tt.want)
		}
	}
}

// FuzzAnswers sends any input to the socket.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		`{"updates":[{"name":"a","should":{"ensure":"present","component":"host1","users":["{\"login\":\"a\",\"keys\":[\"k\"]}"]}}]}`,
		`{"names":["a","../b"]}`, `{"updates":[{"name":"../../usr","should":{"ensure":"absent"}}]}`, `{"set":[{"name":"x","address":"10.0.0.1:22"}]}`, `[]`, ``,
	} {
		f.Add("set", s)
		f.Add("get", s)
		f.Add("endpoints", s)
	}
	f.Fuzz(func(t *testing.T, action, input string) {
		h := newFakeHost(t)
		tb := h.open(-1)
		defer tb.close()
		tb.gateway = &doubleGateway{m: h.last, closers: map[string][]net.Listener{}}
		if err := tb.loadExistingState(); err != nil {
			t.Fatal(err)
		}
		tb.stop() // new controllers stop at once
		a := tb.handle(local.Request{Action: action, Input: json.RawMessage(input)}, false)
		if a.Error == "" && !json.Valid(a.Output) || a.Files != nil {
			t.Errorf("%+v", a)
		}
		tb.work.Wait()
		entries, err := os.ReadDir(h.dir)
		if err != nil || len(entries) > 4 {
			t.Errorf("files %v, %v", entries, err)
		}
	})
}
