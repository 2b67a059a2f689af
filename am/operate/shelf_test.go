package operate

import (
	"slices"
	"testing"
)

// TestShelf holds that what is unread is bounded together, and that who moves stays.
func TestShelf(t *testing.T) {
	s := newShelf(100)
	var out []string
	put := func(name string, size int) *shelved { return s.put(size, func() { out = append(out, name) }) }
	dropped := func(want ...string) {
		t.Helper()
		if !slices.Equal(out, want) {
			t.Errorf("%q are pushed out, want %q", out, want)
		}
		out = nil
	}
	read := func() {}
	a, b, c := put("a", 40), put("b", 40), put("c", 20)
	dropped()
	if !a.move(read) || !c.move(read) {
		t.Error("what is there cannot be read")
	}
	d := put("d", 30)
	dropped("b")
	if b.move(func() { t.Error("what was pushed out goes on") }) {
		t.Error("what was pushed out can be read")
	}
	b.take() // ends late
	c.take()
	put("e", 30)
	dropped()
	put("f", 31)
	dropped("a")
	if !d.move(read) {
		t.Error("there was room for it")
	}
	put("g", 200) // alone
	dropped("e", "f", "d")
	put("h", 1)
	dropped("g")
}
