package mtls_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am/server/mtls"
	"patchbay/am/testkit/wait"
)

// clientHello is what a client of crypto/tls sends first.
func clientHello(t testing.TB) []byte {
	t.Helper()
	var c recorder
	tls.Client(&c, tlsConfig(nil, tls.VersionTLS13)).Handshake()
	if c.Len() == 0 {
		t.Fatal("no ClientHello")
	}
	return c.Bytes()
}

// recorder is a net.Conn that stores writes and has nothing to read.
type recorder struct {
	net.Conn
	bytes.Buffer
}

func (r *recorder) Read([]byte) (int, error)    { return 0, io.EOF }
func (r *recorder) Write(p []byte) (int, error) { return r.Buffer.Write(p) }
func (r *recorder) Close() error                { return nil }

// A thousand clients that send nothing, half a ClientHello, or a byte now and then do not delay
// others. They are disconnected after ReadHeaderTimeout.
func TestHalfOpenAndDrippingClients(t *testing.T) {
	const clients, timeout = 1000, time.Second
	s := serve(t, chainHandler, func(cfg *mtls.Config, srv *http.Server) {
		srv.ReadHeaderTimeout = timeout
		cfg.HandshakeTimeout = time.Hour // it does not extend ReadHeaderTimeout
	})
	hello := clientHello(t)
	alice := tlsConfig(identity(t, "rsa", "alice"), tls.VersionTLS13)

	conns := make([]net.Conn, clients)
	for i := range conns {
		tcp := s.dialTCP(t)
		conns[i] = tcp
		switch i % 4 {
		case 1:
			tcp.Write(hello[:len(hello)/2])
		case 2:
			tcp.Write(hello[:3])
		case 3:
			tcp.Write(hello) // and never an answer to the server's
		}
	}
	// Others complete the handshake and send their header slowly.
	for range 10 {
		c := s.dial(t, alice)
		io.WriteString(c, "GET / HTTP/1.1\r\n")
		conns = append(conns, c)
	}
	stop := make(chan bool)
	var drip sync.WaitGroup
	drip.Go(func() {
		for i := 3; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			for j, c := range conns {
				if j >= clients {
					io.WriteString(c, "a")
				} else if j%4 == 2 && i < len(hello) {
					c.Write(hello[i : i+1])
				}
			}
		}
	})

	start := time.Now()
	if _, err := s.get(t, alice); err != nil {
		t.Errorf("a good client meanwhile: %v", err)
	}
	t.Logf("a good client was served in %v", time.Since(start))
	s.mustFreeAll(t)
	t.Logf("the last was gone after %v", time.Since(start))
	close(stop)
	drip.Wait()
	for i, c := range conns[:clients] {
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("client %d: its connection was not closed", i)
		}
	}
}

func TestGarbageIsClosedWithoutWaiting(t *testing.T) {
	s := serve(t, chainHandler, nil)
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", strings.Repeat("\x00", 64), "\x80\x2e\x01\x00\x02" + strings.Repeat("\x00", 64), "SSH-2.0-OpenSSH_9.2\r\n", strings.Repeat("\xff", 70000),
	} {
		s.forget()
		c := s.dialTCP(t)
		io.WriteString(c, text)
		answer, err := io.ReadAll(c)
		if errors.Is(err, os.ErrDeadlineExceeded) || strings.Contains(string(answer), "HTTP") {
			t.Errorf("%.10q: answered %q, %v", text, answer, err)
		}
		if err := s.lastFailure(t); strings.HasPrefix(text, "GET") && !strings.Contains(err.Error(), "http request") {
			t.Errorf("the operator saw %v", err)
		}
	}
	s.mustFreeAll(t)
}

func TestPeerResetInEachPhase(t *testing.T) {
	hello := clientHello(t)
	alice := tlsConfig(identity(t, "rsa", "alice"), tls.VersionTLS13)
	for name, phase := range map[string]struct {
		hello, answer int    // bytes of the hello, and of the server's that are read; -1 for the whole handshake
		request       string // after it
	}{
		"BeforeTheFirstByte":   {0, 0, ""},
		"InTheClientHello":     {len(hello) / 2, 0, ""},
		"AfterTheClientHello":  {len(hello), 0, ""},
		"AfterTheServersHello": {len(hello), 100, ""},
		"AfterTheHandshake":    {-1, 0, ""},
		"InTheHeader":          {-1, 0, "GET / HTTP/1.1\r\nHo"},
		"InTheBody":            {-1, 0, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc"},
		"InTheAnswer":          {-1, 100_000, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		"BetweenRequests":      {-1, 15, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			page := make([]byte, 5<<20)
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Write(page)
			}), nil)
			tcp := s.dialTCP(t)
			var c net.Conn = tcp
			if phase.hello >= 0 {
				tcp.Write(hello[:phase.hello])
			} else if c = tls.Client(tcp, alice); c.(*tls.Conn).Handshake() != nil {
				t.Fatal("no handshake")
			}
			io.WriteString(c, phase.request)
			io.ReadFull(c, make([]byte, phase.answer))
			wait.Until(t, "a connection", func() bool { return s.ctx.Live() == 1 })
			tcp.SetLinger(0)
			tcp.Close()
			s.mustFreeAll(t)
			if _, err := s.get(t, alice); err != nil {
				t.Errorf("the next client: %v", err)
			}
		})
	}
}

// A client that requests 5 MB and never reads them is disconnected after WriteTimeout.
func TestPeerThatNeverReads(t *testing.T) {
	page := make([]byte, 5<<20)
	failed := make(chan error, 1)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write(page)
		failed <- err
	}), func(_ *mtls.Config, srv *http.Server) { srv.WriteTimeout = 300 * time.Millisecond })
	tcp := s.dialTCP(t)
	tcp.SetReadBuffer(4096)
	c := tls.Client(tcp, tlsConfig(identity(t, "rsa", "alice"), tls.VersionTLS13))
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
			t.Errorf("Write ended with %v, want a timeout", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Write did not end")
	}
	s.mustFreeAll(t)
}
