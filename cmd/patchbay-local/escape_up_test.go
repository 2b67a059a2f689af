package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/inventory/local"
	"patchbay/inventory/local/fdsocket"
	"patchbay/inventory/provider"
)

// Users of the host that call the socket: the owner of the settings, as the manager is,
// and another user.
const (
	managerUser  = 65531
	strangerUser = 65532
)

// askAs sends requests to the testbed as a user of the host, from its own process.
func (b *testSite) askAs(t *testing.T, uid uint32, requests []local.Request) []string {
	t.Helper()
	input, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "/proc/self/exe")
	c.Dir = "/"
	c.Env = []string{escapeVariable + "=ask", escapeFacts + `={"Canary":"` + local.Socket(b.instance) + `"}`}
	c.Stdin = bytes.NewReader(input)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid}} // the group of root may connect
	out, err := c.CombinedOutput()
	var answers []string
	if err != nil || json.Unmarshal(out, &answers) != nil || len(answers) != len(requests) {
		t.Fatalf("asking as user %d: %v, %.500s", uid, err, out)
	}
	return answers
}

// askAll sends the requests on its input, and prints the answers.
func askAll() string {
	var requests []local.Request
	if err := json.NewDecoder(os.Stdin).Decode(&requests); err != nil {
		return err.Error()
	}
	answers := make([]string, len(requests))
	for i, r := range requests {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		a, err := local.Call(ctx, told.Canary, r)
		cancel()
		switch {
		case err != nil:
			answers[i] = err.Error()
		case a.Error != "":
			answers[i] = a.Error
		default:
			answers[i] = string(a.Output)
		}
	}
	text, _ := json.Marshal(answers)
	return string(text)
}

// setOf returns a set of one node, as the manager sends it, with some hostile attributes.
func setOf(name string, more map[string]any) local.Request {
	should := map[string]any{"ensure": "present", "component": "localhost", "power": "off"}
	for key, value := range more {
		should[key] = value
	}
	input, err := json.Marshal(map[string]any{"updates": []any{map[string]any{"name": name, "should": should}}})
	if err != nil {
		panic(err)
	}
	return local.Request{Action: local.ActionSet, Input: input}
}

func account(login string, keys ...string) map[string]any {
	item, err := json.Marshal(map[string]any{"login": login, "keys": keys})
	if err != nil {
		panic(err)
	}
	return map[string]any{"users": []string{string(item)}}
}

// refusal returns whether a request was refused, with the message.
func refusal(answer string) string {
	var a struct {
		Changes []struct {
			Error *struct{ Message string }
		}
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil {
		if answer == "" {
			return "no word"
		}
		return "refused" // as a whole
	}
	if len(a.Changes) == 1 && a.Changes[0].Error != nil && a.Changes[0].Error.Message != "" {
		return "refused"
	}
	return "accepted"
}

// TestHostileCallers attacks "up" as the manager's user, as other users, and
// as a node with a hostile PID 1.
func TestHostileCallers(t *testing.T) {
	a := newArena(t, "escape-up")
	if err := os.Chown(a.settings, managerUser, 0); err != nil {
		t.Fatal(err)
	}
	a.restart(syscall.SIGTERM)
	var tt table
	a.hostileAsks(t, &tt)
	a.hostilePeers(t, &tt)
	a.hostileAgent(t, &tt)
	text, err := os.ReadFile(a.logs.Name())
	if err != nil {
		t.Fatal(err)
	}
	got := "clean"
	if i := bytes.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r == '\u202e' || r == 0x7f }); i >= 0 {
		got = fmt.Sprintf("%q", text[max(0, i-80):min(len(text), i+20)])
	}
	tt.row(t, "the operator's eyes", "the log", "clean", got)
	tt.print(t)
}

