package mtls_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am/server/mtls"
)

// pair returns both ends of a connection without net/http. The server has not done its
// handshake.
func pair(t testing.TB, ctx *mtls.Context, cfg *tls.Config) (*mtls.Conn, *tls.Conn) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	tcp, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := ctx.Listener(inner).Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); tcp.Close() })
	end := time.Now().Add(time.Minute)
	server.SetDeadline(end)
	tcp.SetDeadline(end)
	return server.(*mtls.Conn), tls.Client(tcp, cfg)
}

// talking is a pair after its handshake and one byte from the server.
func talking(t testing.TB) (*mtls.Conn, *tls.Conn) {
	t.Helper()
	server, c := pair(t, newContext(t), tlsConfig(identity(t, "rsa", "alice"), tls.VersionTLS13))
	go c.Handshake()
	if _, err := server.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	return server, c
}

func newContext(t testing.TB) *mtls.Context {
	t.Helper()
	ctx, err := mtls.New(mtls.Config{Keys: keys(t, "server", "server-ecdsa")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := ctx.Live(); n != 0 {
			t.Errorf("%d connections are not freed", n)
		}
		ctx.Close()
	})
	return ctx
}

func TestCloseRacesReadAndWrite(t *testing.T) {
	ctx := newContext(t)
	alice := tlsConfig(identity(t, "ec2", "ecdsa"), tls.VersionTLS13)
	for i := range 60 {
		server, c := pair(t, ctx, alice)
		var all sync.WaitGroup
		all.Go(func() {
			go io.Copy(c, strings.NewReader(strings.Repeat("x", 1<<20)))
			io.Copy(io.Discard, c)
		})
		for range 2 {
			all.Go(func() {
				for p := make([]byte, 5000); ; {
					if _, err := server.Read(p); err != nil {
						return
					}
				}
			})
			all.Go(func() {
				for p := make([]byte, 50_000); ; {
					if _, err := server.Write(p); err != nil {
						return
					}
				}
			})
		}
		all.Go(func() {
			for ctx.Live() > 0 {
				server.PeerChain()
				time.Sleep(20 * time.Microsecond)
			}
		})
		// Some rounds close before the handshake, others during the traffic.
		time.Sleep(time.Duration(i) * 100 * time.Microsecond)
		var closers sync.WaitGroup
		for range 2 {
			closers.Go(func() { server.Close() })
		}
		closers.Wait()
		c.NetConn().Close()
		all.Wait()
		if n := ctx.Live(); n != 0 {
			t.Fatalf("round %d: %d connections are not freed", i, n)
		}
	}
}

// Records keep their order however many goroutines read and write.
func TestConcurrentReadersAndWriters(t *testing.T) {
	const n, size = 4, 1 << 20
	ctx := newContext(t)
	for name, v := range versions {
		t.Run(name, func(t *testing.T) {
			server, c := pair(t, ctx, tlsConfig(identity(t, "ec2", "ecdsa"), v))
			var readers, all sync.WaitGroup
			var arrived atomic.Int64
			for range n {
				readers.Go(func() {
					m, err := io.Copy(io.Discard, struct{ io.Reader }{server})
					if arrived.Add(m); err != nil {
						t.Errorf("reader: %v", err)
					}
				})
				all.Go(func() {
					if _, err := server.Write(make([]byte, size)); err != nil {
						t.Errorf("writer: %v", err)
					}
				})
			}
			all.Go(func() {
				if _, err := io.CopyN(io.Discard, c, n*size); err != nil {
					t.Errorf("the client's reader: %v", err)
				}
			})
			all.Go(func() {
				for range n * size / 1000 {
					if _, err := c.Write(make([]byte, 1000)); err != nil {
						t.Errorf("the client's writer: %v", err)
						return
					}
				}
			})
			all.Wait()
			c.CloseWrite()
			readers.Wait()
			if got := arrived.Load(); got != n*size/1000*1000 {
				t.Errorf("%d bytes have arrived, want %d", got, n*size/1000*1000)
			}
			server.Close()
		})
	}
}

