package audit

import (
	"os"
	"path/filepath"
	"testing"

	"patchbay/am/store"
)

// TestSeen checks the last revision of the store that the audit file has, also after the file was
// moved away.
func TestSeen(t *testing.T) {
	s := newSite(t)
	seen := func(want store.Rev) {
		t.Helper()
		if got, err := Seen(s.path); err != nil || got != want {
			t.Errorf("seen is %d, %v; want %d", got, err, want)
		}
	}
	seen(0)
	for range 5 {
		s.commit()
	}
	s.follow()
	seen(6) // the first is the cursor
	if err := os.Rename(s.path, s.path+".1"); err != nil {
		t.Fatal(err)
	}
	seen(0) // Seen does not read the moved file
	s.commit()
	s.follow()
	seen(7)
	if got, err := Seen(filepath.Join(s.dir, "nothing")); err != nil || got != 0 {
		t.Errorf("without an audit: %d, %v", got, err)
	}
}
