package mtls_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am/server/mtls"
	"patchbay/am/testkit/wait"
)

// site is a server under test.
type site struct {
	addr  string
	ctx   *mtls.Context
	srv   *http.Server
	inner net.Listener

	mu       sync.Mutex
	failures []error // of handshakes
}

// keys are the server's key pairs.
func keys(t testing.TB, names ...string) []mtls.KeyPair {
	t.Helper()
	keyOf := map[string]string{"server": "rsa", "server-ecdsa": "ec", "server-new": "rsa2"}
	var list []mtls.KeyPair
	for _, n := range names {
		list = append(list, mtls.KeyPair{CertFile: file(t, n+".crt"), KeyFile: file(t, keyOf[n]+".key")})
	}
	return list
}

// serve starts a server with an RSA and an ECDSA key, unless tune says
// otherwise. When the test ends, every SSL object must be freed.
func serve(t testing.TB, h http.Handler, tune func(*mtls.Config, *http.Server)) *site {
	t.Helper()
	s := &site{}
	cfg := mtls.Config{Keys: keys(t, "server", "server-ecdsa")}
	cfg.OnHandshakeError = func(_ net.Addr, err error) {
		s.mu.Lock()
		s.failures = append(s.failures, err)
		s.mu.Unlock()
	}
	s.srv = &http.Server{
		Handler:           h,
		ConnContext:       connContext,
		ReadHeaderTimeout: 2 * time.Minute, // longer than any test waits
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	if tune != nil {
		tune(&cfg, s.srv)
	}
	var err error
	if s.ctx, err = mtls.New(cfg); err != nil {
		t.Fatal(err)
	}
	if s.inner, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.addr = s.inner.Addr().String()
	stopped := make(chan error, 1)
	go func() { stopped <- s.srv.Serve(s.ctx.Listener(s.inner)) }()
	t.Cleanup(func() {
		s.srv.Close()
		if err := <-stopped; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve ended with %v", err)
		}
		s.mustFreeAll(t)
		s.ctx.Close()
	})
	return s
}

// mustFreeAll waits until no connection holds memory in OpenSSL.
func (s *site) mustFreeAll(t testing.TB) {
	t.Helper()
	wait.Holds(t, func() bool { return s.ctx.Live() == 0 }, func() string { return fmt.Sprintf("%d connections are not freed", s.ctx.Live()) })
}

// lastFailure waits for the first handshake that failed and returns the last.
func (s *site) lastFailure(t testing.TB) error {
	t.Helper()
	var err error
	wait.Until(t, "a handshake that fails", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.failures); n > 0 {
			err = s.failures[n-1]
		}
		return err != nil
	})
	return err
}

type connKey struct{}

// connContext makes the connection of a request known to chainHandler.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// chainHandler answers with the peer's chain, one certificate in base64 per line.
var chainHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(connKey{}).(*mtls.Conn)
	if !ok {
		http.Error(w, "no connection in the context", http.StatusInternalServerError)
		return
	}
	if r.TLS != nil {
		http.Error(w, "net/http has taken this for crypto/tls", http.StatusInternalServerError)
		return
	}
	for _, der := range c.PeerChain() {
		fmt.Fprintln(w, base64.StdEncoding.EncodeToString(der))
	}
	io.WriteString(w, "end\n")
})

// parseChain reads what chainHandler wrote.
func parseChain(body []byte) ([][]byte, error) {
	var chain [][]byte
	for line := range strings.Lines(string(body)) {
		if line = strings.TrimSpace(line); line == "end" {
			return chain, nil
		}
		der, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return nil, err
		}
		chain = append(chain, der)
	}
	return nil, fmt.Errorf("answer without an end: %q", body)
}

// tlsConfig is that of a Go client who presents id, if any.
func tlsConfig(id *tls.Certificate, version uint16) *tls.Config {
	c := &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}
	if id != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return id, nil }
	}
	return c
}

// client is an HTTP client over crypto/tls.
func client(t testing.TB, cfg *tls.Config) *http.Client {
	tr := &http.Transport{TLSClientConfig: cfg, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute}
}

// get fetches the site's page with a new connection.
func (s *site) get(t testing.TB, cfg *tls.Config) ([]byte, error) {
	c := client(t, cfg)
	defer c.CloseIdleConnections()
	return fetch(c, "https://"+s.addr+"/")
}

func fetch(c *http.Client, url string) ([]byte, error) {
	resp, err := c.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}

// dial makes a connection of crypto/tls whose handshake is done.
func (s *site) dial(t testing.TB, cfg *tls.Config) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", s.addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// dialTCP makes a bare connection.
func (s *site) dialTCP(t testing.TB) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c.(*net.TCPConn)
}

// roundTrip sends a request as written and reads one answer.
func roundTrip(c net.Conn, br *bufio.Reader, request string) (string, error) {
	if _, err := io.WriteString(c, request); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// sClient runs openssl s_client with a request for the site's page and returns
// everything it printed, and the page.
func (s *site) sClient(t testing.TB, args ...string) (out string, page []byte) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "openssl", append([]string{"s_client", "-connect", s.addr, "-ign_eof"}, args...)...)
	cmd.Stdin = strings.NewReader("GET / HTTP/1.0\r\n\r\n")
	b, _ := cmd.CombinedOutput() // its exit code says little
	if _, after, ok := bytes.Cut(b, []byte("HTTP/1.0 200 OK\r\n")); ok {
		if _, after, ok = bytes.Cut(after, []byte("\r\n\r\n")); ok {
			page = after
		}
	}
	return string(b), page
}

// presenting is the arguments of s_client for a key and a chain.
func presenting(t testing.TB, key string, chain ...string) []string {
	t.Helper()
	args := []string{"-key", file(t, key+".key"), "-cert", file(t, chain[0]+".crt"), "-cipher", "DEFAULT:@SECLEVEL=0"}
	if len(chain) > 1 {
		args = append(args, "-cert_chain", pemFile(t, ders(t, chain[1:]...)))
	}
	return args
}
