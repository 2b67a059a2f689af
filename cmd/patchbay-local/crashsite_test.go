package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/node/agent"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/gateway"
	localnode "patchbay/inventory/provider/local/node"
	"patchbay/inventory/provider/local/sysctl"
	"patchbay/inventory/provider/local/testbed"
	"patchbay/inventory/provider/local/vswitch"
)

// settleTime is the time limit of the crash test. Nodes need far less, but an emulated
// processor under load does not.
const settleTime = 90 * time.Second

// desiredNode is the last requested state of one node.
type desiredNode struct {
	Name, Client string
	Place        int // determines its addresses
	Removed, On  bool
	Serial       int
	Users        []string
	Marked       []string // users who have a file in their home
}

func (w *desiredNode) resource(s *crashSite) provider.Resource {
	if w.Removed {
		return provider.Resource{provider.AttrName: w.Name, provider.AttrEnsure: provider.Absent}
	}
	r := provider.Resource{
		provider.AttrName: w.Name, provider.AttrEnsure: provider.Present, provider.AttrComponent: "localhost",
		provider.AttrPower: provider.Off, provider.AttrRestartSerial: strconv.Itoa(w.Serial),
		provider.AttrSliverType: "container", provider.AttrImage: "host", provider.AttrHostname: w.Client + ".crash.example.org",
		provider.AttrClientID:  w.Client,
		provider.AttrSliceURN:  "urn:publicid:IDN+example.org+slice+crash",
		provider.AttrSliverURN: "urn:publicid:IDN+example.org+sliver+" + w.Name,
	}
	if w.On {
		r[provider.AttrPower] = provider.On
	}
	users := []string{}
	for _, login := range w.Users {
		users = append(users, s.user(login))
	}
	r[provider.AttrUsers], r[provider.AttrInterfaces] = users, w.interfaces()
	return r
}

func crashName(r *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-4000-8000-%012x", r.Uint32(), r.IntN(1<<16), r.Uint64()>>16)
}

// crashSite is a testbed whose processes are killed.
type crashSite struct {
	*testSite
	signer ssh.Signer
	healed int // nodes that were restarted after they had failed
}

// newCrashSite creates a testbed in dir, or finds it there.
func newCrashSite(t *testing.T, instance, dir string) *crashSite {
	t.Helper()
	s := &crashSite{testSite: prepareTestSite(t, instance, dir, "sliver_types:\n- name: container\n  cpus: 1\n  memory: 128M\n  disk: 64M")}
	text, err := os.ReadFile(s.key)
	if err == nil {
		s.signer, err = ssh.ParsePrivateKey(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.logs.Close()
		if text, err := os.ReadFile(s.logs.Name()); err == nil && t.Failed() {
			t.Logf("the end of the testbed's log:\n%s", text[max(0, len(text)-6000):])
		}
	})
	return s
}

