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

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/fdsocket"
	"patchbay/inventory/provider/local"
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

// hostileCallers attacks "up" as the manager's user, as other users, and as a node with a
// hostile PID 1.
func (a *arena) hostileCallers(t *testing.T) {
	if err := os.Chown(a.settings, managerUser, 0); err != nil {
		t.Fatal(err)
	}
	a.restart(syscall.SIGTERM)
	a.hostileAsks(t)
	a.hostilePeers(t)
	a.hostileAgent(t)
	text := read(t, a.logs.Name())
	got := "clean"
	if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r == '\u202e' || r == 0x7f }); i >= 0 {
		got = fmt.Sprintf("%q", text[max(0, i-80):min(len(text), i+20)])
	}
	check(t, "the operator's eyes", "the log", "clean", got)
}

func (a *arena) hostileAsks(t *testing.T) {
	t.Helper()
	const name = "00000000-0000-4000-8000-0000000005e7"
	type ask struct {
		how, must string
		request   local.Request
	}
	asks := []ask{}
	add := func(how string, r local.Request) { asks = append(asks, ask{how, "refused", r}) }
	// testbed.TestHostileValuesAreRefused has more values.
	add("a name", setOf("../../etc", nil))
	add("an image", setOf(name, map[string]any{"image": "host/../.."}))
	add("a hostname", setOf(name, map[string]any{"hostname": "\x1b]0;x\a"}))
	add("a login", setOf(name, account("a\nb", a.publicKey)))
	add("a key", setOf(name, account("alice", a.publicKey+"\nssh-rsa AAAA")))
	add("a client_id", setOf(name, map[string]any{"client_id": "a\x1b[2J"}))
	deep := strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)
	add("an account of deep JSON", setOf(name, map[string]any{"users": []string{deep}}))
	add("deep JSON", local.Request{Action: local.ActionSet, Input: json.RawMessage(`{"updates":` + deep[200_000-5000:200_000+5000] + `}`)})
	add("100,000 updates", local.Request{Action: local.ActionSet, Input: json.RawMessage(`{"updates":[` + strings.Repeat(`{"name":"a"},`, 99_999) + `{"name":"a"}]}`)})
	add("100,000 names", local.Request{Action: local.ActionGet, Input: json.RawMessage(`{"names":[` + strings.Repeat(`"a",`, 99_999) + `"a"]}`)})
	add("the agent of a node, which is root's", local.Request{Action: local.ActionAgent, Name: nodeB})
	add("the network of a node, which is root's", local.Request{Action: local.ActionNetwork, Name: nodeB})
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
		check(t, "the manager's user asks", k.how, k.must, refusal(answers[i]))
	}
	a.await(t, name, provider.StateReady)
	a.await(t, nodeB, provider.StateReady)
	got := "refused"
	if text := a.askAs(t, strangerUser, []local.Request{{Action: local.ActionList}})[0]; !strings.Contains(text, "may not use") {
		got = text
	}
	check(t, "a stranger asks", "list", "refused", got)
	var names []string
	for _, n := range a.list(t).Nodes {
		names = append(names, n.Name[len(n.Name)-4:])
	}
	check(t, "the manager's user asks", "what there is then", "05e7 e5ca e5cb", strings.Join(names, " "))
	out, err := exec.Command(binary(), "list", a.settings).CombinedOutput()
	got = "clean" + errorText(err)
	if bytes.ContainsFunc(out, func(r rune) bool { return r < ' ' && r != '\n' || r == '\u202e' || r == '\u2028' }) {
		got = fmt.Sprintf("%q", out)
	}
	check(t, "the operator's eyes", "patchbay-local list", "clean", got)
	a.remove(t, name)
}

// hostilePeers connects without sending a request.
func (a *arena) hostilePeers(t *testing.T) {
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
	check(t, "at the socket", "up to 1000 that are slow, then an honest one", "answered", strings.TrimSuffix("answered "+errorText(err), " "))
	t.Logf("%d connections were made at once", n)
}

// hostileAnswers are answers of a hostile PID 1 to its callers. The package agent tests more.
func hostileAnswers() map[string]func(c *fdsocket.Conn, raw net.Conn) {
	hello := map[string]any{"Node": nodeA, "Facts": map[string]any{}, "Exit": map[string]any{}}
	return map[string]func(*fdsocket.Conn, net.Conn){
		"nothing":        func(_ *fdsocket.Conn, raw net.Conn) { _, _ = io.Copy(io.Discard, raw) },
		"half an answer": func(_ *fdsocket.Conn, raw net.Conn) { _, _ = raw.Write([]byte{0, 0, 0, 50, '{', '"'}) },
		"4 GB":           func(_ *fdsocket.Conn, raw net.Conn) { _, _ = raw.Write(bytes.Repeat([]byte{0xff}, 1<<16)) },
		"ANSI words": func(c *fdsocket.Conn, _ net.Conn) {
			_ = c.Send(map[string]any{"Error": "\x1b]0;x\a\n\u202e" + strings.Repeat("x", 30_000)})
		},
		"a flood of answers with a device": func(c *fdsocket.Conn, _ net.Conn) {
			zero, err := os.OpenFile("/dev/zero", os.O_RDWR, 0)
			for ; err == nil; err = c.Send(hello, zero) {
			}
			zero.Close()
		},
		"another identity": func(c *fdsocket.Conn, _ net.Conn) { _ = c.Send(map[string]any{"Node": nodeB}) },
	}
}

// hostileAgent replaces a node's agent by hostile doubles; the other node and the testbed
// must be unaffected.
func (a *arena) hostileAgent(t *testing.T) {
	t.Helper()
	path := filepath.Join(a.testSite.state, "nodes", nodeA, "agent.sock")
	if err := os.Rename(path, path+".true"); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	answers := hostileAnswers()
	answer := answers["nothing"] // until the first row: the testbed may connect at once
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
	ssh := require.SSH(t)
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
		if r := getNode(t, a.provider, nodeB); stateOf(r) != provider.StateReady {
			got = stateOf(r)
		}
		if out, err := a.ssh(t, nodeB, "echo alive"); err != nil || out != "alive\n" {
			got = out + errorText(err)
		}
		check(t, "PID 1 taken over answers", how, "answered", got)
		cancel()
		wait.Wait()
	}
	if mu.Lock(); asked == 0 {
		t.Error("the double of PID 1 got no request")
	}
	mu.Unlock()
	l.Close()
	if err := os.Rename(path+".true", path); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	a.restart(syscall.SIGTERM)
	a.set(t, nodeA, provider.Resource{"users": []string{a.user("alice")}})
	a.await(t, nodeA, provider.StateReady)
	out, err := a.ssh(t, nodeA, "echo alive")
	check(t, "PID 1 taken over answers", "then the true one", "alive", strings.TrimSpace(out)+errorText(err))
}
