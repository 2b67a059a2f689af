package faithful_test

import (
	"os"
	"path/filepath"
	"testing"

	"patchbay/am/urn"
)

// TestNasty holds the hand-written documents: each is one corner of XML or of
// RSpec, all nodes that name nobody or example.org are ours.
func TestNasty(t *testing.T) {
	all := nasty(t)
	if len(all) < 15 {
		t.Fatalf("only %d documents in testdata", len(all))
	}
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			if _, _, reasons := held(t, name, b, []urn.URN{manager}); reasons != nil {
				t.Errorf("refused: %q", reasons)
			}
		})
	}
}

// nasty are the hand-written documents.
func nasty(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/*.xml")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(file)] = b
	}
	return found
}
