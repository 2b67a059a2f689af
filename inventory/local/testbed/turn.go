package testbed

import (
	"context"
	"sync"
)

// turns lets a number of lives do heavy work at once; those that remove
// something go first.
type turns struct {
	mu      sync.Mutex // guards all
	free    int
	waiting [2][]chan struct{} // who removes, all others
}

func newTurns(n int) *turns { return &turns{free: n} }

// take waits for a turn, which ends with give.
func (t *turns) take(ctx context.Context, removes bool) error {
	line := 1
	if removes {
		line = 0
	}
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	t.waiting[line] = append(t.waiting[line], turn)
	t.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range t.waiting[line] {
		if w == turn {
			t.waiting[line] = append(t.waiting[line][:i], t.waiting[line][i+1:]...)
			return ctx.Err()
		}
	}
	t.pass() // it came just now
	return ctx.Err()
}

func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

// pass gives a turn to the next, with t.mu held.
func (t *turns) pass() {
	for line := range t.waiting {
		if len(t.waiting[line]) > 0 {
			close(t.waiting[line][0])
			t.waiting[line] = t.waiting[line][1:]
			return
		}
	}
	t.free++
}
