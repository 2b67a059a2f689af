package testbed

import (
	"strings"
	"testing"
	"time"

	"patchbay/inventory/provider"
	"patchbay/inventory/provider/supervisor"
)

// hasMessage accepts a ready node whose message contains text; empty: no message.
func hasMessage(text string) func(provider.Resource) bool {
	return func(r provider.Resource) bool {
		message := r.Text(provider.AttrMessage)
		return isReady(r) && strings.Contains(message, text) && (text != "" || message == "")
	}
}

// addOOMKills simulates OOM kills in a node.
func (h *fakeHost) addOOMKills(name string, more int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.oomKills[name] += more
}

// A node whose agent hangs stays ready, reports it, is not killed, and stops reporting it when the
// agent recovers.
func TestHangingNodeIsReportedUntilItRecovers(t *testing.T) {
	h := newFakeHost(t)
	tb := h.open(-1)
	tb.heartbeat = supervisor.Heartbeat{Every: time.Millisecond, Limit: 3}
	stop := h.startServing(tb)
	defer stop()
	name := nodeName(1)
	setUntilReady(t, tb, name, newNode("web", sliceURN, "alice"))
	goOn := h.delayOperation("hello " + name)
	awaitNode(t, tb, name, hasMessage("does not answer"))
	goOn()
	awaitNode(t, tb, name, hasMessage(""))
	if h.mu.Lock(); h.starts[name] != 1 {
		t.Errorf("it was started %d times", h.starts[name])
	}
	h.mu.Unlock()
}

// Incidents are reported until the user restarts the node, also after a restart of the program,
// and each killed process is counted once.
func TestIncidentsAreReportedUntilTheRestart(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.runOneNode()
	defer func() { stop() }()
	name := nodeName(1)
	h.addOOMKills(name, 2)
	awaitNode(t, tb, name, hasMessage("2 processes were ended"))
	stop()
	tb, stop = h.run(-1)
	awaitNode(t, tb, name, hasMessage("2 processes were ended"))
	h.addOOMKills(name, 1)
	awaitNode(t, tb, name, hasMessage("3 processes were ended"))
	tb.saveThrashingKill(name)
	awaitNode(t, tb, name, hasMessage("4 processes were ended"))
	h.killSystem(name)
	awaitNode(t, tb, name, hasMessage("its system ended unexpectedly and was restarted 1 time, last at"))
	h.addOOMKills(name, 1)
	awaitNode(t, tb, name, hasMessage("5 processes were ended"))
	stop()
	tb, stop = h.run(-1)
	awaitNode(t, tb, name, hasMessage("5 processes were ended"))
	awaitNode(t, tb, name, hasMessage("was restarted 1 time"))
	set(t, tb, name, provider.Resource{"restart_serial": "1"})
	awaitNode(t, tb, name, hasMessage(""))
	h.addOOMKills(name, 1)
	awaitNode(t, tb, name, hasMessage("1 process was ended"))
	set(t, tb, name, provider.Resource{"power": provider.Off})
	awaitNode(t, tb, name, hasMessage(""))
}

// A node that ended while no program ran reports that until its user restarts it.
func TestDeathsWhileStoppedAreReported(t *testing.T) {
	h := newFakeHost(t)
	tb, stop := h.runOneNode()
	defer func() { stop() }()
	name := nodeName(1)
	again := func(boot bool) {
		stop()
		h.booted = boot
		h.killSystem(name)
		tb, stop = h.run(-1)
	}
	again(false)
	awaitNode(t, tb, name, hasMessage("its system ended unexpectedly and was restarted 1 time, last at"))
	again(true)
	awaitNode(t, tb, name, hasMessage("its host was rebooted, and it was restarted from its disk 1 time, last at"))
	awaitNode(t, tb, name, hasMessage("ended unexpectedly and was restarted 1 time"))
	again(true)
	awaitNode(t, tb, name, hasMessage("from its disk 2 times"))
	stop()
	tb, stop = h.run(-1)
	awaitNode(t, tb, name, hasMessage("from its disk 2 times"))
	set(t, tb, name, provider.Resource{"restart_serial": "1"})
	awaitNode(t, tb, name, hasMessage(""))
	again(true)
	awaitNode(t, tb, name, hasMessage("1 time"))
	set(t, tb, name, provider.Resource{"power": provider.Off})
	awaitNode(t, tb, name, hasMessage(""))
}
