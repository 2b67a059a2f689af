package credentials

import (
	"crypto/sha256"
	"testing"

	"patchbay/credentials/cert"
)

func TestTheSameAnchorsForgetNothing(t *testing.T) {
	z := New(cert.NewAnchors(), Config{})
	before := z.trust.Load()
	if z.SetAnchors(cert.NewAnchors()); z.trust.Load() != before {
		t.Error("what was remembered is forgotten, though the anchors are the same")
	}
}

func TestMemoryForgetsWhatWasNotAskedForLongest(t *testing.T) {
	m := newMemory[int](3)
	key := func(i int) [sha256.Size]byte { return [sha256.Size]byte{byte(i)} }
	for i := range 3 {
		m.put(key(i), i)
	}
	m.put(key(1), 11) // again: still three
	if v, ok := m.get(key(0)); !ok || v != 0 {
		t.Fatalf("0 is %d, %v", v, ok)
	}
	m.put(key(3), 3)
	for i, want := range []bool{true, true, false, true} {
		if _, ok := m.get(key(i)); ok != want {
			t.Errorf("entry %d is kept: %v, want %v", i, ok, want)
		}
	}
	if v, _ := m.get(key(1)); v != 11 || len(m.entries) != 3 || m.recent.Len() != 3 {
		t.Errorf("entry 1 is %d, %d entries", v, len(m.entries))
	}
}
