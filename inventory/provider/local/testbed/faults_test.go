package testbed

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider"
)

// failOperation makes an operation of the host fail, or succeed again with nil.
func (h *fakeHost) failOperation(operation string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.fails, operation)
	} else {
		h.fails[operation] = err
	}
}

// runOneNode opens a testbed with one ready node.
func (h *fakeHost) runOneNode() (tb *Testbed, stop func()) {
	h.t.Helper()
	tb, stop = h.run(-1)
	set(h.t, tb, nodeName(1), newNode("web", sliceURN, "alice"))
	awaitNode(h.t, tb, nodeName(1), isReady)
	return tb, stop
}

func (h *fakeHost) hasPeers(name string, peers int) func(provider.Resource) bool {
	return func(r provider.Resource) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return isReady(r) && h.running[name] != nil && len(h.running[name].cfg.Hosts) == peers
	}
}

func TestReadyNodeStaysReadyWhenPeersCannotBeSent(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.runOneNode()
	defer func() { stop() }()
	h.failOperation("configure "+nodeName(1), errors.New("no space left on device"))
	setUntilReady(t, tb, nodeName(2), newNode("db", sliceURN, "alice"))
	tries := func(tb *Testbed, more int) {
		t.Helper()
		h.mu.Lock()
		want := h.done["configure "+nodeName(1)] + more
		h.mu.Unlock()
		awaitNode(t, tb, nodeName(1), func(r provider.Resource) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.done["configure "+nodeName(1)] >= want
		})
	}
	tries(tb, 2*maxAttempts)
	if r := getNode(tb, nodeName(1)); !isReady(r) || len(r.List("login")) == 0 {
		t.Errorf("with a full disk: %v", r)
	}
	stop()
	tb, stop = h.run(-1)
	if r := awaitNode(t, tb, nodeName(1), isSettled); !isReady(r) || len(r.List("login")) == 0 {
		t.Errorf("after a restart, with its disk still full: %v", r)
	}
	tries(tb, 2*maxAttempts)
	h.failOperation("configure "+nodeName(1), nil)
	awaitNode(t, tb, nodeName(1), h.hasPeers(nodeName(1), 2))
	if h.starts[nodeName(1)] != 1 {
		t.Error("it was started again")
	}
}

func TestNextProgramRetriesFailedNodeOnce(t *testing.T) {
	h := newFakeHost(t)
	h.failOperation("configure", errors.New("no space left on device"))
	tb, stop := h.run(-1)
	set(t, tb, nodeName(1), newNode("web", sliceURN, "alice"))
	if r := awaitNode(t, tb, nodeName(1), isSettled); isReady(r) {
		t.Fatalf("%v", r)
	}
	stop()
	tb, stop = h.run(-1)
	if r := awaitNode(t, tb, nodeName(1), isSettled); isReady(r) {
		t.Errorf("still broken: %v", r)
	}
	if !h.acceptsLogins(tb) {
		t.Error("no user can investigate the failure: its port is closed")
	}
	stop()
	h.failOperation("configure", nil)
	for range 2 { // its readiness is kept
		tb, stop = h.run(-1)
		if r := awaitNode(t, tb, nodeName(1), isSettled); !isReady(r) || tb.node(nodeName(1)).snapshot().Failed != "" {
			t.Errorf("mended: %v", r)
		}
		stop()
	}
}

// acceptsLogins reports whether the port of node 1 is open.
func (h *fakeHost) acceptsLogins(tb *Testbed) bool {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", tb.node(nodeName(1)).snapshot().Port))
	if err == nil {
		c.Close()
	}
	return err == nil
}

func TestSlowAgentKeepsLogins(t *testing.T) {
	h := newFakeHost(t)
	_, stop := h.runOneNode()
	stop()
	answer := make(chan struct{})
	h.mu.Lock()
	h.slow["configure"] = answer
	h.mu.Unlock()
	tb := h.open(-1)
	tb.agentTime, tb.slowAgentTime = 20*time.Millisecond, 20*time.Millisecond
	stop = h.startServing(tb)
	defer stop()
	awaitNode(t, tb, nodeName(1), func(provider.Resource) bool { return h.acceptsLogins(tb) })
	h.mu.Lock()
	want := h.done["configure "+nodeName(1)] + 2*maxAttempts
	h.mu.Unlock()
	awaitNode(t, tb, nodeName(1), func(provider.Resource) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.done["configure "+nodeName(1)] > want
	})
	if r := getNode(tb, nodeName(1)); r.Text("state") != provider.StateChanging {
		t.Errorf("while its agent is slow: %v", r)
	}
	close(answer)
	awaitNode(t, tb, nodeName(1), isReady)
}

