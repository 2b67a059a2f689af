package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/inventory/node/agent"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/testbed"
)

// An attempt to leave a node, or to reach what a node must not reach. The test binary is
// copied into a real node, and makes it there.
type attempt struct {
	what, how string
	must      string // the expected answers, separated by " | "
	as        int    // user id inside the node
	try       func() string
}

// allowed reports whether an answer is expected.
func (a attempt) allowed(got string) bool {
	return slices.Contains(strings.Split(a.must, " | "), got)
}

// Environment of the test binary in a node: the attempt to make, or "all", and the facts.
const (
	escapeVariable = "PATCHBAY_ESCAPE"
	escapeFacts    = "PATCHBAY_ESCAPE_FACTS"
)

// facts are properties of the host that a node could know only after an escape. The node gets them
// so that it can search for them.
type facts struct {
	Canary   string   // in the names of files on the host
	Hidden   []string // texts that the node must not see anywhere
	HostPID  int
	HostPort int
	Abstract string // of a socket on the host
	Peer     string // of a socket in the other node
	PeerPort int
	Address  string        // of a peer on a link
	Device   string        // of the node, which is on that link
	Time     time.Duration // for which something is done
}

var told facts

// alice is the first account of an experiment.
const alice = 10000

func init() {
	word := os.Getenv(escapeVariable)
	if word == "" {
		return
	}
	runtime.LockOSThread()
	if err := json.Unmarshal([]byte(os.Getenv(escapeFacts)), &told); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if word == "ask" {
		fmt.Print(askAll())
		os.Exit(0)
	}
	// Never on the host, where some attempts would do harm as root.
	if b, err := os.ReadFile("/proc/1/cmdline"); err != nil || !strings.HasPrefix(string(b), agent.Argv0) {
		fmt.Println("this is no node")
		os.Exit(1)
	}
	all := attempts()
	if n, err := strconv.Atoi(word); err == nil {
		fmt.Print(all[n].try())
		os.Exit(0)
	}
	if task := tasks[word]; task != nil {
		fmt.Print(task())
		os.Exit(0)
	}
	if word != "all" {
		fmt.Println("there is no task", word)
		os.Exit(1)
	}
	answers := make([]string, len(all))
	var wait sync.WaitGroup
	places := make(chan struct{}, 4)
	for i, a := range all {
		places <- struct{}{}
		wait.Go(func() {
			answers[i] = tryAlone(i, a.as)
			<-places
		})
	}
	wait.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// tryAlone makes an attempt in its own process.
func tryAlone(i, uid int) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // reading all names on the disk takes long if the host has not cached them
	defer cancel()
	c := exec.CommandContext(ctx, "/proc/self/exe")
	c.Env = []string{escapeVariable + "=" + strconv.Itoa(i), escapeFacts + "=" + os.Getenv(escapeFacts), "GOMAXPROCS=2"}
	c.Dir = "/"
	if uid != 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	var complaint bytes.Buffer
	c.Stderr = &complaint
	out, err := c.Output()
	switch e, ended := errors.AsType[*exec.ExitError](err); {
	case ended && e.Sys().(syscall.WaitStatus).Signaled():
		return "killed by " + unix.SignalName(e.Sys().(syscall.WaitStatus).Signal())
	case err != nil:
		line, _, _ := strings.Cut(complaint.String(), "\n")
		return err.Error() + " " + line
	}
	return string(out)
}

// attempts returns all attempts inside a node, in order.
func attempts() []attempt {
	return slices.Concat(callAttempts(), fileAttempts(), processAttempts())
}

// errnoText returns the result of a call as text.
func errnoText(err error) string {
	if err == nil {
		return "done"
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return unix.ErrnoName(e)
	}
	return err.Error()
}

// raw makes a call by its number.
func raw(number uintptr, args ...uintptr) string {
	var six [6]uintptr
	copy(six[:], args)
	_, _, e := unix.RawSyscall6(number, six[0], six[1], six[2], six[3], six[4], six[5])
	if e != 0 {
		return errnoText(e)
	}
	return "done"
}

// check reports an answer that is not expected.
func check(t *testing.T, what, how, must, got string) {
	t.Helper()
	if !(attempt{must: must}).allowed(got) {
		t.Errorf("%s: %s: answered %q, must be %q", what, how, got, must)
	}
}

// smallTypes are sliver types with low limits.
const smallTypes = `sliver_types: [{name: container, cpus: 1, memory: 192M, pids: 160, disk: 96M}]`

const (
	nodeA = "00000000-0000-4000-8000-00000000e5ca"
	nodeB = "00000000-0000-4000-8000-00000000e5cb"
)

