package hostalloc

import "testing"

func TestNetworksAreAllocatedOnce(t *testing.T) {
	f := Networks(t.TempDir(), 2)
	fits := func(n uint32) bool { return n != 1 }
	if n, err := f.Allocate("x:outbound", fits); err != nil || n != 2 {
		t.Errorf("took %d, %v", n, err)
	}
	if err := f.Claim(2, "y:outbound"); err == nil {
		t.Error("another's is held")
	}
	if err := f.Release(2, "x:outbound"); err != nil {
		t.Error(err)
	}
	if err := f.Claim(2, "y:outbound"); err != nil {
		t.Errorf("it rests: %v", err)
	}
}
