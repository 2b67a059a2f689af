package fabric

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/require"
)

// vswitchHost returns a Host that uses the vswitch.
func vswitchHost(t *testing.T) *Host {
	t.Helper()
	require.NetNS(t)
	require.TUN(t)
	h := open(t, Auto)
	h.features.Netem = false // the same on every kernel
	return h
}

// SetLimits is called for the vswitch of each slice while it runs.
func TestSetLimitsPerSlice(t *testing.T) {
	h := vswitchHost(t)
	ctx := context.Background()
	placed := make(map[string]int)
	var mu sync.Mutex
	h.options.SetLimits = func(slice string, pid int) error {
		mu.Lock()
		defer mu.Unlock()
		placed[slice] = pid
		return nil
	}
	h.options.Ended = func(slice string) error {
		mu.Lock()
		defer mu.Unlock()
		if pid := placed[slice]; pid != 0 && syscall.Kill(pid, 0) == nil {
			t.Errorf("slice %s was left by its vswitch, which lives", slice)
		}
		delete(placed, slice)
		return nil
	}
	one, two := lan("s1", 2, Shape{Delay: time.Millisecond}), lan("s2", 2, Shape{Delay: time.Millisecond})
	setLink(t, h, one)
	setLink(t, h, two)
	if len(placed) != 2 || placed["s1"] == placed["s2"] {
		t.Errorf("placed: %v", placed)
	}
	one.Shapes = nil // needs no vswitch
	setLink(t, h, one)
	if placed["s1"] != 0 || placed["s2"] == 0 {
		t.Errorf("without need of the vswitch: %v", placed)
	}
	placed["s1"] = 0 // as after a crash
	for _, s := range []string{"s1", "s2"} {
		must(t, h.RemoveNetwork(ctx, s))
	}
	if len(placed) != 0 {
		t.Errorf("after the end of the slices: %v", placed)
	}
}

// Closing a persistent TAP is fast, and an earlier vswitch does not disturb the next.
func TestTAPsOutliveTheirVSwitch(t *testing.T) {
	h := vswitchHost(t)
	l := lan("s1", 12, Shape{Delay: time.Millisecond, Loss: 0.01})
	nodes := build(t, h, l)
	count := func(h *Host) int {
		t.Helper()
		have, err := h.slices["s1"].net.devices()
		must(t, err)
		return len(taps("lan", have))
	}
	if got := count(h); got != 12 {
		t.Errorf("there are %d TAPs", got)
	}
	must(t, h.slices["s1"].manager.Close())
	if got := count(h); got != 12 {
		t.Errorf("%d TAPs have outlived their vswitch", got)
	}
	must(t, h.Close())
	h2, err := Open(options(h.options.Folder, Auto))
	must(t, err)
	h2.features.Netem = false
	t.Cleanup(func() { h2.Close() })
	setLink(t, h2, l)
	plug(t, h2, l, nodes)
	if !isReachable(t, nodes[0], address(1), nodes[11], address(12), long) {
		t.Error("with the next vswitch nothing goes through")
	}
	l.Shapes = []Shape{{Delay: time.Millisecond}}
	setLink(t, h2, l)
	if !isReachable(t, nodes[0], address(1), nodes[11], address(12), long) {
		t.Error("with other TAPs nothing goes through")
	}
	l.Ends = l.Ends[:2]
	setLink(t, h2, l)
	if got := count(h2); got != 2 {
		t.Errorf("two ends have %d TAPs", got)
	}
	must(t, h2.RemoveNetwork(context.Background(), "s1"))
	h.closed = false // so that the end of the test finds nothing to drop
}

// Frames that the switch process cannot handle in time are counted at the sending end.
func TestOverrunsAreCounted(t *testing.T) {
	h := vswitchHost(t)
	pids := make(chan int, 1)
	h.options.SetLimits = func(_ string, pid int) error { pids <- pid; return nil }
	l := lan("s1", 2, Shape{Delay: time.Millisecond})
	nodes := build(t, h, l)
	if !isReachable(t, nodes[0], address(1), nodes[1], address(2), long) {
		t.Fatal("nothing goes through")
	}
	if c := counters(t, h)[l.Ends[0].ID]; c.Overruns != 0 {
		t.Errorf("before it is too much: %+v", c)
	}
	pid := <-pids
	must(t, syscall.Kill(pid, syscall.SIGSTOP)) // as on a host that is too slow
	to := newSink(t, nodes[1], address(2))
	stop := flood(t, nodes[0], address(1), to.addr, 1, 0)
	time.Sleep(100 * time.Millisecond)
	stop()
	must(t, syscall.Kill(pid, syscall.SIGCONT))
	c := counters(t, h)
	if one, two := c[l.Ends[0].ID], c[l.Ends[1].ID]; one.Overruns == 0 || two.Overruns != 0 {
		t.Errorf("from the node that sends too much: %+v; from the other: %+v", one, two)
	}
}
