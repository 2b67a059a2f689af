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
		s.answered(s.commit())
	}
	seen(5)
	if err := os.Rename(s.path, s.path+".1"); err != nil {
		t.Fatal(err)
	}
	seen(0) // Seen does not read the moved file
	s.answered(s.commit())
	seen(6)
	if got, err := Seen(filepath.Join(s.dir, "nothing")); err != nil || got != 0 {
		t.Errorf("without an audit: %d, %v", got, err)
	}
}

// TestSettledWaitsForTheFile checks that a line that could not be written yet does not count as
// settled.
func TestSettledWaitsForTheFile(t *testing.T) {
	s := newSite(t)
	s.answered(s.commit())
	if got := s.log.Settled(); got != 1 {
		t.Errorf("after a line it is %d", got)
	}
	late := s.commit() // its call is not answered yet
	s.answered(s.commit())
	if got := s.log.Settled(); got != 1 {
		t.Errorf("while a line is missing it is %d", got)
	}
	s.answered(late)
	if got := s.log.Settled(); got != 3 {
		t.Errorf("after all lines it is %d", got)
	}
	// A folder in its place cannot be written.
	if err := os.Rename(s.path, s.path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.path, 0o700); err != nil {
		t.Fatal(err)
	}
	s.answered(s.commit())
	if got := s.log.Settled(); got != 3 {
		t.Errorf("while lines wait it is %d", got)
	}
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	s.answered(s.commit())
	if err := s.log.Reopen(); err != nil {
		t.Fatal(err)
	}
	if got := s.log.Settled(); got != 5 {
		t.Errorf("when they are written it is %d", got)
	}
}
