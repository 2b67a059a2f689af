package hook

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"patchbay/am/store"
)

// memory is a store's engine that keeps all in memory: a model opens it often. It
// stays as it is when it is closed.
type memory struct {
	mu      sync.RWMutex
	buckets map[string]map[string][]byte
	closed  bool
}

func (m *memory) View(f func(store.Reader) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return errors.New("closed")
	}
	return f(m)
}

func (m *memory) Apply(ops []store.Op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errors.New("closed")
	}
	for _, o := range ops {
		b := m.buckets[o.Bucket]
		if b == nil {
			b = map[string][]byte{}
			m.buckets[o.Bucket] = b
		}
		if o.Value == nil {
			delete(b, string(o.Key))
		} else {
			b[string(o.Key)] = slices.Clone(o.Value)
		}
	}
	return nil
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (m *memory) Get(bucket string, key []byte) []byte { return m.buckets[bucket][string(key)] }

func (m *memory) Scan(bucket string, prefix, from []byte, f func(k, v []byte) bool) {
	b := m.buckets[bucket]
	for _, k := range slices.Sorted(maps.Keys(b)) {
		if strings.HasPrefix(k, string(prefix)) && k >= string(from) && !f([]byte(k), b[k]) {
			return
		}
	}
}
