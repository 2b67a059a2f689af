package node

import "sync"

// nodeLocks lets one goroutine at a time change a node.
type nodeLocks struct {
	mu    sync.Mutex
	nodes map[string]*nodeLock
}

type nodeLock struct {
	sync.Mutex
	waiting int // with the one whose turn it is; guarded by busy.mu
}

// lock waits until nobody changes the node id; the caller then calls what it
// returns when it is done.
func (b *nodeLocks) lock(id string) (unlock func()) {
	b.mu.Lock()
	if b.nodes == nil {
		b.nodes = make(map[string]*nodeLock)
	}
	t := b.nodes[id]
	if t == nil {
		t = new(nodeLock)
		b.nodes[id] = t
	}
	t.waiting++
	b.mu.Unlock()
	t.Lock()
	return func() {
		t.Unlock()
		b.mu.Lock()
		defer b.mu.Unlock()
		if t.waiting--; t.waiting == 0 {
			delete(b.nodes, id)
		}
	}
}
