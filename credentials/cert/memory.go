package cert

import (
	"crypto/sha256"
	"sync"
	"time"
)

// memory keeps verified chains, bounded: when the young half is full it
// becomes the old half, and what was in the old half and not asked for since
// is forgotten. Every certificate is kept once, however many chains it is in
// and however often it was read.
type memory struct {
	mu         sync.Mutex
	half       int
	young, old map[[sha256.Size]byte]verified
	shared     map[[sha256.Size]byte]*Certificate // of the chains
}

// verified is a chain with the time in which every certificate of it is known
// to be valid: since it was verified, until the first one expires.
type verified struct {
	chain      Chain
	from, ends time.Time
}

func newMemory(size int) *memory {
	return &memory{half: size / 2, young: map[[sha256.Size]byte]verified{}, shared: map[[sha256.Size]byte]*Certificate{}}
}

func (m *memory) get(key [sha256.Size]byte, now time.Time) (Chain, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.young[key]
	if !ok {
		if v, ok = m.old[key]; ok {
			m.putLocked(key, v)
		}
	}
	if !ok || now.Before(v.from) || now.After(v.ends) {
		return nil, false
	}
	return v.chain, true
}

// put keeps a chain, and makes it one of certificates that are kept.
func (m *memory) put(key [sha256.Size]byte, v verified) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, c := range v.chain {
		known, ok := m.shared[c.hash]
		if !ok {
			if len(m.shared) >= 2*m.half {
				m.shared = map[[sha256.Size]byte]*Certificate{}
			}
			known, m.shared[c.hash] = c, c
		}
		v.chain[i] = known
	}
	m.putLocked(key, v)
}

func (m *memory) putLocked(key [sha256.Size]byte, v verified) {
	if len(m.young) >= m.half {
		m.old, m.young = m.young, make(map[[sha256.Size]byte]verified)
	}
	m.young[key] = v
}
