package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/require"
)

// TestRecoveryFromKills runs the real testbed under load and kills one of its processes,
// or all, at random instants. After each kill, every node must
// reach its last requested state, or report that it failed. Sometimes all nodes are
// removed, and the host must be as before.
func TestRecoveryFromKills(t *testing.T) {
	kills := require.Rounds(4, 40)
	seed := require.Seed(t)
	random := rand.New(rand.NewPCG(seed, 1))
	s := newCrashSite(t, fmt.Sprintf("crash-%d", os.Getpid()), t.TempDir())
	t.Cleanup(func() {
		s.killAll()
		_ = exec.Command(binary(), "clean", "--state", s.state, s.settings).Run()
	})
	untouched := s.hostState()
	s.start()
	// What stays after the first node, such as the image, is no leak.
	w := &desiredNode{Name: crashName(random), Client: "first", Place: 9, On: true, Users: []string{"alice"}}
	s.setUntilAccepted(w)
	s.waitSettled([]*desiredNode{w})
	s.removeAll([]*desiredNode{w})
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
		s.startIfDead()
		if n != kills-1 && random.IntN(3) == 0 { // the next kill comes during the recovery
			continue
		}
		load.pause(func(wishes []*desiredNode) {
			s.waitSettled(wishes)
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
	load.pause(s.removeAll)
	load.stop()
	s.stop(syscall.SIGTERM)
	if out, err := exec.Command(binary(), "clean", "--state", s.state, s.settings).CombinedOutput(); err != nil {
		t.Errorf("clean: %v: %s", err, out)
	}
	s.awaitAll(untouched)
	t.Logf("killed: %v; asked: %d; restarted by request after a failure: %d", killed, load.asked, s.healed)
}

// crashLoad creates and changes nodes all the time: one goroutine for each of several
// places.
type crashLoad struct {
	s      *crashSite
	paused atomic.Bool
	gate   sync.RWMutex // held for reading during a request
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex // guards the rest
	places []*desiredNode
	asked  int
}

func startLoad(s *crashSite, places int, seed uint64) *crashLoad {
	ctx, cancel := context.WithCancel(s.t.Context())
	l := &crashLoad{s: s, cancel: cancel, places: make([]*desiredNode, places)}
	for i := range places {
		random := rand.New(rand.NewPCG(seed, uint64(i)+2))
		l.done.Go(func() {
			for ctx.Err() == nil {
				if !l.paused.Load() {
					l.gate.RLock()
					s.setUntilAccepted(l.next(i, random))
					l.gate.RUnlock()
				}
				time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
			}
		})
	}
	return l
}

// next changes the desired node of a place.
func (l *crashLoad) next(i int, r *rand.Rand) *desiredNode {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	w := l.places[i]
	if w == nil || w.Removed {
		w = &desiredNode{Name: crashName(r), Client: fmt.Sprintf("node%d", i), Place: i, On: r.IntN(4) > 0, Users: []string{"alice"}}
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

// pause stops new requests, waits for those in progress, and calls f with the desired
// nodes.
func (l *crashLoad) pause(f func(wishes []*desiredNode)) {
	l.paused.Store(true)
	defer l.paused.Store(false)
	for !l.gate.TryLock() {
		l.s.startIfDead()
		time.Sleep(time.Millisecond)
	}
	defer l.gate.Unlock()
	var wishes []*desiredNode
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
