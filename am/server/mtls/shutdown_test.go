package mtls_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"testing"
	"time"

	"patchbay/am/server/mtls"
)

func TestShutdownWaitsForBusyConnectionsOnly(t *testing.T) {
	began, goOn := make(chan bool), make(chan bool)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			began <- true
			<-goOn
		}
		io.WriteString(w, "served")
	}), func(_ *mtls.Config, srv *http.Server) { srv.ReadHeaderTimeout = time.Second })
	alice := tlsConfig(identity(t, "rsa", "alice"), tls.VersionTLS13)

	idle := s.dial(t, alice)
	idleReader := bufio.NewReader(idle)
	if _, err := roundTrip(idle, idleReader, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	halfOpen := s.dialTCP(t)
	halfOpen.Write(clientHello(t)[:50])
	busy := s.dial(t, alice)
	answer := make(chan error, 1)
	go func() {
		body, err := roundTrip(busy, bufio.NewReader(busy), "GET /busy HTTP/1.1\r\nHost: x\r\n\r\n")
		if err == nil && body != "served" {
			t.Errorf("the busy connection got %q", body)
		}
		answer <- err
	}()
	<-began

	ended := make(chan error, 1)
	go func() { ended <- s.srv.Shutdown(context.Background()) }()
	// The idle connection gets a close_notify at once.
	if _, err := idleReader.ReadByte(); err != io.EOF {
		t.Errorf("the idle connection ended with %v, want EOF", err)
	}
	select {
	case err := <-ended:
		t.Fatalf("Shutdown ended (%v) before the busy connection", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	if err := <-answer; err != nil {
		t.Errorf("the busy connection: %v", err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("Shutdown does not end")
	}
	if n := s.ctx.Live(); n != 0 {
		t.Errorf("%d connections are not freed when Shutdown has ended", n)
	}
}