// arena is a testbed with two nodes of different slices, which contain the test binary.
type arena struct {
	*testSite
	facts facts
}

func newArena(t *testing.T, instance string) *arena {
	t.Helper()
	a := &arena{testSite: newTestSite(t, instance, smallTypes)}
	for i, name := range []string{nodeA, nodeB} {
		a.set(t, name, node("localhost", provider.Resource{
			"power": "on", "users": []string{a.user("alice")}, "hostname": string(rune('a' + i)),
			"slice_urn": "urn:publicid:IDN+example.org+slice+" + strconv.Itoa(i),
		}))
	}
	program := programOfTests(t)
	for _, name := range []string{nodeA, nodeB} {
		a.await(t, name, provider.StateReady)
		a.copyProgram(t, name, program)
	}
	return a
}

// copyProgram gives a node the program of the tests.
func (a *arena) copyProgram(t testing.TB, name string, program []byte) {
	t.Helper()
	if out, err := a.enter(name, program, "cat > /var/tmp/escape && chmod 755 /var/tmp/escape"); err != nil {
		t.Fatalf("copying the program: %v, %s", err, out)
	}
}

// programOfTests returns the test binary for nodes: this one or, if this one has the slow
// race detector, another build.
func programOfTests(t *testing.T) []byte {
	t.Helper()
	path := "/proc/self/exe"
	info, _ := debug.ReadBuildInfo()
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		path = filepath.Join(t.TempDir(), "plain")
		build := exec.Command("go", "test", "-c", "-o", path, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// enter runs a command as root in a node, by patchbay-local enter.
func (b *testSite) enter(name string, input []byte, line string) (string, error) {
	c := exec.CommandContext(b.t.Context(), binary(), "enter", b.settings, name, line)
	c.Stdin = bytes.NewReader(input)
	out, err := c.CombinedOutput()
	return string(out), err
}

// command runs the test binary in a node, as root.
func (a *arena) command(name, word string) string {
	text, err := json.Marshal(a.facts)
	if err != nil {
		a.t.Fatal(err)
	}
	return fmt.Sprintf("%s=%s %s='%s' GOMAXPROCS=2 /var/tmp/escape", escapeVariable, word, escapeFacts, text)
}

// task runs one of tasks in a node, as root, and returns its output.
func (a *arena) task(name, word string) string {
	out, err := a.enter(name, nil, a.command(name, word))
	if err != nil {
		return strings.TrimSpace(out + " " + err.Error())
	}
	return out
}

// TestNodesCannotEscape is about hostile users: it makes every attempt of the tables in a node,
// uses up what the kernel shares out, and calls "up" as other users and as a node's PID 1.
// The result holds for the running kernel.
func TestNodesCannotEscape(t *testing.T) {
	require.Root(t)
	// A sixtieth of the kernel's default, so that it is soon full.
	a := newArena(t, "escape-t")
	before := hostFacts(t, a.testSite)
	alive := func(t *testing.T) {
		for _, name := range []string{nodeA, nodeB} {
			got, err := a.ssh(t, name, "echo alive")
			check(t, "afterwards", "a login at "+name[len(name)-4:], "alive", strings.TrimSpace(got)+errorText(err))
		}
	}
	for _, tt := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"Attempts", a.attemptsFail}, {"Exhaustion", a.exhaustNode}, {"Filters", a.filtersLeaveRoom}, {"Connections", a.connectionsAreBounded},
		{"Callers", a.hostileCallers}, {"Processes", a.processesLeaveRoom}, {"Removal", a.removeFullNode},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.test(t)
			if tt.name == "Attempts" || tt.name == "Connections" {
				alive(t)
			}
		})
	}
	after := hostFacts(t, a.testSite)
	for _, fact := range sortedKeys(before) {
		check(t, "afterwards", "the host's "+fact, before[fact], after[fact])
	}
}

// attemptsFail makes all attempts in a node.
func (a *arena) attemptsFail(t *testing.T) {
	a.createTargets(t)
	out, err := a.enter(nodeA, nil, a.command(nodeA, "all"))
	var answers []string
	if err != nil || json.Unmarshal([]byte(out), &answers) != nil {
		t.Fatalf("the attempts cannot be made: %v, %s", err, out)
	}
	for i, made := range attempts() {
		check(t, made.what, made.how, made.must, answers[i])
	}
	t.Logf("%d attempts", len(answers))
	for way, got := range a.descriptors(t) {
		check(t, "descriptors", way, "0 1 2", got)
	}
	a.checkOwners(t)
}

