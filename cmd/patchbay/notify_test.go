package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"patchbay/am/testkit/program"
)

// TestServeNotifiesSystemd checks that the service manager gets READY=1 when the site is served,
// and STOPPING=1 before its end.
func TestServeNotifiesSystemd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	receive := func(want string) {
		t.Helper()
		b := make([]byte, 100)
		_ = manager.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := manager.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Errorf("%q, %v; want %q", b[:n], err, want)
		}
	}
	s := serve(t, program.NewSite(t), "--listen", "127.0.0.1:0")
	receive("READY=1")
	if code, body := program.Get(t, s.admin+"/healthz"); code != 200 {
		t.Errorf("%d: %s", code, body)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	receive("STOPPING=1")
}
