package cert

import (
	"crypto/sha256"
	"sync"
)

// Cache stores values by the hash of their input. To limit the size, it has two halves.
// When the young half is full, it replaces the old half. Get copies a value from the old
// half to the young half. A Cache is safe for concurrent use.
type Cache[V any] struct {
	mu         sync.Mutex
	half       int
	young, old map[[sha256.Size]byte]V
}

// NewCache returns a cache of at most size values.
func NewCache[V any](size int) *Cache[V] { return &Cache[V]{half: size / 2} }

// Get returns the value under key, if the cache still has it.
func (m *Cache[V]) Get(key [sha256.Size]byte) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.young[key]
	if !ok {
		if v, ok = m.old[key]; ok {
			m.add(key, v)
		}
	}
	return v, ok
}

// Put stores a value.
func (m *Cache[V]) Put(key [sha256.Size]byte, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(key, v)
}

// add must be called with m.mu locked.
func (m *Cache[V]) add(key [sha256.Size]byte, v V) {
	if m.young == nil || len(m.young) >= m.half {
		m.old, m.young = m.young, map[[sha256.Size]byte]V{}
	}
	m.young[key] = v
}