func (a *arena) hostileAsks(t *testing.T, tt *table) {
	t.Helper()
	const name = "00000000-0000-4000-8000-0000000005e7"
	type ask struct {
		how, must string
		request   local.Request
	}
	asks := []ask{}
	add := func(how string, r local.Request) { asks = append(asks, ask{how, "refused", r}) }
	for _, bad := range []string{"", ".", "..", "../../etc", "a/b", "/etc", "-x", "A", "ünï", "a\x00b", "a\nb", "a b", strings.Repeat("a", 65), "a\x1b[2J"} {
		add(fmt.Sprintf("name %.20q", bad), setOf(bad, nil))
	}
	for _, bad := range []string{"../x", "/etc", "host/../..", ".", "a\x00b", strings.Repeat("x", 5000)} {
		add(fmt.Sprintf("image %.20q", bad), setOf(name, map[string]any{"image": bad}))
	}
	for _, bad := range []string{"a\n127.0.0.1 b", "a;reboot", "$(id)", "a b", "-x", "..", "a..b", "\x1b]0;x\a", "ü", strings.Repeat("a", 65), "a\x00"} {
		add(fmt.Sprintf("hostname %.20q", bad), setOf(name, map[string]any{"hostname": bad}))
	}
	for _, bad := range []string{"", "-x", "a:b", "a\nb", "a/b", "..", "a.b", "A", "ü", "0a", "a b", strings.Repeat("a", 33), "a\x00"} {
		add(fmt.Sprintf("login %.20q", bad), setOf(name, account(bad, a.publicKey)))
	}
	for _, bad := range []string{a.publicKey + "\nssh-rsa AAAA", "a\rb", "a\x00b", "a\x1b[2J", strings.Repeat("k", 20<<10)} {
		add(fmt.Sprintf("key %.24q", bad[max(0, len(bad)-16):]), setOf(name, account("alice", bad)))
	}
	for _, attribute := range []string{"client_id", "slice_urn", "sliver_urn", "restart_serial"} {
		for _, bad := range []string{"a\nb", "a\x1b[2J", "a\x00", strings.Repeat("u", 2000)} {
			add(fmt.Sprintf("%s %.12q", attribute, bad), setOf(name, map[string]any{attribute: bad}))
		}
	}
	add("component", setOf(name, map[string]any{"component": "../.."}))
	add("sliver_type", setOf(name, map[string]any{"sliver_type": "../.."}))
	add("power", setOf(name, map[string]any{"power": "\x1b"}))
	add("ensure", setOf(name, map[string]any{"ensure": "gone"}))
	add("numbers for texts", setOf(name, map[string]any{"hostname": 7}))
	add("an account that is no object", setOf(name, map[string]any{"users": []string{"[]"}}))
	add("1001 accounts", setOf(name, map[string]any{"users": slices.Repeat([]string{"{}"}, 1001)}))
	deep := strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)
	add("an account of deep JSON", setOf(name, map[string]any{"users": []string{deep}}))
	add("deep JSON", local.Request{Action: local.ActionSet, Input: json.RawMessage(`{"updates":` + deep[200_000-5000:200_000+5000] + `}`)})
	add("100,000 updates", local.Request{Action: local.ActionSet, Input: json.RawMessage(`{"updates":[` + strings.Repeat(`{"name":"a"},`, 99_999) + `{"name":"a"}]}`)})
	add("100,000 names", local.Request{Action: local.ActionGet, Input: json.RawMessage(`{"names":[` + strings.Repeat(`"a",`, 99_999) + `"a"]}`)})
	add("an action that is none", local.Request{Action: "../list"})
	add("the agent of a node, which is root's", local.Request{Action: local.ActionAgent, Name: nodeB})
	add("a request of 17 MB", local.Request{Action: local.ActionSet, Input: json.RawMessage(`"` + strings.Repeat("x", 17<<20) + `"`)})
	// These affect only the experimenter.
	asks = append(asks, ask{"a key with options, for its own account", "accepted", setOf(name, account("alice", `command="x",no-pty `+a.publicKey))},
		ask{"a client_id that turns the line round", "accepted", setOf(nodeB, map[string]any{"power": "on", "client_id": "\u202eevil\u2028"})})

	requests := make([]local.Request, len(asks))
	for i, k := range asks {
		requests[i] = k.request
	}
	answers := a.askAs(t, managerUser, requests)
	for i, k := range asks {
		tt.row(t, "the manager's user asks", k.how, k.must, refusal(answers[i]))
	}
	a.await(t, name, provider.StateReady)
	a.await(t, nodeB, provider.StateReady)
	got := "refused"
	if text := a.askAs(t, strangerUser, []local.Request{{Action: local.ActionList}})[0]; !strings.Contains(text, "may not use") {
		got = text
	}
	tt.row(t, "a stranger asks", "list", "refused", got)
	var names []string
	for _, n := range a.list(t).Nodes {
		names = append(names, n.Name[len(n.Name)-4:])
	}
	tt.row(t, "the manager's user asks", "what there is then", "05e7 e5ca e5cb", strings.Join(names, " "))
	out, err := exec.Command(binary(), "list", a.settings).CombinedOutput()
	got = "clean" + errorText(err)
	if bytes.ContainsFunc(out, func(r rune) bool { return r < ' ' && r != '\n' || r == '\u202e' || r == '\u2028' }) {
		got = fmt.Sprintf("%q", out)
	}
	tt.row(t, "the operator's eyes", "patchbay-local list", "clean", got)
	a.remove(t, name)
}

