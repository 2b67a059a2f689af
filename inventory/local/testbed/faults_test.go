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

// breaks makes an operation of the world fail, or work again.
func (w *world) breaks(operation string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.fails, operation)
	} else {
		w.fails[operation] = err
	}
}

// one is a testbed with one node that is ready.
func (w *world) one() (tb *Testbed, stop func()) {
	w.t.Helper()
	tb, stop = w.run(-1)
	set(w.t, tb, nodeName(1), present("web", sliceURN, "alice"))
	await(w.t, tb, nodeName(1), ready)
	return tb, stop
}

func (w *world) knows(name string, peers int) func(provider.Resource) bool {
	return func(r provider.Resource) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return ready(r) && w.running[name] != nil && len(w.running[name].cfg.Hosts) == peers
	}
}

func TestReadyNodeThatCannotBeToldOfItsPeersStaysReady(t *testing.T) {
	w := newWorld(t)
	tb, stop := w.one()
	defer func() { stop() }()
	w.breaks("configure "+nodeName(1), errors.New("no space left on device"))
	bring(t, tb, nodeName(2), present("db", sliceURN, "alice"))
	tries := func(tb *Testbed, more int) {
		t.Helper()
		w.mu.Lock()
		want := w.done["configure "+nodeName(1)] + more
		w.mu.Unlock()
		await(t, tb, nodeName(1), func(r provider.Resource) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.done["configure "+nodeName(1)] >= want
		})
	}
	tries(tb, 2*maxAttempts)
	if r := look(tb, nodeName(1)); !ready(r) || len(r.List("login")) == 0 {
		t.Errorf("with a full disk: %v", r)
	}
	stop()
	tb, stop = w.run(-1)
	if r := await(t, tb, nodeName(1), settled); !ready(r) || len(r.List("login")) == 0 {
		t.Errorf("after a restart, with its disk still full: %v", r)
	}
	tries(tb, 2*maxAttempts)
	w.breaks("configure "+nodeName(1), nil)
	await(t, tb, nodeName(1), w.knows(nodeName(1), 2))
	if w.starts[nodeName(1)] != 1 {
		t.Error("it was started again")
	}
}

func TestFailedNodeIsTriedOnceMoreByTheNextProgram(t *testing.T) {
	w := newWorld(t)
	w.breaks("configure", errors.New("no space left on device"))
	tb, stop := w.run(-1)
	set(t, tb, nodeName(1), present("web", sliceURN, "alice"))
	if r := await(t, tb, nodeName(1), settled); ready(r) {
		t.Fatalf("%v", r)
	}
	stop()
	tb, stop = w.run(-1)
	if r := await(t, tb, nodeName(1), settled); ready(r) {
		t.Errorf("still broken: %v", r)
	}
	if !w.dials(tb) {
		t.Error("nobody can look why it has failed: its port is closed")
	}
	stop()
	w.breaks("configure", nil)
	for range 2 { // and it is not forgotten that it is well
		tb, stop = w.run(-1)
		if r := await(t, tb, nodeName(1), settled); !ready(r) || tb.node(nodeName(1)).snapshot().Failed != "" {
			t.Errorf("mended: %v", r)
		}
		stop()
	}
}

// dials tells whether the port of node 1 is open.
func (w *world) dials(tb *Testbed) bool {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", tb.node(nodeName(1)).snapshot().Port))
	if err == nil {
		c.Close()
	}
	return err == nil
}

func TestAgentThatIsTooSlowLocksNobodyOut(t *testing.T) {
	w := newWorld(t)
	_, stop := w.one()
	stop()
	answer := make(chan struct{})
	w.mu.Lock()
	w.slow["configure"] = answer
	w.mu.Unlock()
	tb := w.up(-1)
	tb.agentTime, tb.slowAgentTime = 20*time.Millisecond, 20*time.Millisecond
	stop = w.serve(tb)
	defer stop()
	await(t, tb, nodeName(1), func(provider.Resource) bool { return w.dials(tb) })
	w.mu.Lock()
	want := w.done["configure "+nodeName(1)] + 2*maxAttempts
	w.mu.Unlock()
	await(t, tb, nodeName(1), func(provider.Resource) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.done["configure "+nodeName(1)] > want
	})
	if r := look(tb, nodeName(1)); r.Text("state") != provider.StateChanging {
		t.Errorf("while its agent is slow: %v", r)
	}
	close(answer)
	await(t, tb, nodeName(1), ready)
}

