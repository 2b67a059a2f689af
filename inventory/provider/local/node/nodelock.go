package node

import "sync"

// nodeLocks holds one lock per node, for changes of the node.
type nodeLocks struct {
	mu    sync.Mutex
	nodes map[string]*nodeLock
}

type nodeLock struct {
	sync.Mutex
	waiting int // goroutines that hold or await it; guarded by nodeLocks.mu
}

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
