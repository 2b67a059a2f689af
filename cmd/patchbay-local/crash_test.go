package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/require"
)

// TestKillsLeaveNothingHalf runs the real testbed under load and kills one of
// its processes, or all, at random instants, as often as PATCHBAY_KILLS says.
// After each, everything must become as last asked, or say that it failed; now
// and then all is removed, and the host must be as before.
func TestKillsLeaveNothingHalf(t *testing.T) {
	kills := number(t, "PATCHBAY_KILLS", 12)
	seed := require.Seed(t)
	t.Logf("PATCHBAY_KILLS=%d", kills)
	random := rand.New(rand.NewPCG(seed, 1))
	s := newCrashSite(t, fmt.Sprintf("crash-%d", os.Getpid()), t.TempDir())
	t.Cleanup(func() {
		s.killAll()
		_ = exec.Command(binary(), "clean", "--state", s.state, s.settings).Run()
	})
	untouched := s.everything()
	s.start()
	// What stays from the first node on, such as the image, is no leak.
	w := &crashWish{Name: crashName(random), Client: "first", Place: 9, On: true, Users: []string{"alice"}}
	s.insist(w)
	s.settle([]*crashWish{w})
	s.removeAll([]*crashWish{w})
	s.stop(syscall.SIGTERM)
	empty := s.awaitFiles(untouched)
	s.start()

	const slots = 4
	load := startLoad(s, slots, seed)
	defer load.stop()
	killed := make(map[string]int)
	for n := range kills {
		time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
		killed[s.kill(random)]++
		s.revive()
		if n != kills-1 && random.IntN(3) == 0 { // the next kill meets what is still being mended
			continue
		}
		load.hold(func(wishes []*crashWish) {
			s.settle(wishes)
			if n%10 != 9 && n != kills-1 {
				return
			}
			s.removeAll(wishes)
			s.stop(syscall.SIGTERM)
			s.awaitAll(empty)
			s.start()
		})
		if t.Failed() {
			break
		}
	}
	load.hold(s.removeAll)
	load.stop()
	s.stop(syscall.SIGTERM)
	if out, err := exec.Command(binary(), "clean", "--state", s.state, s.settings).CombinedOutput(); err != nil {
		t.Errorf("clean: %v: %s", err, out)
	}
	s.awaitAll(untouched)
	t.Logf("killed: %v; asked: %d; restarted by request after a failure: %d", killed, load.asked, s.healed)
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number above 0", name, text)
	}
	return n
}

// crashLoad asks for nodes and changes of nodes all the time: one goroutine for
// each of a few places.
type crashLoad struct {
	s      *crashSite
	paused atomic.Bool
	gate   sync.RWMutex // a place holds it for reading while it asks
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex // guards the rest
	places []*crashWish
	asked  int
}

func startLoad(s *crashSite, places int, seed uint64) *crashLoad {
	ctx, cancel := context.WithCancel(s.t.Context())
	l := &crashLoad{s: s, cancel: cancel, places: make([]*crashWish, places)}
	for i := range places {
		random := rand.New(rand.NewPCG(seed, uint64(i)+2))
		l.done.Go(func() {
			for ctx.Err() == nil {
				if !l.paused.Load() {
					l.gate.RLock()
					s.insist(l.next(i, random))
					l.gate.RUnlock()
				}
				time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
			}
		})
	}
	return l
}

// next changes what is wished in a place.
func (l *crashLoad) next(i int, r *rand.Rand) *crashWish {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	w := l.places[i]
	if w == nil || w.Removed {
		w = &crashWish{Name: crashName(r), Client: fmt.Sprintf("node%d", i), Place: i, On: r.IntN(4) > 0, Users: []string{"alice"}}
		l.places[i] = w
		return w
	}
	switch r.IntN(6) {
	case 0:
		w.Removed = true
	case 1:
		w.On = !w.On
	case 2, 3:
		w.Serial++
	default:
		w.Users = [][]string{{"alice"}, {"alice", "bob"}, {"bob"}, {}}[r.IntN(4)]
	}
	return w
}

// hold keeps everybody from asking while f runs, with what is wished. Who asks
// just now goes on until that is accepted.
func (l *crashLoad) hold(f func(wishes []*crashWish)) {
	l.paused.Store(true)
	defer l.paused.Store(false)
	for !l.gate.TryLock() {
		l.s.revive()
		time.Sleep(time.Millisecond)
	}
	defer l.gate.Unlock()
	var wishes []*crashWish
	for _, w := range l.places {
		if w != nil {
			wishes = append(wishes, w)
		}
	}
	f(wishes)
}

func (l *crashLoad) stop() {
	l.cancel()
	l.done.Wait()
}