func TestFrozenAgentsHoldUpNobody(t *testing.T) {
	w := newWorld(t)
	tb := w.up(-1)
	tb.agentTime, tb.slowAgentTime = time.Hour, time.Hour
	tb.agentCalls, tb.slowAgentCalls = make(semaphore, 1), make(semaphore, 1)
	stop := w.serve(tb)
	defer stop()
	for i := range 2 {
		bring(t, tb, nodeName(i), present("web", sliceURN, "alice"))
	}
	var goOn []func()
	for i := range 2 {
		goOn = append(goOn, w.delays("hello "+nodeName(i)))
		before := w.count("hello " + nodeName(i))
		set(t, tb, nodeName(i), provider.Resource{"users": userItems("bob")})
		await(t, tb, nodeName(i), func(provider.Resource) bool { return w.count("hello "+nodeName(i)) > before })
	}
	bring(t, tb, nodeName(2), present("db", sliceURN+"2", "alice"))
	for i := range 2 {
		goOn[i]()
		await(t, tb, nodeName(i), ready)
	}
}

func TestNothingIsToldTwice(t *testing.T) {
	w := newWorld(t)
	tb, stop := w.one()
	defer stop()
	s := tb.node(nodeName(1)).slice
	before, err := s.refreshPeers()
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	told := w.done["peers"]
	w.mu.Unlock()
	bring(t, tb, nodeName(1), provider.Resource{"users": userItems("bob")})
	after, err := s.refreshPeers()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || after.version != before.version || w.done["peers"] != told {
		t.Errorf("other accounts: version %d, was %d; the gateway was told %d times, was %d, %v", after.version, before.version, w.done["peers"], told, err)
	}
}

// A node that is being removed is no peer any more: a new one may have its name.
func TestNodesThatAreBeingRemovedAreNoPeers(t *testing.T) {
	w := newWorld(t)
	tb, stop := w.one()
	defer stop()
	bring(t, tb, nodeName(2), present("web", sliceURN, "alice"))
	leaving := tb.node(nodeName(1))
	hang := make(chan struct{})
	defer close(hang)
	w.mu.Lock()
	w.slow["remove"] = hang
	w.mu.Unlock()
	set(t, tb, nodeName(1), absent)
	lines, err := leaving.slice.refreshPeers()
	if err != nil || len(lines.peers) != 1 || lines.peers[0].node != tb.node(nodeName(2)) {
		t.Errorf("peers are %+v, %v; want the other node alone", lines.peers, err)
	}
}

func TestNodeThatCannotBeRemovedStopsNobody(t *testing.T) {
	w := newWorld(t)
	tb, stop := w.one()
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
	// What the spoilt one has claimed is nobody else's as long as it may run.
	base, err := tb.userIDs.(doubleNumbers).allocator.Allocate("testbed-t/"+spoilt, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.breaks("remove", errors.New("busy"))
	w.breaks("kill", errors.New("busy"))
	tb, stop = w.run(-1)
	defer stop()
	await(t, tb, nodeName(1), ready)
	if r := look(tb, half); provider.Gone(r) {
		t.Errorf("what is left of a node is not told of: %v", r)
	}
	if _, err := ask(tb, spoilt, provider.Resource{"power": "on"}); err == nil {
		t.Error("a node of which nothing is known was switched on")
	}
	if got := holders(t, filepath.Join(w.dir, "claims/ids")); !slices.Contains(got, "testbed-t/"+spoilt) {
		t.Errorf("block %d was given up: %v", base, got)
	}
	w.breaks("remove", nil)
	w.breaks("kill", nil)
	await(t, tb, half, provider.Gone)
	for _, name := range []string{nodeName(1), spoilt} {
		remove(t, tb, name)
	}
	w.nothingLeft(t, tb)
}

func TestWhatCannotBeNotedIsClaimedOnce(t *testing.T) {
	w, tb := runningWorld(t)
	w.mu.Lock()
	w.full = func(name string, v any) bool { r, is := v.(record); return is && r.Port != 0 }
	w.mu.Unlock()
	set(t, tb, nodeName(1), present("web", sliceURN, "alice"))
	if r := await(t, tb, nodeName(1), settled); ready(r) {
		t.Fatalf("%v", r)
	}
	for _, dir := range []string{"claims/ids", "claims/ports"} {
		if got := holders(t, filepath.Join(w.dir, dir)); len(got) > 2 {
			t.Errorf("%s: %v", dir, got)
		}
	}
	w.mu.Lock()
	w.full = nil
	w.mu.Unlock()
	remove(t, tb, nodeName(1))
	w.nothingLeft(t, tb)
}

func TestEndOfTheProgramIsNoEndOfItsNodes(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	w.log = slog.New(slog.NewTextHandler(&log, nil))
	_, stop := w.one()
	for range 10 { // who is heard first is left to chance
		stop()
		var tb *Testbed
		tb, stop = w.run(-1)
		await(t, tb, nodeName(1), ready)
	}
	stop()
	if strings.Contains(log.String(), "has ended by itself") {
		t.Error("a node that runs is said to have ended")
	}
}

// delays makes an operation of the world wait until the function is called.
func (w *world) delays(operation string) (goOn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slow := make(chan struct{})
	w.slow[operation] = slow
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.slow, operation)
		close(slow)
	}
}

