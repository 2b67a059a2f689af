package store

import (
	"bytes"
	"os"
	"testing"
)

// FuzzPages checks that any file is examined in bounded time and without a panic.
func FuzzPages(f *testing.F) {
	f.Add(uint32(0), []byte{})
	f.Add(uint32(4096*3+10), []byte{0xff, 0xff})
	f.Add(uint32(4096*4+16), []byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	whole, err := os.ReadFile(filled(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, place uint32, with []byte) {
		b := bytes.Clone(whole)
		copy(b[int(place)%len(b):], with)
		p := &pages{r: bytes.NewReader(b), page: 4096}
		if _, err := p.check(int64(len(b))); err != nil && len(with) == 0 {
			t.Errorf("an undamaged file is refused: %v", err)
		}
	})
}