// hostilePeers connects without sending a request.
func (a *arena) hostilePeers(t *testing.T, tt *table) {
	t.Helper()
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for range 1000 { // the kernel refuses more than the queue holds
		c, err := net.DialTimeout("unix", local.Socket(a.instance), 5*time.Millisecond)
		if err != nil {
			break
		}
		open = append(open, c)
		_, _ = c.Write([]byte{0, 0, 0, 9, '{'}) // and no more
	}
	n := len(open)
	for _, c := range open {
		c.Close()
	}
	_, err := a.request(local.Request{Action: local.ActionList})
	tt.row(t, "at the socket", "up to 1000 that are slow, then an honest one", "answered", strings.TrimSuffix("answered "+errorText(err), " "))
	t.Logf("%d connections were made at once", n)
}

// hostileAnswers are the answers of a hostile PID 1 to its callers.
func hostileAnswers(dir string) map[string]func(c *fdsocket.Conn, raw net.Conn) {
	hello := map[string]any{"Node": nodeA, "Facts": map[string]any{}, "Exit": map[string]any{}}
	files := func(open ...func() (*os.File, error)) func(*fdsocket.Conn, net.Conn) {
		return func(c *fdsocket.Conn, _ net.Conn) {
			var all []*os.File
			for _, f := range open {
				if file, err := f(); err == nil {
					defer file.Close()
					all = append(all, file)
				}
			}
			_ = c.Send(hello, all...)
		}
	}
	at := func(path string) func() (*os.File, error) {
		return func() (*os.File, error) { return os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0) }
	}
	folder := func() (*os.File, error) { return os.Open(dir) }
	listening := func() (*os.File, error) {
		l, err := net.Listen("unix", "")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		return l.(*net.UnixListener).File()
	}
	return map[string]func(*fdsocket.Conn, net.Conn){
		"nothing":        func(_ *fdsocket.Conn, raw net.Conn) { _, _ = io.Copy(io.Discard, raw) },
		"the end":        func(*fdsocket.Conn, net.Conn) {},
		"half an answer": func(_ *fdsocket.Conn, raw net.Conn) { _, _ = raw.Write([]byte{0, 0, 0, 50, '{', '"'}) },
		"half a length and no end": func(_ *fdsocket.Conn, raw net.Conn) {
			_, _ = raw.Write([]byte{0, 0})
			_, _ = io.Copy(io.Discard, raw)
		},
		"4 GB": func(_ *fdsocket.Conn, raw net.Conn) { _, _ = raw.Write(bytes.Repeat([]byte{0xff}, 1<<16)) },
		"deep JSON": func(_ *fdsocket.Conn, raw net.Conn) {
			_, _ = raw.Write(append([]byte{0, 0, 0x80, 0}, bytes.Repeat([]byte("["), 0x8000)...))
		},
		"ANSI words": func(c *fdsocket.Conn, _ net.Conn) {
			_ = c.Send(map[string]any{"Error": "\x1b]0;x\a\n\u202e" + strings.Repeat("x", 30_000)})
		},
		"a flood of answers": func(c *fdsocket.Conn, _ net.Conn) {
			for c.Send(hello) == nil {
			}
		},
		"a folder as a file":       files(folder),
		"/dev/zero as a file":      files(at("/dev/zero")),
		"a pipe as a file":         files(func() (*os.File, error) { r, w, err := os.Pipe(); w.Close(); return r, err }),
		"a listening socket":       files(listening),
		"64 files":                 files(slices.Repeat([]func() (*os.File, error){folder}, 64)...),
		"somebody else's identity": func(c *fdsocket.Conn, _ net.Conn) { _ = c.Send(map[string]any{"Node": nodeB}) },
	}
}

