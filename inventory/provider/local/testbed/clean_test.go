package testbed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider/local"
)

// TestCleanRefusesMounts mounts another folder below the testbed's files.
func TestCleanRefusesMounts(t *testing.T) {
	require.Root(t)
	for _, name := range []string{"state", "with space"} {
		dir, victim := t.TempDir(), t.TempDir()
		if err := os.WriteFile(filepath.Join(victim, "file"), []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, name, "images", "one")
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, "link")
		if err := os.Symlink(name, link); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(victim, at, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
		for _, state := range []string{filepath.Join(dir, name), link} {
			err := Clean(t.Context(), Options{
				Settings: local.Settings{Instance: "clean-mounts"}, State: state,
				Socket: filepath.Join(dir, "run", "socket"), Claims: filepath.Join(dir, "claims"),
			}, func(string) {})
			if err == nil || !strings.Contains(err.Error(), "mounted at "+at) {
				t.Errorf("error %v, want one that names %s", err, at)
			}
		}
		if b, err := os.ReadFile(filepath.Join(victim, "file")); err != nil || string(b) != "kept" {
			t.Errorf("another program's file: %q %v", b, err)
		}
	}
}

// TestCleanRemovesTemporaryFiles kills a testbed while it writes its key.
func TestCleanRemovesTemporaryFiles(t *testing.T) {
	require.Root(t)
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	clean := func() error {
		return Clean(t.Context(), Options{
			Settings: local.Settings{Instance: "clean-new"}, State: state, Socket: filepath.Join(dir, "run", "socket"), Claims: filepath.Join(dir, "claims"),
		}, func(string) {})
	}
	stray := filepath.Join(state, "letters.new")
	for _, path := range []string{filepath.Join(state, "."+gatewayKeyFile+"12"), stray} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := clean(); err == nil || !strings.Contains(err.Error(), "letters.new") {
		t.Errorf("with another program's file: %v", err)
	}
	if err := os.Remove(stray); err != nil {
		t.Fatal(err)
	}
	if err := clean(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("left: %v", err)
	}
}
