package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files of /proc report no size, and may be longer than one read.
func TestReadFileReadsAll(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, 511, 512, 5000} {
		path := filepath.Join(dir, "f")
		if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, err := readFile(path, 5000); err != nil || len(text) != size {
			t.Errorf("%d bytes: read %d, %v", size, len(text), err)
		}
		if _, err := readFile(path, int64(size)-1); size > 0 && err == nil {
			t.Errorf("%d bytes: read with a limit of %d", size, size-1)
		}
	}
	want, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := readFile("/proc/filesystems", 1<<20); err != nil || string(text) != string(want) {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Truncate(filepath.Join(dir, "f"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(filepath.Join(dir, "f"), 1000); err == nil {
		t.Error("a file of a terabyte was read")
	}
}
