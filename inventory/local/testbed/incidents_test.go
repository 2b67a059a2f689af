package testbed

import (
	"strings"
	"testing"
	"time"

	"patchbay/inventory/local/supervisor"
	"patchbay/inventory/provider"
)

// says is a node that is ready and has a message with that text; empty: no message.
func says(text string) func(provider.Resource) bool {
	return func(r provider.Resource) bool {
		message := r.Text(provider.AttrMessage)
		return ready(r) && strings.Contains(message, text) && (text != "" || message == "")
	}
}

// ooms lets the kernel end processes of a node for want of memory.
func (w *world) ooms(name string, more int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.oomKills[name] += more
}

// A node whose agent hangs is ready, says so, is not killed, and takes the message
// back when the agent goes on.
func TestNodeThatHangsSaysSoUntilItGoesOn(t *testing.T) {
	w := newWorld(t)
	tb := w.up(-1)
	tb.heartbeat = supervisor.Heartbeat{Every: time.Millisecond, Limit: 3}
	stop := w.serve(tb)
	defer stop()
	name := nodeName(1)
	bring(t, tb, name, present("web", sliceURN, "alice"))
	goOn := w.delays("hello " + name)
	await(t, tb, name, says("does not answer"))
	goOn()
	await(t, tb, name, says(""))
	if w.mu.Lock(); w.starts[name] != 1 {
		t.Errorf("it was started %d times", w.starts[name])
	}
	w.mu.Unlock()
}

// What went wrong in a node is told until its user restarts it, also by the next
// program, and each process that was ended is counted once.
func TestMishapsAreToldUntilTheRestart(t *testing.T) {
	w := newWorld(t)
	tb, stop := w.one()
	defer func() { stop() }()
	name := nodeName(1)
	w.ooms(name, 2)
	await(t, tb, name, says("2 processes were ended"))
	stop()
	tb, stop = w.run(-1)
	await(t, tb, name, says("2 processes were ended"))
	w.ooms(name, 1)
	await(t, tb, name, says("3 processes were ended"))
	tb.saveThrashingKill(name)
	await(t, tb, name, says("4 processes were ended"))
	w.dies(name)
	await(t, tb, name, says("its system ended unexpectedly and was restarted 1 time, last at"))
	w.ooms(name, 1)
	await(t, tb, name, says("5 processes were ended"))
	stop()
	tb, stop = w.run(-1)
	await(t, tb, name, says("5 processes were ended"))
	await(t, tb, name, says("was restarted 1 time"))
	set(t, tb, name, provider.Resource{"restart_serial": "1"})
	await(t, tb, name, says(""))
	w.ooms(name, 1)
	await(t, tb, name, says("1 process was ended"))
	set(t, tb, name, provider.Resource{"power": provider.Off})
	await(t, tb, name, says(""))
}

// A node that ended while no program ran says so, and why, until its user restarts it.
func TestEndsWhileNoProgramRanAreTold(t *testing.T) {
	w := newWorld(t)
	tb, stop := w.one()
	defer func() { stop() }()
	name := nodeName(1)
	again := func(boot bool) {
		stop()
		w.booted = boot
		w.dies(name)
		tb, stop = w.run(-1)
	}
	again(false)
	await(t, tb, name, says("its system ended unexpectedly and was restarted 1 time, last at"))
	again(true)
	await(t, tb, name, says("its host was rebooted, and it was restarted from its disk 1 time, last at"))
	await(t, tb, name, says("ended unexpectedly and was restarted 1 time"))
	again(true)
	await(t, tb, name, says("from its disk 2 times"))
	stop()
	tb, stop = w.run(-1)
	await(t, tb, name, says("from its disk 2 times"))
	set(t, tb, name, provider.Resource{"restart_serial": "1"})
	await(t, tb, name, says(""))
	again(true)
	await(t, tb, name, says("1 time"))
	set(t, tb, name, provider.Resource{"power": provider.Off})
	await(t, tb, name, says(""))
}
