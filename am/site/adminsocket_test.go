package site

import (
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

func TestSocketsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := listenSocket(file, slog.New(slog.DiscardHandler)); err == nil || readFile(t, file) != "mine" {
		t.Errorf("in place of a file: %v", err)
	}
	if _, err := listenSocket(filepath.Join(dir, "none", "admin.sock"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("in a folder that is not there")
	}
	// The kernel permits 107 bytes.
	long := filepath.Join(dir, strings.Repeat("x", 120))
	if err := os.Mkdir(long, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds the socket of the first, as after a crash
		s, err := listenSocket(filepath.Join(long, "admin.sock"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := listenSocket(filepath.Join(long, "admin.sock"), slog.New(slog.DiscardHandler)); err == nil {
			t.Error("two at one path")
		}
		s.Close()
	}
	// A socket that another one has replaced is not removed.
	s, err := listenSocket(filepath.Join(dir, "admin.sock"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	next, err := listenSocket(filepath.Join(dir, "admin.sock"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.remove()
	if _, err := os.Lstat(next.path); err != nil {
		t.Errorf("the next one's socket was removed: %v", err)
	}
	next.remove()
	if _, err := os.Lstat(next.path); err == nil {
		t.Error("its own was not removed")
	}
}

// asUser runs f with the rights of another user, on a thread that ends afterwards.
func asUser(t *testing.T, uid int, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread is not given back
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		if errno != 0 {
			done <- errno
			return
		}
		f()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestOthersAreSentAwayFromTheSocket connects as another user, who must get no answer, also if
// the mode of the socket permits everyone.
func TestOthersAreSentAwayFromTheSocket(t *testing.T) {
	require.Root(t)
	dir, err := os.MkdirTemp("/tmp", "socket") // other users can reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "admin.sock")
	var log strings.Builder
	s, err := listenSocket(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan bool)
	go func() {
		defer close(answered)
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "hello")
			c.Close()
		}
	}()
	ask := func() (text string, err error) {
		c, err := net.Dial("unix", path)
		if err != nil {
			return "", err
		}
		defer c.Close()
		b, err := io.ReadAll(c)
		return string(b), err
	}
	const nobody = 65534
	asUser(t, nobody, func() {
		if _, err := ask(); err == nil {
			t.Error("the mode of the socket lets others in")
		}
	})
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		asUser(t, nobody, func() {
			if text, _ := ask(); text != "" {
				t.Errorf("another user got %q", text)
			}
		})
	}
	if text, err := ask(); text != "hello" {
		t.Errorf("root got %q: %v", text, err)
	}
	s.remove()
	<-answered
	if n := strings.Count(log.String(), "user=65534"); n != 1 {
		t.Errorf("the log has %d lines about refused users, want one:\n%s", n, log.String())
	}
}

// TestSocketsAreNotMadeThroughLinks puts a link at the path of the socket.
func TestSocketsAreNotMadeThroughLinks(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "admin.sock")
	for rule, target := range map[string]string{
		"to a file": "file", "to nothing": "nothing", "to a folder": ".", "to a socket": "other.sock",
	} {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		other, err := net.Listen("unix", filepath.Join(dir, "other.sock"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		if _, err := listenSocket(path, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("a link %s was taken for a socket", rule)
		}
		if got, err := os.Readlink(path); err != nil || got != target {
			t.Errorf("the link %s was changed: %s, %v", rule, got, err)
		}
		if readFile(t, filepath.Join(dir, "file")) != "mine" {
			t.Errorf("a link %s: the file was changed", rule)
		}
		other.Close()
		os.Remove(path)
	}
	// The folder in which the socket is made may be a link, too.
	elsewhere := t.TempDir()
	if err := os.WriteFile(filepath.Join(elsewhere, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, path+".new"); err != nil {
		t.Fatal(err)
	}
	s, err := listenSocket(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.remove()
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) != 1 {
		t.Errorf("through a link in place of the folder: %v, %v", left, err)
	}
}
