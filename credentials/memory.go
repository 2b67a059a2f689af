package credentials

import (
	"container/list"
	"crypto/sha256"
	"sync"
)

// memory keeps what was verified by the hash of what was shown; beyond its
// size the entry that was not asked for longest is forgotten.
type memory[V any] struct {
	mu      sync.Mutex
	size    int
	entries map[[sha256.Size]byte]*list.Element
	recent  list.List // of entry[V], the latest in front
}

type entry[V any] struct {
	key   [sha256.Size]byte
	value V
}

func newMemory[V any](size int) *memory[V] {
	return &memory[V]{size: size, entries: map[[sha256.Size]byte]*list.Element{}}
}

func (m *memory[V]) get(key [sha256.Size]byte) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	if !ok {
		var zero V
		return zero, false
	}
	m.recent.MoveToFront(e)
	return e.Value.(entry[V]).value, true
}

func (m *memory[V]) put(key [sha256.Size]byte, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok {
		e.Value = entry[V]{key, value}
		m.recent.MoveToFront(e)
		return
	}
	m.entries[key] = m.recent.PushFront(entry[V]{key, value})
	if m.recent.Len() > m.size {
		last := m.recent.Remove(m.recent.Back()).(entry[V])
		delete(m.entries, last.key)
	}
}
