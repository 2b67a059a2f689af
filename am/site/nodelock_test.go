package site

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"patchbay/am/work"
	"patchbay/inventory/local"
)

// TestLockOfALocalTestbed checks that two servers never have the lock at the same time, also
// if the testbed creates its file late or the file is removed.
func TestLockOfALocalTestbed(t *testing.T) {
	dir := t.TempDir()
	socket := func(instance string) string { return filepath.Join(dir, instance+".sock") }
	site := func() *testbeds {
		r := newTestbeds([]*Testbed{{Provider: "local", Instance: "x"}}, slog.New(slog.DiscardHandler))
		r.socket = socket
		t.Cleanup(r.unlock)
		return r
	}
	one, two := site(), site()
	acts := func(r *testbeds) error {
		_, err := r.whileLocked(func(string) (work.Provider, error) { return nil, nil })("local")
		return err
	}
	refused := func(r *testbeds) {
		t.Helper()
		for _, err := range []error{acts(r), r.lockAll()} {
			if busy, ok := errors.AsType[*busyError](err); !ok || busy.instance != "x" {
				t.Errorf("another server acts: %v", err)
			} else {
				has(t, err.Error(), fmt.Sprintf("another server (process %d: %s", os.Getpid(), os.Args[0]), ") acts on the nodes of the local testbed x", "stop that server")
			}
		}
	}
	allowed := func(r *testbeds) {
		t.Helper()
		if err := errors.Join(acts(r), r.lockAll(), acts(r)); err != nil {
			t.Error(err)
		}
	}
	file := local.SiteLock(socket("x"))
	make := func() {
		t.Helper()
		if err := os.WriteFile(file, nil, 0o400); err != nil {
			t.Fatal(err)
		}
	}

	allowed(one) // the testbed has not run yet, so it has no nodes
	allowed(two)
	make()
	allowed(two)
	refused(one)
	two.unlock()
	allowed(one)
	refused(two)
	if err := os.Remove(file); err != nil { // patchbay-local clean
		t.Fatal(err)
	}
	make()
	allowed(two)
	refused(one)
	two.retire(nil) // the testbed has no nodes any more
	allowed(one)
	if _, err := one.whileLocked(func(name string) (work.Provider, error) { return nil, errors.New(name) })("other"); err == nil || err.Error() != "other" {
		t.Errorf("a provider that is no local testbed: %v", err)
	}
}

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