func TestFrozenAgentsDelayNoOtherNodes(t *testing.T) {
	h := newFakeHost(t)
	tb := h.open(-1)
	tb.agentTime, tb.slowAgentTime = time.Hour, time.Hour
	tb.agentCalls, tb.slowAgentCalls = make(semaphore, 1), make(semaphore, 1)
	stop := h.startServing(tb)
	defer stop()
	for i := range 2 {
		setUntilReady(t, tb, nodeName(i), newNode("web", sliceURN, "alice"))
	}
	var goOn []func()
	for i := range 2 {
		goOn = append(goOn, h.delayOperation("hello "+nodeName(i)))
		before := h.operationCount("hello " + nodeName(i))
		set(t, tb, nodeName(i), provider.Resource{"users": userItems("bob")})
		awaitNode(t, tb, nodeName(i), func(provider.Resource) bool { return h.operationCount("hello "+nodeName(i)) > before })
	}
	setUntilReady(t, tb, nodeName(2), newNode("db", sliceURN+"2", "alice"))
	for i := range 2 {
		goOn[i]()
		awaitNode(t, tb, nodeName(i), isReady)
	}
}

func TestUnchangedConfigurationIsNotSentAgain(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.runOneNode()
	defer stop()
	s := tb.node(nodeName(1)).slice
	before, err := s.refreshPeers()
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	told := h.done["peers"]
	h.mu.Unlock()
	setUntilReady(t, tb, nodeName(1), provider.Resource{"users": userItems("bob")})
	after, err := s.refreshPeers()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil || after.version != before.version || h.done["peers"] != told {
		t.Errorf("other accounts: version %d, was %d; the gateway got its peers %d times, was %d, %v", after.version, before.version, h.done["peers"], told, err)
	}
}

// A node that is being removed is no peer any more: a new one may have its names.
func TestNodesBeingRemovedAreNoPeers(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.runOneNode()
	defer stop()
	setUntilReady(t, tb, nodeName(2), newNode("web", sliceURN, "alice"))
	leaving := tb.node(nodeName(1))
	hang := make(chan struct{})
	defer close(hang)
	h.mu.Lock()
	h.slow["remove"] = hang
	h.mu.Unlock()
	set(t, tb, nodeName(1), absent)
	lines, err := leaving.slice.refreshPeers()
	if err != nil || len(lines.peers) != 1 || lines.nodes[0] != tb.node(nodeName(2)) {
		t.Errorf("peers are %+v, %v; want the other node alone", lines.peers, err)
	}
}

