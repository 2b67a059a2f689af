package cert

import (
	"crypto/sha256"
	"testing"
	"time"
)

func TestMemoryIsBoundedAndKeepsWhatIsUsed(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	m := newMemory(8)
	key := func(i int) [sha256.Size]byte { return [sha256.Size]byte{byte(i), byte(i >> 8)} }
	v := verified{chain: Chain{}, from: now, ends: now.Add(time.Hour)}
	m.put(key(0), v)
	for i := 1; i < 1000; i++ {
		m.put(key(i), v)
		if _, ok := m.get(key(0), now); !ok {
			t.Fatalf("after %d others the chain in use is forgotten", i)
		}
		if n := len(m.young) + len(m.old); n > 8 {
			t.Fatalf("%d chains are kept, at most 8", n)
		}
	}
	if _, ok := m.get(key(1), now); ok {
		t.Error("a chain never asked for is kept for ever")
	}
}