// descriptors returns the inherited descriptors of processes, by the way they are
// started.
func (a *arena) descriptors(t *testing.T) map[string]string {
	t.Helper()
	// The descriptor with which bash lists the folder is already closed; 255 is its own.
	const list = `for f in /proc/$$/fd/*; do [ -L $f ] && [ $f != /proc/$$/fd/255 ] && echo -n "${f##*/} "; done; true`
	found := map[string]string{}
	say := func(way, out string, err error) { found[way] = strings.TrimSpace(out) + errorText(err) }
	out, err := a.enter(nodeA, nil, list)
	say("patchbay-local enter", out, err)
	for way, args := range map[string][]string{
		"ssh with a command": {list}, "ssh with a terminal": {"-tt", list}, "sudo": {"sudo -n bash -c '" + strings.ReplaceAll(list, "'", `'"'"'`) + "'"},
	} {
		out, err = a.ssh(t, nodeA, args...)
		say(way, out, err)
	}
	r := finish(exec.CommandContext(t.Context(), require.SSH(t), a.sshArgs(t, nodeA, "alice")...), strings.NewReader(list+"\nexit\n"))
	say("ssh with a shell", r.out, nil)

	sftp := exec.CommandContext(t.Context(), require.SSH(t), append([]string{"-s"}, append(a.sshArgs(t, nodeA, "alice"), "sftp")...)...)
	in, err := sftp.StdinPipe()
	if err == nil {
		err = sftp.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	// The runtime has descriptors of its own for waiting; they lead nowhere.
	const server = `for i in 1 2 3 4 5 6 7 8 9 10; do p=$(pgrep -u alice -f "sftp$") && break; sleep 0.1; done; ` +
		`ls -l /proc/$p/fd | grep -v anon_inode | sed -n 's/.* \([0-9]*\) -> .*/\1/p' | tr '\n' ' '`
	out, err = a.enter(nodeA, nil, "su alice -c '"+strings.ReplaceAll(server, "'", `'"'"'`)+"'")
	say("the server of sftp", out, err)
	in.Close()
	_ = sftp.Wait()
	return found
}

// createTargets creates what the attempts search for: a file and sockets of the host, and
// sockets in the other node.
func (a *arena) createTargets(t *testing.T) {
	t.Helper()
	a.facts = facts{
		Canary: "canary" + a.instance, HostPID: a.up.Process.Pid, Abstract: "@" + a.instance, Peer: "@peer" + a.instance,
		Hidden: []string{a.dir, a.state, a.instance + "/", nodeB, binary(), testbed.Root},
	}
	if err := os.WriteFile(a.dir+"/"+a.facts.Canary, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { port.Close() })
	a.facts.HostPort = port.Addr().(*net.TCPAddr).Port
	abstract, err := net.Listen("unix", a.facts.Abstract)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { abstract.Close() })
	a.facts.PeerPort = 4242
	a.background(t, nodeB, "listen")
}

// background runs a task in a node until the test ends, and waits for its first
// line.
func (a *arena) background(t *testing.T, name, word string) (line string, stop func()) {
	t.Helper()
	c := exec.CommandContext(t.Context(), binary(), "enter", a.settings, name, "exec env "+a.command(name, word))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		in.Close() // the task releases what it holds
		late := time.AfterFunc(5*time.Second, func() { _ = c.Process.Kill() })
		defer late.Stop()
		_ = c.Wait()
	})
	t.Cleanup(stop)
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s in %s: %q, %v", word, name, line, err)
	}
	return strings.TrimSpace(line), stop
}

// list asks for all nodes.
func (b *testSite) list(t *testing.T) local.List {
	t.Helper()
	answer, err := b.request(local.Request{Action: local.ActionList})
	var l local.List
	if err != nil || json.Unmarshal(answer.Output, &l) != nil {
		t.Fatalf("list: %v, %+v", err, answer)
	}
	return l
}

// hostFacts returns values that no attempt may change.
func hostFacts(t *testing.T, b *testSite) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range []string{
		"kernel/core_pattern", "kernel/hostname", "kernel/panic", "kernel/modprobe", "kernel/shmmax", "kernel/pid_max", "fs/mqueue/msg_max", "fs/file-max",
		"net/ipv4/ip_forward",
	} {
		text, err := os.ReadFile("/proc/sys/" + name)
		found[name] = strings.TrimSpace(string(text)) + errorText(err)
	}
	for _, path := range []string{binary(), b.state + "/program/patchbay-local", "/usr/bin/env", "/proc/swaps", "/proc/sys/kernel/random/boot_id"} {
		text, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, b.dir)] = fmt.Sprintf("%x", sha256.Sum256(text)) + errorText(err)
	}
	return found
}