func TestNodeThatCannotBeRemovedDelaysNoOther(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.runOneNode()
	stop()
	half, spoilt := nodeName(2), nodeName(3)
	for _, name := range []string{half, spoilt} {
		if err := os.Mkdir(filepath.Join(tb.nodesDir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(tb.nodesDir, spoilt, recordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Numbers of a node with a damaged record stay allocated while it may run.
	base, err := tb.userIDs.(doubleAllocator).allocator.Allocate("testbed-t/"+spoilt, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.failOperation("remove", errors.New("busy"))
	h.failOperation("kill", errors.New("busy"))
	tb, stop = h.run(-1)
	defer stop()
	awaitNode(t, tb, nodeName(1), isReady)
	if r := getNode(tb, half); provider.Gone(r) {
		t.Errorf("the rest of a node is not reported: %v", r)
	}
	if _, err := trySet(tb, spoilt, provider.Resource{"power": "on"}); err == nil {
		t.Error("a node of which nothing is known was switched on")
	}
	if got := allocationHolders(t, filepath.Join(h.dir, "claims/ids")); !slices.Contains(got, "testbed-t/"+spoilt) {
		t.Errorf("block %d was given up: %v", base, got)
	}
	h.failOperation("remove", nil)
	h.failOperation("kill", nil)
	awaitNode(t, tb, half, provider.Gone)
	for _, name := range []string{nodeName(1), spoilt} {
		remove(t, tb, name)
	}
	h.checkNothingLeft(t, tb)
}

func TestAllocationsWithoutARecordAreNotRepeated(t *testing.T) {
	h, tb := runFakeHost(t)
	h.mu.Lock()
	h.full = func(name string, v any) bool { r, is := v.(record); return is && r.Port != 0 }
	h.mu.Unlock()
	set(t, tb, nodeName(1), newNode("web", sliceURN, "alice"))
	if r := awaitNode(t, tb, nodeName(1), isSettled); isReady(r) {
		t.Fatalf("%v", r)
	}
	for _, dir := range []string{"claims/ids", "claims/ports"} {
		if got := allocationHolders(t, filepath.Join(h.dir, dir)); len(got) > 2 {
			t.Errorf("%s: %v", dir, got)
		}
	}
	h.mu.Lock()
	h.full = nil
	h.mu.Unlock()
	remove(t, tb, nodeName(1))
	h.checkNothingLeft(t, tb)
}

func TestNodesSurviveTheProgram(t *testing.T) {
	h := newFakeHost(t)
	var log bytes.Buffer
	h.log = slog.New(slog.NewTextHandler(&log, nil))
	_, stop := h.runOneNode()
	for range 10 { // the order is random
		stop()
		var tb *Testbed
		tb, stop = h.run(-1)
		awaitNode(t, tb, nodeName(1), isReady)
	}
	stop()
	if strings.Contains(log.String(), "has ended by itself") {
		t.Error("a node that runs is said to have ended")
	}
}

// delayOperation delays an operation of the host until goOn is called.
func (h *fakeHost) delayOperation(operation string) (goOn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	slow := make(chan struct{})
	h.slow[operation] = slow
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.slow, operation)
		close(slow)
	}
}

func (h *fakeHost) operationCount(operation string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.done[operation]
}

func TestNodesThatCannotBeRemovedDoNotBlockNewNodes(t *testing.T) {
	for _, slow := range []string{"remove endpoint", "remove"} {
		h := newFakeHost(t)
		tb := h.open(-1)
		tb.heavyWork = make(semaphore, 1)
		stop := h.startServing(tb)
		setUntilReady(t, tb, nodeName(1), newNode("web", sliceURN, "alice"))
		h.failOperation("remove", errors.New("busy"))
		goOn := func() {}
		if slow == "remove endpoint" {
			goOn = h.delayOperation(slow)
		}
		set(t, tb, nodeName(1), absent)
		if slow == "remove" { // later attempts do not wait for a place
			awaitNode(t, tb, nodeName(1), func(provider.Resource) bool { return h.operationCount("remove") > 0 })
			goOn = h.delayOperation(slow)
		}
		time.Sleep(5 * time.Millisecond)
		setUntilReady(t, tb, nodeName(2), newNode("db", sliceURN, "alice"))
		goOn()
		h.failOperation("remove", nil)
		awaitNode(t, tb, nodeName(1), provider.Gone)
		stop()
	}
}

// Many nodes are removed at a time, since each waits for the kernel. Their removal does not delay
// new nodes.
func TestNodesAreRemovedConcurrently(t *testing.T) {
	h := newFakeHost(t)
	tb := h.open(-1)
	tb.heavyWork = make(semaphore, 1)
	stop := h.startServing(tb)
	defer stop()
	const n = 5
	for i := range n {
		setUntilReady(t, tb, nodeName(i), newNode(fmt.Sprint("n", i), sliceURN, "alice"))
	}
	goOn := h.delayOperation("remove")
	for i := range n {
		set(t, tb, nodeName(i), absent)
	}
	wait.Until(t, "all are being removed", func() bool { return len(tb.removals) == n })
	setUntilReady(t, tb, nodeName(n), newNode("new", sliceURN, "alice"))
	goOn()
	for i := range n {
		awaitNode(t, tb, nodeName(i), provider.Gone)
	}
}

func TestImagesAreNotSweptDuringFind(t *testing.T) {
	h, tb := runFakeHost(t)
	goOn := h.delayOperation("find image")
	set(t, tb, nodeName(1), newNode("web", sliceURN, "alice"))
	awaitNode(t, tb, nodeName(1), func(r provider.Resource) bool { return r.Text("message") == "preparing its image" })
	ended := tb.buildingImage(true)
	if got := getNode(tb, nodeName(1)).Text("message"); !strings.HasPrefix(got, "preparing its image: it is being rebuilt, since the packages") {
		t.Errorf("while the image is made: %q", got)
	}
	ended(nil)
	if got := getNode(tb, nodeName(1)).Text("message"); got != "preparing its image" {
		t.Errorf("after the image was made: %q", got)
	}
	time.Sleep(5 * time.Millisecond)
	before := h.operationCount("sweep images")
	tb.sweepImages()
	if h.operationCount("sweep images") != before {
		t.Error("a new image could be swept")
	}
	goOn()
	awaitNode(t, tb, nodeName(1), isReady)
	tb.sweepImages()
	if h.operationCount("sweep images") != before+1 {
		t.Error("images are not swept any more")
	}
}

func TestExperimentKeysDelayNoOtherSlice(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.runOneNode()
	defer stop()
	tb.keysMu.Lock() // simulates a slow disk
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if _, err := trySet(tb, nodeName(2), newNode("db", sliceURN+"2", "alice")); err != nil {
			t.Error(err)
		}
		getNode(tb, nodeName(1))
	}()
	select {
	case <-answered:
	case <-time.After(10 * time.Second):
		t.Error("others wait for a key")
	}
	tb.keysMu.Unlock()
	awaitNode(t, tb, nodeName(2), isReady)
}