func (w *world) count(operation string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done[operation]
}

func TestNodesThatCannotBeRemovedDoNotKeepOthersFromBeingMade(t *testing.T) {
	for _, slow := range []string{"remove door", "remove"} {
		w := newWorld(t)
		tb := w.up(-1)
		tb.heavyWork = make(semaphore, 1)
		stop := w.serve(tb)
		bring(t, tb, nodeName(1), present("web", sliceURN, "alice"))
		w.breaks("remove", errors.New("busy"))
		goOn := func() {}
		if slow == "remove door" {
			goOn = w.delays(slow)
		}
		set(t, tb, nodeName(1), absent)
		if slow == "remove" { // not at its first attempt
			await(t, tb, nodeName(1), func(provider.Resource) bool { return w.count("remove") > 0 })
			goOn = w.delays(slow)
		}
		time.Sleep(5 * time.Millisecond)
		bring(t, tb, nodeName(2), present("db", sliceURN, "alice"))
		goOn()
		w.breaks("remove", nil)
		await(t, tb, nodeName(1), provider.Gone)
		stop()
	}
}

// Nodes are removed many at a time, for each waits for the kernel, and they keep
// no others from being made.
func TestNodesAreRemovedSideBySide(t *testing.T) {
	w := newWorld(t)
	tb := w.up(-1)
	tb.heavyWork = make(semaphore, 1)
	stop := w.serve(tb)
	defer stop()
	const n = 5
	for i := range n {
		bring(t, tb, nodeName(i), present(fmt.Sprint("n", i), sliceURN, "alice"))
	}
	goOn := w.delays("remove")
	for i := range n {
		set(t, tb, nodeName(i), absent)
	}
	wait.Until(t, "all are being removed", func() bool { return len(tb.removals) == n })
	bring(t, tb, nodeName(n), present("new", sliceURN, "alice"))
	goOn()
	for i := range n {
		await(t, tb, nodeName(i), provider.Gone)
	}
}

func TestImagesAreNotSweptWhileOneIsFound(t *testing.T) {
	w, tb := runningWorld(t)
	goOn := w.delays("find image")
	set(t, tb, nodeName(1), present("web", sliceURN, "alice"))
	await(t, tb, nodeName(1), func(r provider.Resource) bool { return r.Text("message") == "preparing its image" })
	ended := tb.buildingImage(true)
	if got := look(tb, nodeName(1)).Text("message"); !strings.HasPrefix(got, "preparing its image: it is being rebuilt, since the packages") {
		t.Errorf("while the image is made: %q", got)
	}
	ended(nil)
	if got := look(tb, nodeName(1)).Text("message"); got != "preparing its image" {
		t.Errorf("after the image was made: %q", got)
	}
	time.Sleep(5 * time.Millisecond)
	before := w.count("sweep images")
	tb.sweepImages()
	if w.count("sweep images") != before {
		t.Error("what was just found could be swept away")
	}
	goOn()
	await(t, tb, nodeName(1), ready)
	tb.sweepImages()
	if w.count("sweep images") != before+1 {
		t.Error("images are not swept any more")
	}
}

func TestKeysOfExperimentsHoldUpNobody(t *testing.T) {
	w := newWorld(t)
	tb, stop := w.one()
	defer stop()
	tb.keysMu.Lock() // the disk is slow
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if _, err := ask(tb, nodeName(2), present("db", sliceURN+"2", "alice")); err != nil {
			t.Error(err)
		}
		look(tb, nodeName(1))
	}()
	select {
	case <-answered:
	case <-time.After(10 * time.Second):
		t.Error("others wait for a key")
	}
	tb.keysMu.Unlock()
	await(t, tb, nodeName(2), ready)
}
