package cert

import (
	"crypto/sha256"
	"testing"
	"time"
)

func TestMemoryKeepsEachCertificateOnce(t *testing.T) {
	m := newMemory(8)
	for i := range byte(100) {
		leaf, root := &Certificate{hash: [sha256.Size]byte{i % 3}}, &Certificate{hash: [sha256.Size]byte{99}}
		m.put([sha256.Size]byte{i}, verified{chain: Chain{leaf, root}, ends: time.Unix(9, 0)})
	}
	distinct := map[*Certificate]bool{}
	for _, half := range []map[[sha256.Size]byte]verified{m.young, m.old} {
		for _, v := range half {
			distinct[v.chain[0]], distinct[v.chain[1]] = true, true
		}
	}
	if len(distinct) != 4 || len(m.young)+len(m.old) < 4 {
		t.Errorf("%d certificates in %d chains, want 4", len(distinct), len(m.young)+len(m.old))
	}
	for i := range byte(100) {
		m.put([sha256.Size]byte{i}, verified{chain: Chain{{hash: [sha256.Size]byte{i, 1}}}})
	}
	if len(m.shared) > 8 {
		t.Errorf("%d certificates are kept, at most 8 may", len(m.shared))
	}
}

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
