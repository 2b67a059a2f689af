package fabric

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/need"
	"patchbay/inventory/local/vswitch"
)

// relayed is a Host that uses the relay.
func relayed(t *testing.T) *Host {
	t.Helper()
	need.NetNS(t)
	need.TUN(t)
	h := open(t, Auto)
	h.able.Netem = false // the same on every kernel
	return h
}

func TestRelayDelaysEachDirection(t *testing.T) {
	h := relayed(t)
	const ms = time.Millisecond
	l := lan("s1", 3, Shape{From: []string{a}, To: []string{b}, Delay: 10 * ms}, Shape{From: []string{b}, To: []string{a}, Delay: 5 * ms})
	nodes := build(t, h, l)
	for _, tc := range []struct {
		from, to int
		want     time.Duration
	}{{1, 2, 15 * ms}, {2, 1, 15 * ms}, {1, 3, 0}, {3, 2, 0}} {
		to := echo(nodes[tc.to-1], address(tc.to))
		takes(t, nodes[tc.from-1], address(tc.from), to, tc.want, tc.want/20+2*ms)
	}
}

func TestRelayLosesSinglePackets(t *testing.T) {
	h := relayed(t)
	l := lan("s1", 2, Shape{To: []string{b}, Loss: 0.1})
	nodes := build(t, h, l)
	const packets = 8000
	loses(t, nodes[0], address(1), nodes[1], address(2), 0.1, packets, 16, 150) // of 500 pieces chance spares 93
	loses(t, nodes[1], address(2), nodes[0], address(1), 0, 4000, 1, 0)
	if c := counters(t, h)[b]; c.Dropped < packets/20 || c.RxPackets < packets/2 {
		t.Errorf("Counters: %+v", c)
	}
}

func TestRelayWithCapacity(t *testing.T) {
	h := relayed(t)
	l := lan("s1", 3, Shape{Delay: time.Millisecond, Rate: 20_000})
	nodes := build(t, h, l)
	for _, tc := range []struct {
		means string
		to    int
		want  float64
		shape Shape
	}{
		{"tbf+relay", 2, 20, Shape{}},
		{"relay", 2, 5, Shape{From: []string{a}, To: []string{b}, Rate: 5000}},
		{"relay", 3, 20, Shape{From: []string{a}, To: []string{b}, Rate: 5000}},
	} {
		l := l
		l.Shapes = append(l.Shapes[:1:1], tc.shape)
		if got := put(t, h, l); got != tc.means {
			t.Errorf("the means are %s, want %s", got, tc.means)
		}
		flows(t, nodes[0], address(1), nodes[tc.to-1], address(tc.to), tc.want, 0.85, 1.07, time.Millisecond)
	}
}

// relays are the processes of this one's relays.
func relays(t *testing.T) (list []int) {
	t.Helper()
	children, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range children {
		b, _ := os.ReadFile(path)
		for _, f := range strings.Fields(string(b)) {
			line, _ := os.ReadFile("/proc/" + f + "/cmdline")
			if name, _, _ := strings.Cut(string(line), "\x00"); name == vswitch.Argv0 {
				pid, err := strconv.Atoi(f)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, pid)
			}
		}
	}
	return list
}

// The relay of each slice has its own place, while it has one.
func TestRelaysArePlacedBySlice(t *testing.T) {
	h := relayed(t)
	ctx := context.Background()
	placed := make(map[string]int)
	var mu sync.Mutex
	h.o.Place = func(slice string, pid int) error {
		mu.Lock()
		defer mu.Unlock()
		placed[slice] = pid
		return nil
	}
	h.o.Left = func(slice string) error {
		mu.Lock()
		defer mu.Unlock()
		if pid := placed[slice]; pid != 0 && syscall.Kill(pid, 0) == nil {
			t.Errorf("slice %s was left by its relay, which lives", slice)
		}
		delete(placed, slice)
		return nil
	}
	one, two := lan("s1", 2, Shape{Delay: time.Millisecond}), lan("s2", 2, Shape{Delay: time.Millisecond})
	put(t, h, one)
	put(t, h, two)
	if len(placed) != 2 || placed["s1"] == placed["s2"] {
		t.Errorf("placed: %v", placed)
	}
	one.Shapes = nil // needs no relay
	put(t, h, one)
	if placed["s1"] != 0 || placed["s2"] == 0 {
		t.Errorf("without need of the relay: %v", placed)
	}
	placed["s1"] = 0 // as after a crash
	for _, s := range []string{"s1", "s2"} {
		if err := h.Drop(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	if len(placed) != 0 {
		t.Errorf("after the end of the slices: %v", placed)
	}
}

func TestRelayThatIsKilledComesBack(t *testing.T) {
	h := relayed(t)
	nodes := build(t, h, lan("s1", 2, Shape{Delay: time.Millisecond}))
	s := newSink(t, nodes[1], address(2))
	stop := flood(t, nodes[0], address(1), s.addr, 1, 20*time.Microsecond)
	defer stop()
	for range 3 {
		old := relays(t)
		if len(old) != 1 {
			t.Fatalf("relays: %v", old)
		}
		if err := syscall.Kill(old[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		deadline, before := time.Now().Add(30*time.Second), s.bytes.Load()
		for s.bytes.Load() < before+100*payload {
			if time.Now().After(deadline) {
				t.Fatal("after its relay was killed a link stays dead")
			}
			time.Sleep(5 * time.Millisecond)
		}
		if !reaches(t, nodes[1], address(2), nodes[0], address(1), long) {
			t.Error("the other direction is dead")
		}
	}
	if err := h.Drop(context.Background(), "s1"); err != nil {
		t.Fatal(err)
	}
	if got := relays(t); len(got) != 0 {
		t.Errorf("after Drop there are relays: %v", got)
	}
}

// Closing a TAP that is to stay takes no time, and nothing of an earlier relay is
// in the way of the next.
func TestTAPsOutliveTheirRelay(t *testing.T) {
	h := relayed(t)
	l := lan("s1", 12, Shape{Delay: time.Millisecond, Loss: 0.01})
	nodes := build(t, h, l)
	count := func(h *Host) int {
		t.Helper()
		have, err := h.slices["s1"].net.devices()
		if err != nil {
			t.Fatal(err)
		}
		return len(taps("lan", have))
	}
	if got := count(h); got != 12 {
		t.Errorf("there are %d TAPs", got)
	}
	if err := h.slices["s1"].keeper.Close(); err != nil {
		t.Fatal(err)
	}
	if got := count(h); got != 12 {
		t.Errorf("%d TAPs have outlived their relay", got)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h2, err := Open(options(h.o.Folder, Auto))
	if err != nil {
		t.Fatal(err)
	}
	h2.able.Netem = false
	t.Cleanup(func() { h2.Close() })
	put(t, h2, l)
	plug(t, h2, l, nodes)
	if !reaches(t, nodes[0], address(1), nodes[11], address(12), long) {
		t.Error("with the next relay nothing goes through")
	}
	l.Shapes = []Shape{{Delay: time.Millisecond}}
	put(t, h2, l)
	if !reaches(t, nodes[0], address(1), nodes[11], address(12), long) {
		t.Error("with other TAPs nothing goes through")
	}
	l.Ends = l.Ends[:2]
	put(t, h2, l)
	if got := count(h2); got != 2 {
		t.Errorf("two ends have %d TAPs", got)
	}
	if err := h2.Drop(context.Background(), "s1"); err != nil {
		t.Fatal(err)
	}
	h.closed = false // so that the end of the test finds nothing to drop
}
