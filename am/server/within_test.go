package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"patchbay/am/server"
)

// Idle connections from this host to the admin socket close each other and do not keep requests
// from being answered.
func TestLocalConnectionsAreLimited(t *testing.T) {
	const most = 32
	for name, serve := range map[string]func(*server.Server, net.Listener) error{
		"tcp": (*server.Server).ServeAdmin, "unix": (*server.Server).ServeSocket,
	} {
		t.Run(name, func(t *testing.T) {
			p := newParty(t, server.Config{}, double{})
			at := "127.0.0.1:0"
			if name == "unix" {
				dir, err := os.MkdirTemp("", "")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.RemoveAll(dir) })
				at = filepath.Join(dir, "s")
			}
			l, err := net.Listen(name, at)
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			all.Go(func() { serve(p.Server, l) })
			t.Cleanup(func() { p.Shutdown(context.Background()); all.Wait() })
			dial := func() net.Conn {
				c, err := net.Dial(name, l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				c.SetDeadline(time.Now().Add(time.Minute))
				return c
			}
			var silent []net.Conn
			for range most + 10 {
				silent = append(silent, dial())
			}
			last := dial()
			io.WriteString(last, "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
			answer(t, last)
			for i, c := range silent {
				if i > 10 {
					c.SetReadDeadline(time.Now()) // it must be open
				}
				_, err := c.Read(make([]byte, 1))
				if ended := !errors.Is(err, os.ErrDeadlineExceeded); ended != (i <= 10) {
					t.Errorf("connection %d of %d ended: %t (%v)", i+1, len(silent), ended, err)
				}
			}
		})
	}
}
