package agent

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLockReportsErrors(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	check(t, err)
	if err := tryLock(f); err != nil {
		t.Errorf("a free file is not locked: %v", err)
	}
	check(t, f.Close())
	if tryLock(f) == nil {
		t.Error("a file that is closed counts as locked")
	}
}

// The kernel refuses to ignore SIGKILL; the runtime does not use signal 34.
func TestSetSignalActionReportsErrors(t *testing.T) {
	if setSignalAction(unix.SIGKILL, ignored) == nil {
		t.Error("SIGKILL counts as ignored")
	}
	if err := setSignalAction(34, defaults); err != nil {
		t.Error(err)
	}
}
