package lxd

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am/testkit/wait"
)

func idOf(n int) string { return fmt.Sprintf("11111111-1111-4111-8111-%012d", n) }

// onLink is the request for a node with alice's account on a link.
func onLink(name, link string) object {
	o := maps.Clone(present)
	o["users"] = []string{`{"login":"alice","keys":[]}`}
	o["interfaces"] = []string{fmt.Sprintf(`{"client_id":"%s:0","link":%q,"slice":"s","addresses":["10.0.0.1/24"]}`, name, link)}
	return o
}

// setNode requests a node, and does not carry that out.
func setNode(t *testing.T, dir, id string, should object) object {
	t.Helper()
	defer claim(t, dir)()
	return call(t, dir, "set", object{"updates": []object{{"name": id, "should": should}}, "ral": object{"noop": false}})
}

// startWorker runs a worker until stop is called.
func startWorker(t *testing.T, dir string) (stop func()) {
	t.Helper()
	p, err := open(dir, "lxd")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	run := func() { done <- work(t.Context(), dir, "lxd", time.Hour, os.Stderr) }
	go run()
	wait.Until(t, "the worker does not run", func() bool {
		select {
		case err := <-done: // it found the claim below, and ended
			if err != nil {
				t.Fatal(err)
			}
			go run()
		default:
		}
		release, err := p.folder.claim()
		if err == nil {
			release()
		}
		return err != nil
	})
	return func() {
		t.Helper()
		p.folder.touchSettings(t)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// touchSettings changes the time of the settings, which ends the worker.
func (f folder) touchSettings(t *testing.T) {
	t.Helper()
	if err := os.Chtimes(f.beside(".yaml"), time.Time{}, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// awaitSettled waits until the file of a node is gone, or has a failure, and returns it.
func awaitSettled(t *testing.T, dir, id string) (p *pending) {
	t.Helper()
	wait.Until(t, "the node is not settled", func() bool {
		var err error
		p, err = folder{dir, "lxd"}.read(id)
		return err == nil && (p == nil || p.Failed != "")
	})
	return p
}

// TestRefreshIsNoRequest refreshes the names in a node after its accounts changed and after it was
// removed. The refresh restores neither the old accounts nor the node.
func TestRefreshIsNoRequest(t *testing.T) {
	f, dir := newFake(t)
	setNode(t, dir, testID, onLink("n1", "lan"))
	finish(t, dir)
	old := *f.instances[instanceName(testID)].node()
	refresh := func() {
		t.Helper()
		if err := (folder{dir, "lxd"}).write(&pending{Node: old, Since: time.Now(), Refresh: true}); err != nil {
			t.Fatal(err)
		}
		finish(t, dir)
	}
	setNode(t, dir, testID, object{"users": []string{}})
	finish(t, dir)
	refresh()
	if i := f.instances[instanceName(testID)]; strings.Contains(i.Config[keyNode], "alice") || strings.Contains(f.hosts[i.Name], "alice") {
		t.Errorf("a removed account is back: %s", i.Config[keyNode])
	}
	set(t, dir, false, object{"ensure": "absent"})
	finish(t, dir)
	refresh()
	if f.count() > 0 {
		t.Error("a removed node is back")
	}
	if kind, message := set(t, dir, false, object{"users": []string{}}); kind != "unknown" {
		t.Errorf("a removed node can be changed: %s %q", kind, message)
	}
}

// TestBridgesAreFreed checks that a worker reuses the bridge of a removed link.
func TestBridgesAreFreed(t *testing.T) {
	_, dir := newFake(t) // with one bridge
	defer startWorker(t, dir)()
	for n := range 3 {
		call(t, dir, "set", object{"updates": []object{{"name": idOf(n), "should": onLink("n", fmt.Sprintf("lan%d", n))}}})
		if p := awaitSettled(t, dir, idOf(n)); p != nil {
			t.Fatalf("link %d: %s", n, p.Failed)
		}
		call(t, dir, "set", object{"updates": []object{{"name": idOf(n), "should": object{"ensure": "absent"}}}})
		awaitSettled(t, dir, idOf(n))
	}
}

// TestWorkerEndsWithItsSettings changes the settings, which ends the worker. The next one uses the
// new settings.
func TestWorkerEndsWithItsSettings(t *testing.T) {
	f, dir := newFake(t)
	stop := startWorker(t, dir)
	f.setting(t, dir, "images: [{name: fresh, alias: fresh}]\n")
	stop()
	fresh := maps.Clone(present)
	fresh["image"] = "fresh"
	setNode(t, dir, testID, fresh)
	finish(t, dir)
	if r := get(t, dir); r["state"] != "ready" {
		t.Errorf("%v", r)
	}
}

// TestStepsOutliveAbsences checks that a worker resumes steps only when their member answers again,
// and that the start of a step is repeated while the server is away.
func TestStepsOutliveAbsences(t *testing.T) {
	f, dir := newFake(t)
	setNode(t, dir, testID, present)
	finish(t, dir)
	p, err := open(dir, "lxd")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker(p)
	for status, want := range map[string]bool{"Offline": false, "Online": true} {
		f.status = status
		if known := w.resumeSteps(t.Context()); known != want {
			t.Errorf("%s: %t", status, known)
		}
	}
	f.fault = func(method, path string, count int) *fault {
		return map[bool]*fault{true: {status: http.StatusServiceUnavailable}}[strings.HasSuffix(path, "/exec")]
	}
	n := f.instances[instanceName(testID)].node()
	if _, late, err := (&setupNode{w: w, n: n, name: instanceName(testID)}).Start(t.Context(), 1, nil, false); !late || err == nil {
		t.Errorf("late is %t after: %v", late, err)
	}
	for err, want := range map[error]bool{
		nil: false, commandError("status 1"): false, &apiError{404, "not found"}: false, &apiError{400, "busy"}: true, &apiError{500, "x"}: true, http.ErrServerClosed: true,
	} {
		if got := isAway(err); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
}

// TestClaimedAddresses checks that, with logins at the nodes' addresses, a node cannot claim the
// address of another node or one outside its network.
func TestClaimedAddresses(t *testing.T) {
	f, dir := newFake(t)
	f.setting(t, dir, "logins: network\n")
	claims := map[int]string{1: `"10.97.0.7"`, 2: `"10.97.0.7","10.97.0.1","198.51.100.1","127.0.0.1","169.254.169.254","10.97.0.8"`}
	f.says = func(i string) string {
		for n, claim := range claims {
			if i == instanceName(idOf(n)) {
				return `{"Addresses":[` + claim + `]}`
			}
		}
		return ""
	}
	for n := 1; n <= 2; n++ {
		setNode(t, dir, idOf(n), present)
		finish(t, dir)
	}
	for n, want := range map[int][]string{1: {"10.97.0.7"}, 2: {"10.97.0.8"}} {
		if got := f.instances[instanceName(idOf(n))].facts(); !slices.Equal(got.Addresses, want) || got.Login != want[0]+":22" {
			t.Errorf("%d: %+v", n, got)
		}
	}
}

// LXD with iptables loses a network with an ACL at the restart of its daemon.
func TestNoACLWithIptables(t *testing.T) {
	for firewall, posts := range map[string]int{"nftables": 1, "xtables": 0} {
		f, dir := newFake(t)
		f.firewall = firewall
		p, err := open(dir, "lxd")
		if err != nil {
			t.Fatal(err)
		}
		var said string
		progress := func(format string, args ...any) { said += fmt.Sprintf(format, args...) }
		err = keepNodesOffTunnels(t.Context(), p.client, p.settings, []member{{Name: "m1"}}, SetupOptions{Progress: progress})
		if n := f.calls["POST/network-acls"]; n != posts || strings.Contains(said, "LXD on m1 uses iptables; install nftables") == (posts == 1) {
			t.Errorf("%s: %d ACLs were made, and setup says %q, %v", firewall, n, said, err)
		}
	}
}

// TestUnreadableRequest checks that a request file which cannot be read fails its node alone.
func TestUnreadableRequest(t *testing.T) {
	_, dir := newFake(t)
	setNode(t, dir, testID, present)
	finish(t, dir)
	file := folder{dir, "lxd"}.file(idOf(7))
	if err := os.WriteFile(file, []byte(`{"node":{`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := get(t, dir); r["state"] != "ready" {
		t.Errorf("the other node: %v", r)
	}
	release := claim(t, dir)
	o := call(t, dir, "get", object{"names": []string{idOf(7)}})
	release()
	if !strings.Contains(fmt.Sprint(o), "the file of its request cannot be read; delete the node") || !strings.Contains(fmt.Sprint(o), "failed") {
		t.Errorf("the node: %v", o)
	}
	if kind, message := set(t, dir, false, object{"users": []string{}}); kind != "" {
		t.Errorf("the other node cannot be changed: %s %q", kind, message)
	}
	setNode(t, dir, idOf(7), object{"ensure": "absent"})
	finish(t, dir)
	if _, err := os.Stat(file); err == nil {
		t.Error("the file is still there after the node was deleted")
	}
}

// TestFailedNodeKeepsItsWatcher checks that a new request stops watching the steps of a node, and
// that a failed request does not.
func TestFailedNodeKeepsItsWatcher(t *testing.T) {
	_, dir := newFake(t)
	p, err := open(dir, "lxd")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker(p)
	w.failed = map[string]time.Time{}
	ended := false
	w.active[testID], w.ends[testID] = true, func() { ended = true }
	for _, failure := range []string{"no room", ""} {
		if err := p.folder.write(&pending{Node: node{Name: testID}, Since: time.Now(), Failed: failure}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := w.look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if ended != (failure == "") {
			t.Errorf("with the failure %q, the watching has ended: %t", failure, ended)
		}
	}
}

// TestStepsWaitForNames checks that the steps of a node begin after other nodes have its name.
func TestStepsWaitForNames(t *testing.T) {
	_, dir := newFake(t)
	p, err := open(dir, "lxd")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.folder.write(&pending{Node: node{Name: idOf(3)}, Refresh: true}); err != nil {
		t.Fatal(err)
	}
	var learnt atomic.Bool
	go func() {
		learnt.Store(true)
		_ = p.folder.remove(idOf(3))
	}()
	if newWorker(p).awaitPeers(t.Context()); !learnt.Load() {
		t.Error("the steps begin before")
	}
}
