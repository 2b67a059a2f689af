package site

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider/fdsocket"
)

// TestStopServerEndsNoProcessOfSomebodyElse proves that a false socket of a site cannot make
// root end another process: neither a process of another user than the owner of the socket,
// nor one whose socket a link names.
func TestStopServerEndsNoProcessOfSomebodyElse(t *testing.T) {
	require.Root(t)
	ended := make(chan os.Signal, 1) // this test process is the other process
	signal.Notify(ended, syscall.SIGTERM)
	defer signal.Stop(ended)
	for _, tt := range []struct {
		rule, says string
		make       func(t *testing.T, at string)
	}{
		{"a socket of another user", "does not belong to user 4242", func(t *testing.T, at string) { listenAs(t, 4242, at) }},
		{"a link to a socket", "it is not a socket", func(t *testing.T, at string) {
			other := filepath.Join(t.TempDir(), "other")
			listenAs(t, 0, other)
			if err := os.Symlink(other, at); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			c := &Config{}
			c.Origin.File = filepath.Join(t.TempDir(), ConfigName)
			tt.make(t, socketPath(c))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			stopped := make(chan error, 1)
			go func() { stopped <- StopServer(ctx, c) }()
			select {
			case <-ended:
				t.Error("the process got SIGTERM")
			case err := <-stopped:
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v, want %q", err, tt.says)
				}
			}
		})
	}
}

// listenAs listens at a path in the folder of a test as another user, and answers nothing.
func listenAs(t *testing.T, uid int, path string) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(uid int) {
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); err != 0 { // this thread alone
			t.Fatal(err)
		}
	}
	for dir := filepath.Dir(path); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	become(uid)
	l, err := fdsocket.Listen(path, 0o600)
	become(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}