// Everything on a closed connection fails with net.ErrClosed, and a second
// Close does not free twice.
func TestClosedConn(t *testing.T) {
	server, c := talking(t)
	go io.Copy(io.Discard, c)
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := server.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read: %v", err)
	}
	if _, err := server.Write(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write: %v", err)
	}
	if err := server.CloseWrite(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("CloseWrite: %v", err)
	}
	if n := len(server.PeerChain()); n != 1 {
		t.Errorf("PeerChain has forgotten: %d certificates", n)
	}
}

func TestCloseWriteLetsReadsGoOn(t *testing.T) {
	ctx := newContext(t)
	server, c := pair(t, ctx, tlsConfig(identity(t, "rsa", "alice"), tls.VersionTLS13))
	got := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(c)
		got <- err
		io.WriteString(c, "still here")
		c.Close()
	}()
	if _, err := server.Write([]byte("bye")); err != nil {
		t.Fatal(err)
	}
	if err := server.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("the client saw %v, want an orderly end", err)
	}
	if _, err := server.Write([]byte("more")); err == nil {
		t.Error("Write after CloseWrite succeeds")
	}
	if text, err := io.ReadAll(server); err != nil || string(text) != "still here" {
		t.Errorf("read %q, %v", text, err)
	}
}

// A refused peer gets the alert at once and not only at Close.
func TestAlertDoesNotWaitForClose(t *testing.T) {
	server, c := pair(t, newContext(t), tlsConfig(nil, tls.VersionTLS12))
	failed := make(chan error, 1)
	go func() {
		_, err := server.Read(make([]byte, 1))
		failed <- err
	}()
	if err := c.Handshake(); err == nil || !strings.Contains(err.Error(), "handshake failure") {
		t.Errorf("the client saw %v, want an alert", err)
	}
	first := <-failed
	if _, ok := errors.AsType[*mtls.Error](first); !ok {
		t.Errorf("Read: %v, want an *Error", first)
	}
	if _, err := server.Write([]byte("x")); err != first {
		t.Errorf("Write: %v, want the error of the handshake, %v", err, first)
	}
	server.Close()
}

// After a modified record, every read and write fails.
func TestBrokenRecordIsFinal(t *testing.T) {
	server, c := talking(t)
	c.NetConn().Write(append([]byte{23, 3, 3, 0, 32}, make([]byte, 32)...))
	p := make([]byte, 1)
	_, first := server.Read(p)
	if e, ok := errors.AsType[*mtls.Error](first); !ok || e.Op != "read" {
		t.Fatalf("Read: %v, want an *Error", first)
	}
	if _, err := server.Read(p); err != first {
		t.Errorf("second Read: %v, want %v", err, first)
	}
	if _, err := server.Write(p); err != first {
		t.Errorf("Write: %v, want %v", err, first)
	}
	server.Close()
}

