package cert

import (
	"crypto/sha256"
	"sync"
)

// Memory keeps values by the hash of what they were made of. It is bounded: when
// the young half is full it becomes the old half, and what was in the old half
// and not asked for since is forgotten. It is safe for concurrent use.
type Memory[V any] struct {
	mu         sync.Mutex
	half       int
	young, old map[[sha256.Size]byte]V
}

// NewMemory makes a memory of at most size values.
func NewMemory[V any](size int) *Memory[V] { return &Memory[V]{half: size / 2} }

// Get returns the value that Put kept.
func (m *Memory[V]) Get(key [sha256.Size]byte) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.young[key]
	if !ok {
		if v, ok = m.old[key]; ok {
			m.put(key, v)
		}
	}
	return v, ok
}

// Put keeps a value.
func (m *Memory[V]) Put(key [sha256.Size]byte, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, v)
}

func (m *Memory[V]) put(key [sha256.Size]byte, v V) {
	if m.young == nil || len(m.young) >= m.half {
		m.old, m.young = m.young, map[[sha256.Size]byte]V{}
	}
	m.young[key] = v
}