// hostState returns the host's state with the state folder, but without images, which
// stay, and without the record of raised sysctls, which other testbeds share.
func (s *crashSite) hostState() hoststate.State {
	s.t.Helper()
	c, err := hoststate.Take(hoststate.Options{
		Only:   []string{s.instance, s.dir, binary()},
		Except: []string{filepath.Join(s.state, "images"), filepath.Join(s.state, sysctl.File), s.logs.Name()},
		Roots:  []string{s.state, testbed.Root, local.Folder},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *crashSite) awaitAll(before hoststate.State) {
	s.t.Helper()
	hoststate.Await(s.t, before, 20*time.Second)
}

// awaitFiles waits until only files are additional to before, and returns the state then.
func (s *crashSite) awaitFiles(before hoststate.State) hoststate.State {
	s.t.Helper()
	var now hoststate.State
	wait.Clear(s.t, func() string {
		now = s.hostState()
		lines := slices.DeleteFunc(hoststate.Diff(before, now), func(line string) bool {
			kind, _, _ := strings.Cut(strings.TrimPrefix(line, "new: "), " ")
			return slices.Contains([]string{"file", "folder", "link"}, kind)
		})
		if len(lines) == 0 {
			return ""
		}
		return "the testbed has ended, and left:\n" + strings.Join(lines, "\n")
	})
	return now
}

// startIfDead starts the testbed if it is dead.
func (s *crashSite) startIfDead() {
	s.t.Helper()
	if s.up.Process.Signal(syscall.Signal(0)) != nil {
		s.start()
	}
}

// setUntilAccepted repeats a set until it is accepted, also if processes were killed meanwhile.
func (s *crashSite) setUntilAccepted(w *desiredNode) {
	should := w.resource(s)
	var last error
	for deadline := time.Now().Add(settleTime); time.Now().Before(deadline) && !s.t.Failed(); time.Sleep(10 * time.Millisecond) {
		found, err := s.provider.Get(s.t.Context(), []string{w.Name})
		if err == nil && found[w.Name].Err != nil {
			err = found[w.Name].Err
		}
		if err == nil {
			var changes []provider.Change
			changes, err = s.provider.Set(s.t.Context(), []provider.Update{{Name: w.Name, Is: found[w.Name].Resource, Should: should}}, false)
			if err == nil && (len(changes) != 1 || changes[0].Err == nil) {
				return
			}
			if err == nil {
				err = changes[0].Err
			}
		}
		last = err
	}
	if s.t.Failed() {
		return // the reason was reported already
	}
	s.t.Errorf("node %s: was not accepted within %v: %v", w.Name, settleTime, last)
}

// waitSettled waits until all nodes are as desired and can be used. A node that was just
// killed may briefly report ready.
func (s *crashSite) waitSettled(wishes []*desiredNode) {
	s.t.Helper()
	wait.Clear(s.t, func() string {
		s.startIfDead()
		if problem := s.unsettled(wishes); problem != "" {
			return problem
		}
		return s.loginAll(wishes)
	})
}

// loginAll logs in to all running nodes as each user, and returns the failures.
func (s *crashSite) loginAll(wishes []*desiredNode) string {
	s.t.Helper()
	for _, w := range wishes {
		if w.Removed || !w.On {
			continue
		}
		for _, login := range w.Users {
			err := s.login(w, login)
			if _, isWrong := errors.AsType[*wrongError](err); isWrong {
				s.t.Fatalf("node %s, account %s: %v", w.Name, login, err)
			}
			if err != nil {
				return fmt.Sprintf("node %s is ready, but %s cannot use it: %v", w.Name, login, err)
			}
		}
	}
	return s.unreachable(wishes)
}

// wrongError means that a node is not the same as before.
type wrongError struct{ text string }

func (e *wrongError) Error() string { return e.text }

// unsettled returns what is not yet as desired, or "". It restarts a failed node, as an
// experimenter would.
func (s *crashSite) unsettled(wishes []*desiredNode) string {
	found, err := s.provider.Get(s.t.Context(), nil)
	if err != nil {
		return err.Error()
	}
	present := make(map[string]bool)
	for _, w := range wishes {
		is := found[w.Name].Resource
		switch {
		case found[w.Name].Err != nil:
			return fmt.Sprintf("node %s: %v", w.Name, found[w.Name].Err)
		case w.Removed && provider.Gone(is):
			continue
		case is.Text(provider.AttrState) == provider.StateFailed && !w.Removed:
			if is.Text(provider.AttrMessage) == "" {
				s.t.Errorf("node %s failed and does not say why", w.Name)
			}
			s.t.Logf("node %s failed: %s", w.Name, is.Text(provider.AttrMessage))
			s.healed++
			w.Serial++
			s.setUntilAccepted(w)
			return "node " + w.Name + " failed: " + is.Text(provider.AttrMessage)
		case is.Text(provider.AttrState) != provider.StateReady || len(provider.Diff(is, w.resource(s))) > 0:
			return fmt.Sprintf("node %s is %s (%s) and differs in %v", w.Name, is.Text(provider.AttrState), is.Text(provider.AttrMessage),
				slices.Sorted(maps.Keys(provider.Diff(is, w.resource(s)))))
		}
		present[w.Name] = true
	}
	for name, r := range found {
		if !present[name] && !provider.Gone(r.Resource) {
			return fmt.Sprintf("there is a node %s (%s, %s) that nobody asked for", name, r.Resource.Text(provider.AttrState), r.Resource.Text(provider.AttrMessage))
		}
	}
	return ""
}

// login logs in at the node's own endpoint, and checks for a file of an earlier login.
func (s *crashSite) login(w *desiredNode, login string) error {
	found, err := s.provider.Get(s.t.Context(), []string{w.Name})
	if err != nil {
		return err
	}
	is := found[w.Name].Resource
	var endpoint string
	for _, item := range is.List(provider.AttrLogin) {
		if host, port, err := net.SplitHostPort(item); err == nil && host == "127.0.0.1" {
			endpoint = net.JoinHostPort(host, port)
		}
	}
	hostKeys := is.List(provider.AttrHostKeys)
	c, err := ssh.Dial("tcp", endpoint, &ssh.ClientConfig{
		User: login, Auth: []ssh.AuthMethod{ssh.PublicKeys(s.signer)}, Timeout: 10 * time.Second,
		HostKeyCallback: func(_ string, _ net.Addr, k ssh.PublicKey) error {
			if line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))); !slices.Contains(hostKeys, line) {
				return &wrongError{"the host key is not the published one"}
			}
			return nil
		},
	})
	if err != nil {
		return fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	defer c.Close()
	session, err := c.NewSession()
	if err != nil {
		return err
	}
	stop := time.AfterFunc(20*time.Second, func() { c.Close() })
	defer stop.Stop()
	out, err := session.CombinedOutput("hostname; test -s mark && cat mark || { echo " + w.Name + " >mark && sync mark; }")
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	lines := strings.Fields(string(out))
	marked := slices.Contains(w.Marked, login)
	switch {
	case len(lines) == 0 || !strings.HasPrefix(lines[0], w.Client):
		return &wrongError{fmt.Sprintf("the host name is %q", lines)}
	case len(lines) == 1 && marked:
		return &wrongError{"the file of an earlier visit is gone"}
	case len(lines) > 1 && lines[1] != w.Name:
		return &wrongError{fmt.Sprintf("the file of an earlier visit says %q", lines[1:])}
	}
	if !marked {
		w.Marked = append(w.Marked, login)
	}
	return nil
}

