package audit

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// TestTornLineOfAnotherProcess has another process write half a line between our lines. Our
// next line must not be joined to it, because the result could not be read.
func TestTornLineOfAnotherProcess(t *testing.T) {
	s := newSite(t)
	f, err := os.OpenFile(s.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(`{"at":"2026-11-20T12:00:00.000Z","event":"act","wh`); err != nil {
		t.Fatal(err)
	}
	s.answered("call1")
	s.answered("call2")
	s.crash()
	s.wants("open", "call call1", "call call2")
}

// narrow lets files of this process have n bytes at most, until f returns.
func narrow(t *testing.T, n int64, f func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(n), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

// TestHalfALineIsTakenBack fills the disk within a line, of an operator's command
// and of the server.
func TestHalfALineIsTakenBack(t *testing.T) {
	s := newSite(t)
	before, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	narrow(t, int64(len(before))+20, func() {
		if err := Note(s.path, Act{What: "lockdown"}); err == nil {
			t.Error("a line that does not fit is not missed")
		}
		s.log.Act(Act{What: "thaw"})
	})
	if after, err := os.ReadFile(s.path); err != nil || string(after) != string(before) {
		t.Errorf("half a line is left: %q, %v", after, err)
	}
	s.log.maintain()
	s.wants("open", "act thaw")
}

// TestLockedAuditWaits has another process hold the lock for longer than calls
// can wait.
func TestLockedAuditWaits(t *testing.T) {
	s := newSite(t)
	f, err := os.Open(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	s.answered("call1")
	if err := s.log.Err(); err == nil || !strings.Contains(err.Error(), "1 lines wait") || !strings.Contains(err.Error(), "locked") {
		t.Errorf("Err of a locked audit: %v", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	s.log.maintain()
	s.wants("open", "call call1")
}
