package faithful_test

import (
	"os"
	"path/filepath"
	"testing"
)

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