// removeAll removes the nodes and waits until they are gone.
func (s *crashSite) removeAll(wishes []*desiredNode) {
	s.t.Helper()
	for _, w := range wishes {
		w.Removed = true
		s.setUntilAccepted(w)
	}
	s.waitSettled(wishes)
}

// victims returns the processes of this testbed by kind; those inside nodes are "inside".
func (s *crashSite) victims() map[string][]int {
	found := make(map[string][]int)
	var programs []fs.FileInfo
	for _, path := range []string{binary(), filepath.Join(s.state, "program", "patchbay-local")} { // nodes have a copy
		if i, err := os.Stat(path); err == nil {
			programs = append(programs, i)
		}
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		i, err := os.Stat(filepath.Join("/proc", e.Name(), "exe"))
		runsUs := err == nil && slices.ContainsFunc(programs, func(p fs.FileInfo) bool { return os.SameFile(i, p) })
		groups, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cgroup"))
		if !runsUs && !bytes.Contains(groups, []byte("/"+s.instance+"/")) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		args := strings.Split(string(line), "\x00")
		kind := "inside"
		switch {
		case args[0] == agent.Argv0:
			kind = "agent"
		case args[0] == gateway.Argv0:
			kind = "gateway"
		case args[0] == vswitch.Argv0:
			kind = "vswitch"
		case args[0] == localnode.Argv0:
			kind = "stage"
		case len(args) > 1 && args[1] == "local":
			kind = "call"
		case len(args) > 1 && args[1] == "up":
			kind = "up"
		}
		found[kind] = append(found[kind], pid)
	}
	return found
}

// kill kills one process of a random kind, or all of them, and returns the kind.
func (s *crashSite) kill(r *rand.Rand) string {
	kinds := []string{"call", "up", "up", "gateway", "vswitch", "stage", "stage", "agent", "everything"}
	kind := kinds[r.IntN(len(kinds))]
	if kind == "everything" {
		s.killAll()
		return kind
	}
	// Stages and calls live for a few milliseconds: wait for one.
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
		if pids := s.victims()[kind]; len(pids) > 0 {
			time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
			_ = syscall.Kill(pids[r.IntN(len(pids))], syscall.SIGKILL)
			return kind
		}
	}
	return kind + ", but none was there"
}

// killAll kills the processes of this testbed until there are none.
func (s *crashSite) killAll() {
	for range 100 {
		all := s.victims()
		for _, pids := range all {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if len(all) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
