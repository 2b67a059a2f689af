package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFormatPreparesDisks(t *testing.T) {
	h := openHost(t, "node-format")
	s := spec("n1", testImage(t))
	must(t, h.Format(t.Context(), s.Limits.Disk))
	t.Setenv("PATH", t.TempDir()) // mke2fs is no longer found
	prepare(t, h, s)
	if i, err := os.Stat(filepath.Join(h.Dir(s.ID), diskFile)); err != nil || i.Size() != s.Limits.Disk {
		t.Errorf("%v, %v", i, err)
	}
	for _, size := range []int64{-1, 0, minDisk - 1, MaxDisk + 1} {
		if err := h.Format(t.Context(), size); err == nil || !strings.Contains(err.Error(), "is not possible") {
			t.Errorf("a disk of %d bytes: %v", size, err)
		}
	}
}
