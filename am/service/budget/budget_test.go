package budget

import "testing"

// TestTake checks which amounts a caller gets beside what others have taken.
func TestTake(t *testing.T) {
	for _, c := range []struct {
		rule          string
		most, largest int64
		alice, bob    int64 // that they have taken before
		n             int64
		free          int64
		want          bool
	}{
		{"nothing is taken", 1000, 100, 0, 0, 250, 250, true},
		{"more than a quarter", 1000, 100, 0, 0, 251, 250, false},
		{"more than a quarter together", 1000, 100, 200, 0, 51, 250, false},
		{"the largest, beyond a quarter", 1000, 600, 0, 0, 600, 250, true},
		{"what others have taken does not count for the share", 1000, 100, 0, 250, 250, 250, true},
		{"a small amount from the reserve", 1000, 600, 0, 601, 200, 0, true},
		{"a large amount not from the reserve", 1000, 600, 0, 601, 200, 250, false},
		{"nothing is left for a small amount", 1000, 900, 0, 900, 101, 0, false},
	} {
		b := New(c.most, c.largest)
		if !b.Take("alice", c.alice, 0) || !b.Take("bob", c.bob, 0) {
			t.Fatalf("%s: the first amounts are refused", c.rule)
		}
		if got := b.Take("alice", c.n, c.free); got != c.want {
			t.Errorf("%s: %v", c.rule, got)
		}
	}
	b := New(1000, 100)
	b.Take("alice", 200, b.Reserve())
	b.Release("alice", 150)
	if b.Used() != 50 || !b.Take("alice", 200, b.Reserve()) {
		t.Errorf("released bytes are not free: %d", b.Used())
	}
}

// TestPerCaller checks that callers do not count for each other.
func TestPerCaller(t *testing.T) {
	b := PerCaller(1)
	if !b.Take("alice", 1, 0) || b.Take("alice", 1, 0) || !b.Take("bob", 1, 0) {
		t.Error("alice and bob may have one each")
	}
}
