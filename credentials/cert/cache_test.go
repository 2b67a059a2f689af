package cert

import (
	"crypto/sha256"
	"crypto/x509"
	"testing"
	"time"
)

func TestEachCertificateIsKeptOnce(t *testing.T) {
	a := NewAnchors()
	distinct := map[*Certificate]bool{}
	for i := range byte(100) {
		leaf, root := &Certificate{Certificate: new(x509.Certificate), hash: [sha256.Size]byte{i % 3}}, &Certificate{Certificate: new(x509.Certificate), hash: [sha256.Size]byte{99}}
		a.store([sha256.Size]byte{i}, Chain{leaf, root}, time.Time{})
	}
	for _, v := range a.verified.young {
		distinct[v.chain[0]], distinct[v.chain[1]] = true, true
	}
	if len(distinct) != 4 || len(a.verified.young) != 100 {
		t.Errorf("%d certificates in %d chains, want 4 in 100", len(distinct), len(a.verified.young))
	}
}

func TestCacheIsBoundedAndKeepsUsedEntries(t *testing.T) {
	m := NewCache[int](8)
	key := func(i int) [sha256.Size]byte { return [sha256.Size]byte{byte(i), byte(i >> 8)} }
	m.Put(key(0), 7)
	for i := 1; i < 1000; i++ {
		m.Put(key(i), i)
		if v, ok := m.Get(key(0)); !ok || v != 7 {
			t.Fatalf("after %d others the value in use is forgotten", i)
		}
		if n := len(m.young) + len(m.old); n > 8 {
			t.Fatalf("%d values are kept, at most 8", n)
		}
	}
	if _, ok := m.Get(key(1)); ok {
		t.Error("a value never asked for is kept for ever")
	}
}
