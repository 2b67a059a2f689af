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

func TestFullDiskKeepsNoNodeFromBeingRemoved(t *testing.T) {
	for _, killed := range []bool{false, true} {
		w := newWorld(t)
		tb, stop := w.one()
		w.mu.Lock()
		w.full = func(string, any) bool { return true }
		w.mu.Unlock()
		if _, err := ask(tb, nodeName(1), provider.Resource{"power": "off"}); err == nil {
			t.Error("what could not be noted was accepted")
		}
		if killed {
			w.breaks("remove", errors.New("busy"))
		}
		set(t, tb, nodeName(1), absent)
		if killed {
			stop()
			w.breaks("remove", nil)
			tb, stop = w.run(-1)
		}
		await(t, tb, nodeName(1), provider.Gone)
		w.nothingLeft(t, tb)
		stop()
	}
}

func TestSpoiltRecordOfTheGatewayIsToldWithARemedy(t *testing.T) {
	w := newWorld(t)
	tb, stop := w.run(-1)
	stop()
	path := filepath.Join(tb.o.State, gatewayFile)
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	tb = w.up(-1)
	err := tb.findMade()
	tb.close()
	if err == nil || !strings.Contains(err.Error(), "move "+path+" away") {
		t.Errorf("error %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, stop = w.run(-1)
	stop()
}

func TestGatewayKeepsNoPortThatIsNotOneOfTheSettings(t *testing.T) {
	w := newWorld(t)
	tb, stop := w.run(-1)
	port := tb.gatewayIDs.Port
	stop()
	w.settings.FirstPort = port + 10
	tb, stop = w.run(-1)
	defer stop()
	if got := tb.gatewayIDs.Port; got < w.settings.FirstPort || got > w.settings.LastPort {
		t.Errorf("it has port %d, those of the settings are %d to %d", got, w.settings.FirstPort, w.settings.LastPort)
	}
	if got := holders(t, filepath.Join(w.dir, "claims/ports")); len(got) != 1 {
		t.Errorf("claims of ports: %v", got)
	}
}

func TestNodeDoesNotRunOnUserIDsOfAnother(t *testing.T) {
	steal := func(w *world, tb *Testbed) {
		t.Helper()
		base := tb.node(nodeName(1)).snapshot().Base
		if err := errors.Join(tb.userIDs.Release(base, "testbed-t/"+nodeName(1)), tb.userIDs.Claim(base, "other/node")); err != nil {
			t.Fatal(err)
		}
	}
	runs := func(w *world) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.running[nodeName(1)] != nil
	}
	taken := func(r provider.Resource) bool { return r.Text("message") == takenMessage }

	w := newWorld(t) // while it is off
	tb, stop := w.one()
	bring(t, tb, nodeName(1), provider.Resource{"power": "off"})
	steal(w, tb)
	for _, serial := range []string{"1", "2"} {
		set(t, tb, nodeName(1), provider.Resource{"power": "on", "restart_serial": serial})
		await(t, tb, nodeName(1), taken)
		if runs(w) {
			t.Error("it was started")
		}
	}
	stop()

	w = newWorld(t) // while no testbed ran
	tb, stop = w.one()
	stop()
	steal(w, tb)
	tb, stop = w.run(-1)
	defer stop()
	await(t, tb, nodeName(1), taken)
	if runs(w) {
		t.Error("it goes on running")
	}
	if _, err := ask(tb, nodeName(1), provider.Resource{"users": userItems("bob")}); err == nil {
		t.Error("more can be asked of it than to be removed")
	}
	remove(t, tb, nodeName(1))
	if got := holders(t, filepath.Join(w.dir, "claims/ids")); !slices.Contains(got, "other/node") {
		t.Errorf("the other lost its user ids: %v", got)
	}
}

func TestKeyOfAnExperimentIsTriedAgain(t *testing.T) {
	_, tb := runningWorld(t)
	// Nothing can be written where the key belongs.
	path := filepath.Join(tb.keysDir, sliceID(sliceURN))
	away := tb.keysDir + ".away"
	if err := os.Rename(tb.keysDir, away); err != nil {
		t.Fatal(err)
	}
	set(t, tb, nodeName(1), present("web", sliceURN, "alice"))
	if r := await(t, tb, nodeName(1), settled); ready(r) || !strings.Contains(r.Text("message"), "key of the experiment") {
		t.Errorf("%v", r)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("it was written: %v", err)
	}
	if err := os.Rename(away, tb.keysDir); err != nil {
		t.Fatal(err)
	}
	bring(t, tb, nodeName(1), provider.Resource{"restart_serial": "1"})
}
