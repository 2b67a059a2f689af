package site

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestLockOfProviders checks that a folder of providers has one server, and that the lock is
// the same by each path to the folder.
func TestLockOfProviders(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	f, err := lockProviders(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockProviders(link, log); err == nil {
		t.Error("two servers have the lock")
	} else {
		has(t, err.Error(), fmt.Sprintf("another server (process %d: ", os.Getpid()), ") uses the providers in "+link)
	}
	// A provider that outlives its server does not keep the lock.
	if flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_GETFD, 0); errno != 0 || flags&syscall.FD_CLOEXEC == 0 {
		t.Error("programs that are started inherit the lock")
	}
	f.Close()
	if f, err = lockProviders(link, log); err != nil {
		t.Fatal(err)
	}
	f.Close()
}