// After an incomplete write, later data would be garbage, so every write fails.
func TestWriteThatTimedOutIsFinal(t *testing.T) {
	server, c := talking(t)
	server.SetWriteDeadline(time.Now().Add(3 * time.Second)) // long enough to begin
	n, err := server.Write(make([]byte, 50<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == 50<<20 {
		t.Fatalf("Write: %d bytes, %v, want a timeout in the midst", n, err)
	}
	server.SetWriteDeadline(time.Now().Add(5 * time.Second))
	go io.Copy(io.Discard, c)
	if n, err := server.Write([]byte("x")); err == nil {
		t.Errorf("Write after that: %d bytes are taken", n)
	}
	server.Close()
}

// A Read that timed out can be repeated, as net/http does with each request.
func TestReadGoesOnAfterItsDeadline(t *testing.T) {
	server, c := talking(t)
	for range 3 {
		server.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("Read: %v, want a timeout", err)
		}
	}
	server.SetReadDeadline(time.Now().Add(30 * time.Second))
	go io.WriteString(c, "hello")
	p := make([]byte, 5)
	if _, err := io.ReadFull(server, p); err != nil || string(p) != "hello" {
		t.Errorf("read %q, %v", p, err)
	}
}

// one is a listener of one connection.
type one struct {
	net.Listener
	conn net.Conn
}

func (o one) Accept() (net.Conn, error) { return o.conn, nil }

// Many connections leave nothing behind, in OpenSSL or elsewhere.
func TestClosedConnectionsAreFreed(t *testing.T) {
	warm, n := 200, 1000
	if testing.Short() {
		warm, n = 100, 400
	}
	s := serve(t, chainHandler, nil)
	v12 := tlsConfig(identity(t, "ec2", "ecdsa", "authority"), tls.VersionTLS12)
	v13 := tlsConfig(identity(t, "ec2", "ecdsa", "authority"), tls.VersionTLS13)
	anonymous := tlsConfig(nil, tls.VersionTLS13)
	visit := func(i int) error {
		tcp, err := net.Dial("tcp", s.addr)
		if err != nil {
			return err
		}
		defer tcp.Close()
		cfg := v13
		switch i % 10 {
		case 0: // closes during the handshake
			_, err := tcp.Write(make([]byte, 3))
			return err
		case 1: // has no certificate
			cfg = anonymous
		case 2, 4, 6, 8:
			cfg = v12
		}
		c := tls.Client(tcp, cfg)
		_, err = roundTrip(c, bufio.NewReader(c), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if (err == nil) == (cfg == anonymous) {
			return fmt.Errorf("visitor %d: %v", i, err)
		}
		return nil
	}
	run := func(n int) {
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for i := range n / 4 {
					if err := visit(i); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		clients.Wait()
		s.forget()
		s.mustFreeAll(t)
	}
	run(warm)
	before := resident(t)
	run(n)
	after := resident(t)
	t.Logf("resident: %d kB after %d connections, %d kB after %d more", before, warm, after, n)
	if sanitized() {
		return // the address sanitizer keeps freed memory in quarantine
	}
	// One forgotten SSL object is some 30 kB: 30 MB for all of them.
	if after > before+10_000 {
		t.Errorf("resident memory has grown from %d to %d kB", before, after)
	}
}

// sanitized says whether this test was built with -asan.
func sanitized() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-asan", Value: "true"})
}

// resident is the memory of this process in kB, after all garbage is returned.
func resident(t testing.TB) int {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("no way to know the memory in use: %v", err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() / 1024
}

// After any bytes of a client the connection ends and is freed.
func FuzzClientBytes(f *testing.F) {
	f.Add(clientHello(f))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{})
	f.Add([]byte{0x80, 0x2e, 1, 3, 1, 0, 9, 0, 0, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add(append(clientHello(f), 20, 3, 3, 0, 1, 1, 22, 3, 3, 0, 4, 14, 0, 0, 0))
	ctx, err := mtls.New(mtls.Config{Keys: keys(f, "server", "server-ecdsa"), SHA1Handshakes: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		c, err := ctx.Listener(one{conn: &script{in: sent}}).Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 100)); err == nil {
			t.Error("read something without a proof of possession")
		}
		if chain := c.(*mtls.Conn).PeerChain(); chain != nil {
			t.Errorf("%d certificates without a proof of possession", len(chain))
		}
		c.Close()
		if n := ctx.Live(); n != 0 {
			t.Errorf("%d connections are not freed", n)
		}
	})
}

// script is an inner connection with fixed bytes to read.
type script struct {
	net.Conn
	in []byte
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.in)
	s.in = s.in[n:]
	return n, nil
}
func (s *script) Write(p []byte) (int, error)      { return len(p), nil }
func (s *script) Close() error                     { return nil }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
