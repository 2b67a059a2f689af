package testbed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"patchbay/inventory/provider"
)

func TestNodesAreRemovedOnAFullDisk(t *testing.T) {
	for _, killed := range []bool{false, true} {
		h := newFakeHost(t)
		tb, stop := h.runOneNode()
		h.mu.Lock()
		h.full = func(string, any) bool { return true }
		h.mu.Unlock()
		if _, err := trySet(tb, nodeName(1), provider.Resource{"power": "off"}); err == nil {
			t.Error("a change that could not be saved was accepted")
		}
		if killed {
			h.failOperation("remove", errors.New("busy"))
		}
		set(t, tb, nodeName(1), absent)
		if killed {
			stop()
			h.failOperation("remove", nil)
			tb, stop = h.run(-1)
		}
		awaitNode(t, tb, nodeName(1), provider.Gone)
		h.checkNothingLeft(t, tb)
		stop()
	}
}

func TestDamagedGatewayRecordIsReportedWithARemedy(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.run(-1)
	stop()
	path := filepath.Join(tb.o.State, gatewayFile)
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	tb = h.open(-1)
	err := tb.loadExistingState()
	tb.close()
	if err == nil || !strings.Contains(err.Error(), "move "+path+" away") {
		t.Errorf("error %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, stop = h.run(-1)
	stop()
}

func TestGatewayPortFollowsTheSettings(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.run(-1)
	port := tb.gatewayIDs.Port
	stop()
	h.settings.FirstPort = port + 10
	tb, stop = h.run(-1)
	defer stop()
	if got := tb.gatewayIDs.Port; got < h.settings.FirstPort || got > h.settings.LastPort {
		t.Errorf("it has port %d, those of the settings are %d to %d", got, h.settings.FirstPort, h.settings.LastPort)
	}
	if got := allocationHolders(t, filepath.Join(h.dir, "claims/ports")); len(got) != 1 {
		t.Errorf("claims of ports: %v", got)
	}
}

func TestNodeDoesNotRunWithUserIDsOfAnother(t *testing.T) {
	steal := func(h *fakeHost, tb *Testbed) {
		t.Helper()
		base := tb.node(nodeName(1)).snapshot().Base
		if err := errors.Join(tb.userIDs.Release(base, "testbed-t/"+nodeName(1)), tb.userIDs.Claim(base, "other/node")); err != nil {
			t.Fatal(err)
		}
	}
	runs := func(h *fakeHost) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.running[nodeName(1)] != nil
	}
	taken := func(r provider.Resource) bool { return r.Text("message") == takenMessage }

	h := newFakeHost(t) // it is switched off
	tb, stop := h.runOneNode()
	setUntilReady(t, tb, nodeName(1), provider.Resource{"power": "off"})
	steal(h, tb)
	for _, serial := range []string{"1", "2"} {
		set(t, tb, nodeName(1), provider.Resource{"power": "on", "restart_serial": serial})
		awaitNode(t, tb, nodeName(1), taken)
		if runs(h) {
			t.Error("it was started")
		}
	}
	stop()

	h = newFakeHost(t) // no testbed ran
	tb, stop = h.runOneNode()
	stop()
	steal(h, tb)
	tb, stop = h.run(-1)
	defer stop()
	awaitNode(t, tb, nodeName(1), taken)
	if runs(h) {
		t.Error("it is still running")
	}
	if _, err := trySet(tb, nodeName(1), provider.Resource{"users": userItems("bob")}); err == nil {
		t.Error("it accepts other changes than its removal")
	}
	remove(t, tb, nodeName(1))
	if got := allocationHolders(t, filepath.Join(h.dir, "claims/ids")); !slices.Contains(got, "other/node") {
		t.Errorf("the other lost its user ids: %v", got)
	}
}

func TestExperimentKeyIsRetried(t *testing.T) {
	_, tb := runFakeHost(t)
	// The key cannot be written.
	path := filepath.Join(tb.keysDir, sliceID(sliceURN))
	away := tb.keysDir + ".away"
	if err := os.Rename(tb.keysDir, away); err != nil {
		t.Fatal(err)
	}
	set(t, tb, nodeName(1), newNode("web", sliceURN, "alice"))
	if r := awaitNode(t, tb, nodeName(1), isSettled); isReady(r) || !strings.Contains(r.Text("message"), "key of the experiment") {
		t.Errorf("%v", r)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("it was written: %v", err)
	}
	if err := os.Rename(away, tb.keysDir); err != nil {
		t.Fatal(err)
	}
	setUntilReady(t, tb, nodeName(1), provider.Resource{"restart_serial": "1"})
}
