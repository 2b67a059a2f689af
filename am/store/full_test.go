package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"patchbay/am"
	"patchbay/am/testkit/require"
)

// TestAFullDiskKeepsRoomForTheStore fills the disk of a store with other files, as the nodes of a
// local testbed may. Many further commits succeed.
func TestAFullDiskKeepsRoomForTheStore(t *testing.T) {
	require.Root(t)
	dir := t.TempDir()
	disk, at := filepath.Join(dir, "disk.img"), filepath.Join(dir, "disk")
	for _, c := range [][]string{
		{"truncate", "-s", "256M", disk}, {require.Tool(t, "mke2fs"), "-q", "-F", "-t", "ext4", "-m", "0", disk},
		{"mkdir", at}, {"mount", "-o", "loop", disk, at},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", c, err, out)
		}
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
	s, err := Open(filepath.Join(at, "state.db"), Options{Ahead: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	grow := func(i int) error {
		return s.Commit(t.Context(), func(*View) (ChangeSet, error) {
			var cs ChangeSet
			cs.PutDocument(am.Document{ID: fmt.Sprint(i), Slice: sliceURN("s"), Text: bytes.Repeat([]byte("x"), 1<<20)})
			return cs, nil
		})
	}
	for i := range 10 { // it keeps room also when it has grown
		if err := grow(i); err != nil {
			t.Fatal(err)
		}
	}
	other, err := os.Create(filepath.Join(at, "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = other.Write(make([]byte, size))
		}
	}
	if err := errors.Join(other.Sync(), err); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	for i := range 30 {
		if err := grow(100 + i); err != nil {
			t.Fatalf("change %d on a full disk: %v", i, err)
		}
	}
}
