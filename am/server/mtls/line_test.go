package mtls

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am/testkit/wait"
)

// Many connections of one address do not delay another address, which gets every other turn.
func TestAddressesTakeTurns(t *testing.T) {
	var l line
	n := runtime.GOMAXPROCS(0)
	for range n { // all processors are taken
		l.enter(netip.Addr{})
	}
	flood, good := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var mu sync.Mutex
	var order []netip.Addr
	var all sync.WaitGroup
	come := func(a netip.Addr, waiting int) {
		all.Go(func() {
			l.enter(a)
			mu.Lock()
			defer mu.Unlock()
			order = append(order, a)
		})
		wait.Until(t, fmt.Sprintf("%d of %s wait", waiting, a), func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.waiting[a]) == waiting
		})
	}
	for i := range 20 {
		come(flood, i+1)
	}
	come(good, 1)
	for i := range 21 { // one after the other, so that their order is known
		l.leave()
		wait.Until(t, fmt.Sprintf("a turn after %d have left", i+1), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(order) > i
		})
	}
	all.Wait()
	for range n { // the last of those who had a turn
		l.leave()
	}
	if at := slices.Index(order, good); at != 1 {
		t.Errorf("the good one had turn %d: %v", at, order)
	}
	if l.busy != 0 || len(l.waiting) != 0 || len(l.turns) != 0 {
		t.Errorf("when all is done, %d compute, %d wait, %d have turns", l.busy, len(l.waiting), len(l.turns))
	}
}

// InTurn runs at most one function per processor, and a panic frees its processor.
func TestInTurn(t *testing.T) {
	c := new(Context)
	var running, most atomic.Int64
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			defer func() { recover() }()
			c.InTurn(&net.TCPAddr{IP: net.IPv4(192, 0, 2, byte(i%3))}, func() {
				n := running.Add(1)
				defer running.Add(-1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				time.Sleep(100 * time.Microsecond)
				if i%10 == 0 {
					panic("in turn")
				}
			})
		})
	}
	all.Wait()
	if n := most.Load(); n > int64(runtime.GOMAXPROCS(0)) || c.line.busy != 0 {
		t.Errorf("%d at a time on %d processors; %d still", n, runtime.GOMAXPROCS(0), c.line.busy)
	}
}

func TestTurnsAreThoseOfAHost(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::",
	} {
		if got := turnOf(&net.TCPAddr{IP: net.ParseIP(addr)}).String(); got != want {
			t.Errorf("%s takes the turn of %s, want %s", addr, got, want)
		}
	}
	if got := turnOf(&net.UnixAddr{}); got.IsValid() {
		t.Errorf("no address takes the turn of %s", got)
	}
}
