package web

import (
	"context"
	"net/http"
	"sync"
)

const (
	// turnsAtOnce is the number of pages of one caller that are made at the same time; turnsWaiting is how many
	// more may wait.
	turnsAtOnce  = 2
	turnsWaiting = 30
)

// turns lets each caller have a few pages made at the same time.
type turns struct {
	mu sync.Mutex
	by map[string]*turn
}

type turn struct {
	places chan struct{}
	users  int // that have a place or wait for one
}

// take waits for a place. Call end when the page is made. It fails if too many wait.
func (t *turns) take(ctx context.Context, caller string) (end func(), err error) {
	t.mu.Lock()
	x := t.by[caller]
	if x == nil {
		x = &turn{places: make(chan struct{}, turnsAtOnce)}
		if t.by == nil {
			t.by = map[string]*turn{}
		}
		t.by[caller] = x
	}
	if x.users >= turnsAtOnce+turnsWaiting {
		t.mu.Unlock()
		return nil, &problem{http.StatusServiceUnavailable, "Too many requests", "Many of your pages are still being made. Wait a moment, then reload this page."}
	}
	x.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if x.users--; x.users == 0 {
			delete(t.by, caller)
		}
	}
	select {
	case x.places <- struct{}{}:
		return func() { <-x.places; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