// hostileAgent replaces a node's agent by hostile doubles; the other node and the testbed
// must be unaffected.
func (a *arena) hostileAgent(t *testing.T, tt *table) {
	t.Helper()
	path := filepath.Join(a.testSite.state, "nodes", nodeA, "agent.sock")
	if err := os.Rename(path, path+".true"); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var answer func(*fdsocket.Conn, net.Conn)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			do := answer
			asked++
			mu.Unlock()
			go func() {
				defer c.Close()
				do(fdsocket.New(c.(*net.UnixConn)), c)
			}()
		}
	}()
	var times []time.Duration
	ssh := require.SSH(t)
	answers := hostileAnswers(a.dir)
	args := a.sshArgs(t, nodeA, "alice")
	for i, how := range sortedKeys(answers) {
		mu.Lock()
		answer = answers[how]
		mu.Unlock()
		// The testbed, the gateway and root talk to the double.
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		a.set(t, nodeA, provider.Resource{"users": []string{a.user("alice"), a.user(fmt.Sprint("guest", i))}})
		for _, c := range []*exec.Cmd{
			exec.CommandContext(ctx, ssh, append(slices.Clone(args), "true")...),
			exec.CommandContext(ctx, ssh, append(slices.Clone(args), "-N", "-W", "127.0.0.1:1")...),
			exec.CommandContext(ctx, binary(), "enter", a.settings, nodeA, "true"),
		} {
			wait.Go(func() { _ = c.Run() })
		}
		got := "answered"
		for range 10 {
			began := time.Now()
			if r := getNode(t, a.provider, nodeB); stateOf(r) != provider.StateReady {
				got = stateOf(r)
			}
			times = append(times, time.Since(began))
		}
		if out, err := a.ssh(t, nodeB, "echo alive"); err != nil || out != "alive\n" {
			got = out + errorText(err)
		}
		tt.row(t, "PID 1 taken over answers", how, "answered", got)
		cancel()
		wait.Wait()
	}
	slices.Sort(times)
	mu.Lock()
	defer mu.Unlock()
	t.Logf("while a node's agent lied: %d connections to it, %d questions about the other node, half within %v, 99%% within %v",
		asked, len(times), times[len(times)/2], times[len(times)*99/100])
	l.Close()
	if err := os.Rename(path+".true", path); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	a.restart(syscall.SIGTERM)
	a.set(t, nodeA, provider.Resource{"users": []string{a.user("alice")}})
	a.await(t, nodeA, provider.StateReady)
	out, err := a.ssh(t, nodeA, "echo alive")
	tt.row(t, "PID 1 taken over answers", "then the true one", "alive", strings.TrimSpace(out)+errorText(err))
}
