package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/am/xmlrpc"
)

// encoded returns the body of a call.
func encoded(t testing.TB, method string, params ...xmlrpc.Value) string {
	t.Helper()
	b, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// outcome posts a body and returns the outcome: "code 3", "fault", "http 413", or "cut"
// if the connection ended before an answer.
func (s *hostileTest) outcome(h *http.Client, body io.Reader) (outcome, output string) {
	resp, err := h.Post(s.url+"/am/3.0", "text/xml", body)
	if err != nil {
		return "cut", err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "cut", err.Error()
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprintf("http %d", resp.StatusCode), string(text)
	}
	value, err := xmlrpc.DecodeResponse(text, xmlrpc.Limits{})
	if f, ok := errors.AsType[*xmlrpc.Fault](err); ok {
		return "fault", f.Text
	}
	if err != nil {
		return "unreadable", err.Error()
	}
	output, _ = member(value, "output").(string)
	return fmt.Sprintf("code %v", member(value, "code", "geni_code")), output
}

// helloOf returns a ClientHello.
func (s *hostileTest) helloOf(t testing.TB) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	go tls.Client(theirs, &tls.Config{InsecureSkipVerify: true}).Handshake()
	head := make([]byte, 5)
	if _, err := io.ReadFull(ours, head); err != nil {
		t.Fatal(err)
	}
	rest := make([]byte, binary.BigEndian.Uint16(head[3:]))
	if _, err := io.ReadFull(ours, rest); err != nil {
		t.Fatal(err)
	}
	return append(head, rest...)
}

// wantEnd fails unless the server closes c; it may send something before.
func wantEnd(t *testing.T, what string, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: the server does not close", what)
	}
}

// reset ends a connection with an RST.
func reset(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}

// byteWriter sends its first bytes in records of one byte each.
type byteWriter struct {
	net.Conn
	once sync.Once
}

func (c *byteWriter) Write(p []byte) (n int, err error) {
	first := false
	c.once.Do(func() { first = true })
	if !first {
		return c.Conn.Write(p)
	}
	var out []byte
	for _, b := range p[5:] {
		out = append(out, p[0], p[1], p[2], 0, 1, b)
	}
	if _, err := c.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// tlsAttacks returns the cases in TLS.
func tlsAttacks() []attack {
	const closed, forbidden, welcome = "cut", "code 3", "code 0"
	// Each case has a certificate or none, and the expected answers to GetVersion and to
	// ListResources with a valid credential.
	show := func(version, list string, id func(t *testing.T, s *hostileTest) *tls.Certificate, change ...func(*tls.Config)) func(t *testing.T, s *hostileTest) {
		return func(t *testing.T, s *hostileTest) {
			h := s.httpClient(t, func(c *tls.Config) {
				if x := id(t, s); x != nil {
					c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return x, nil }
				}
				for _, f := range change {
					f(c)
				}
			})
			for _, call := range []struct{ want, body string }{
				{version, encoded(t, "GetVersion")},
				{list, encoded(t, "ListResources", s.bad.creds(string(s.bad.Credential)), rspec3("GENI"))},
			} {
				if got, output := s.outcome(h, strings.NewReader(call.body)); got != call.want {
					t.Errorf("%s: %.300s; want %s", got, output, call.want)
				}
			}
		}
	}
	own := func(_ *testing.T, s *hostileTest) *tls.Certificate { return &s.bad.identity }
	made := func(f func(f *certificateForger) tls.Certificate) func(t *testing.T, s *hostileTest) *tls.Certificate {
		return func(t *testing.T, s *hostileTest) *tls.Certificate {
			x := f(s.forged)
			return &x
		}
	}
	return []attack{
		{"its own certificate is welcome", show(welcome, welcome, own)},
		{"leaf only", show(welcome, welcome, func(_ *testing.T, s *hostileTest) *tls.Certificate {
			x := withChain(s.bad.identity)
			return &x
		})},
		{"no certificate", show(closed, closed, func(*testing.T, *hostileTest) *tls.Certificate { return nil })},
		{"self-signed", show(welcome, forbidden, made(func(f *certificateForger) tls.Certificate { return f.newCertificate(f.newECKey(), nil, nil, nil) }))},
		{"another authority's", show(welcome, forbidden, made(func(f *certificateForger) tls.Certificate {
			key := f.newECKey()
			ca := f.newCertificate(key, nil, nil, func(x *x509.Certificate) {
				x.Subject, x.IsCA, x.URIs, x.KeyUsage = f.authority.Subject, true, f.authority.URIs, x509.KeyUsageCertSign
			})
			parent, err := x509.ParseCertificate(ca.Certificate[0])
			if err != nil {
				f.t.Fatal(err)
			}
			return withChain(f.newCertificate(f.newECKey(), parent, key, nil), ca.Certificate[0])
		}))},
		{"signed by a user", show(welcome, forbidden, made(func(f *certificateForger) tls.Certificate {
			key := f.newECKey()
			user := f.issuedByAuthority(key, nil)
			parent, err := x509.ParseCertificate(user.Certificate[0])
			if err != nil {
				f.t.Fatal(err)
			}
			return withChain(f.newCertificate(f.newECKey(), parent, key, nil), user.Certificate[0], f.authority.Raw)
		}))},
		{"expired", show(welcome, forbidden, made(func(f *certificateForger) tls.Certificate {
			return f.issuedByAuthority(f.newECKey(), func(x *x509.Certificate) { x.NotAfter = time.Now().Add(-time.Minute) })
		}))},
		{"not yet valid", show(welcome, forbidden, made(func(f *certificateForger) tls.Certificate {
			return f.issuedByAuthority(f.newECKey(), func(x *x509.Certificate) { x.NotBefore = time.Now().Add(30 * time.Minute) })
		}))},
		{"without URN", show(welcome, forbidden, made(func(f *certificateForger) tls.Certificate {
			return f.issuedByAuthority(f.newECKey(), func(x *x509.Certificate) { x.URIs = nil })
		}))},
		{"somebody else's certificate, and another key", show(closed, closed, func(_ *testing.T, s *hostileTest) *tls.Certificate {
			x := s.good.identity
			x.PrivateKey, x.Leaf = s.bad.identity.PrivateKey, nil
			return &x
		})},
		{"1024 bits, with the switch off", show(welcome, forbidden, made(func(f *certificateForger) tls.Certificate {
			return f.issuedByAuthority(f.key("rsa1024.pem"), nil)
		}))},
		{"SHA-1, with the switch off", show(welcome, forbidden, made(func(f *certificateForger) tls.Certificate {
			return f.issuedByAuthority(f.key("rsa1.pem"), func(x *x509.Certificate) { x.SignatureAlgorithm = x509.SHA1WithRSA })
		}))},
		{"8200 bits", show(closed, closed, made(func(f *certificateForger) tls.Certificate { return f.issuedByAuthority(f.key("rsa8200.pem"), nil) }))},
		{"P-224, which Go cannot even show", func(t *testing.T, s *hostileTest) {
			id := s.forged.issuedByAuthority(s.forged.key("p224.pem"), nil)
			h := s.httpClient(t, func(c *tls.Config) { c.Certificates = []tls.Certificate{id} })
			if got, _ := s.outcome(h, strings.NewReader(encoded(t, "GetVersion"))); got != closed {
				t.Errorf("GetVersion: %s", got)
			}
		}},
		{"10 certificates", show(welcome, welcome, made(func(f *certificateForger) tls.Certificate {
			id := f.issuedByAuthority(f.newECKey(), nil)
			for range 9 {
				id.Certificate = append(id.Certificate, f.authority.Raw)
			}
			return id
		}))},
		{"11 certificates", show(closed, closed, made(func(f *certificateForger) tls.Certificate {
			id := f.issuedByAuthority(f.newECKey(), nil)
			for range 10 {
				id.Certificate = append(id.Certificate, f.authority.Raw)
			}
			return id
		}))},
		{"a chain of 70 kB", show(closed, closed, made(func(f *certificateForger) tls.Certificate {
			id := f.issuedByAuthority(f.newECKey(), nil)
			large := f.newCertificate(f.newECKey(), nil, nil, func(x *x509.Certificate) {
				for i := range 500 {
					x.EmailAddresses = append(x.EmailAddresses, fmt.Sprintf("%040d@example.org", i))
				}
			})
			for range 3 {
				id.Certificate = append(id.Certificate, large.Certificate[0])
			}
			return id
		}))},
		{"one certificate of 10,000 names", show(closed, closed, made(func(f *certificateForger) tls.Certificate {
			return f.issuedByAuthority(f.newECKey(), func(x *x509.Certificate) {
				for i := range 10000 {
					x.EmailAddresses = append(x.EmailAddresses, fmt.Sprintf("%d@example.org", i))
				}
			})
		}))},
		{"bytes behind it that are no certificate", show(closed, closed, made(func(f *certificateForger) tls.Certificate {
			return withChain(f.issuedByAuthority(f.newECKey(), nil), []byte(strings.Repeat("A", 1000)))
		}))},
		{"TLS 1.1", show(closed, closed, own, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS11, tls.VersionTLS11 })},
		{"TLS 1.0", show(closed, closed, own, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 })},
		{"TLS 1.2", show(welcome, welcome, own, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })},
		{"HTTP/2 by ALPN", show(welcome, welcome, own, func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} })},
		{"a server name with a path in it", show(welcome, welcome, own, func(c *tls.Config) { c.ServerName = "../../etc/passwd" })},
		{"resumption", checkResumption},
		{"renegotiation", checkRenegotiation},
		{"a greeting in records of one byte", func(t *testing.T, s *hostileTest) {
			raw, err := s.connect(2)
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			c := tls.Client(&byteWriter{Conn: raw}, &tls.Config{Certificates: []tls.Certificate{s.bad.identity}, InsecureSkipVerify: true})
			c.SetDeadline(time.Now().Add(time.Minute))
			c.Handshake() // it may be refused too
		}},
		{"what is no TLS", func(t *testing.T, s *hostileTest) {
			hello := s.helloOf(t)
			for what, text := range map[string]string{
				"HTTP":                  "POST /am/3.0 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
				"zeros":                 strings.Repeat("\x00", 1000),
				"SSL 2":                 "\x80\x2e\x01\x00\x02" + strings.Repeat("\x00", 64),
				"SSH":                   "SSH-2.0-OpenSSH_9.2\r\n",
				"ones":                  strings.Repeat("\xff", 70000),
				"an alert":              "\x15\x03\x01\x00\x02\x02\x28",
				"data":                  "\x17\x03\x03\x00\x10" + strings.Repeat("x", 16),
				"records too long":      "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1<<16),
				"an empty record":       "\x16\x03\x01\x00\x00" + strings.Repeat("\x16\x03\x01\x00\x00", 1000),
				"a long greeting":       "\x16\x03\x01\x40\x00\x01\xff\xff\xff" + strings.Repeat("x", 1<<14),
				"a greeting twice":      string(hello) + string(hello),
				"a greeting, then HTTP": string(hello) + "GET / HTTP/1.1\r\n\r\n",
			} {
				c, err := s.connect(2)
				if err != nil {
					t.Fatal(err)
				}
				io.WriteString(c, text)
				c.CloseWrite()
				c.SetReadDeadline(time.Now().Add(time.Minute))
				answer, err := io.ReadAll(c)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s: the server does not close", what)
				}
				if strings.Contains(string(answer), "HTTP/") {
					t.Errorf("%s: answered in plain text: %.200q", what, answer)
				}
				c.Close()
			}
		}},
		{"every bit of a greeting changed", func(t *testing.T, s *hostileTest) {
			hello := s.helloOf(t)
			var wg sync.WaitGroup
			defer wg.Wait()
			turns := make(chan int)
			defer close(turns)
			for range 16 {
				wg.Go(func() {
					for i := range turns {
						b := append([]byte(nil), hello...)
						b[i/8%len(b)] ^= 1 << (i % 8)
						if c, err := s.connect(2); err == nil {
							c.Write(b)
							reset(c)
						}
					}
				})
			}
			for i := 0; i < 8*min(len(hello), 300); i += 3 {
				turns <- i
			}
		}},
		{"a reset in each phase", checkResets},
		{"goodbyes", checkConnectionEnds},
	}
}

// checkResumption proves that sessions are not resumed: a client makes a full handshake.
func checkResumption(t *testing.T, s *hostileTest) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cache := tls.NewLRUClientSessionCache(8)
		for range 3 {
			c, err := tls.Dial("tcp", s.address(), &tls.Config{
				Certificates: []tls.Certificate{s.bad.identity}, InsecureSkipVerify: true, ClientSessionCache: cache, MaxVersion: version,
				ServerName: "testbed.example.org",
			})
			if err != nil {
				t.Fatal(err)
			}
			status, _, err := exchange(c, "POST /am/3.0 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			if err != nil || status != http.StatusOK {
				t.Errorf("status %d, %v", status, err)
			}
			if c.ConnectionState().DidResume {
				t.Errorf("TLS %x: a session was resumed", version)
			}
			c.Close()
		}
	}
}

// checkRenegotiation requests a new handshake on an open connection with openssl.
func checkRenegotiation(t *testing.T, s *hostileTest) {
	openssl := require.Tool(t, "openssl")
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "cert"), s.bad.Certificate, 0o600)
	os.WriteFile(filepath.Join(dir, "key"), s.bad.Key, 0o600)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, openssl, "s_client", "-tls1_2", "-connect", s.address(), "-cert", filepath.Join(dir, "cert"), "-key", filepath.Join(dir, "key"))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := new(wait.Buffer)
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "connected", func() bool { return strings.Contains(out.String(), "Verify return code") })
	io.WriteString(in, "R\n")
	wait.Until(t, "an alert", func() bool { return strings.Contains(out.String(), "no renegotiation") })
	in.Close()
	c.Wait()
}

// checkResets ends twenty connections with an RST in each phase.
func checkResets(t *testing.T, s *hostileTest) {
	hello := s.helloOf(t)
	list := encoded(t, "ListResources", s.bad.creds(string(s.bad.Credential)), rspec3("GENI"))
	call := post("/am/3.0", list)
	inside := func(text string, read int) func() {
		return func() {
			c, err := s.connectTLS(2, s.bad.identity)
			if err != nil {
				return
			}
			io.WriteString(c, text)
			io.ReadFull(c, make([]byte, read))
			reset(c.NetConn().(*net.TCPConn))
		}
	}
	outside := func(b []byte, read int) func() {
		return func() {
			c, err := s.connect(2)
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(time.Minute))
			c.Write(b)
			io.ReadFull(c, make([]byte, read))
			reset(c)
		}
	}
	var wg sync.WaitGroup
	for range 20 {
		for _, f := range []func(){
			outside(nil, 0), outside(hello[:1], 0), outside(hello[:100], 0), outside(hello, 0), outside(hello, 100),
			inside("", 0), inside("POST /am/3.0 HT", 0), inside(call[:len(call)/2], 0), inside(call, 0), inside(call, 1), inside(call, 8000),
			inside(strings.Repeat(call, 20), 8000),
		} {
			wg.Go(f)
		}
	}
	wg.Wait()
}

// checkConnectionEnds closes connections in one direction only, or sends after closing.
func checkConnectionEnds(t *testing.T, s *hostileTest) {
	version := post("/am/3.0", encoded(t, "GetVersion"))
	enter := func() *tls.Conn {
		c, err := s.connectTLS(2, s.bad.identity)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := enter()
	c.CloseWrite() // close_notify first
	wantEnd(t, "close_notify before a call", c)

	c = enter()
	io.WriteString(c, version)
	c.CloseWrite()
	wantEnd(t, "close_notify behind a call", c)

	c = enter()
	io.WriteString(c, version[:len(version)-10])
	c.CloseWrite()
	wantEnd(t, "close_notify within a call", c)

	c = enter()
	io.WriteString(c, version)
	c.NetConn().(*net.TCPConn).CloseWrite() // closed without close_notify
	wantEnd(t, "an end without close_notify", c)

	c = enter()
	c.CloseWrite()
	c.NetConn().Write([]byte("\x17\x03\x03\x00\x20" + strings.Repeat("x", 32))) // it sends nevertheless
	wantEnd(t, "bytes behind close_notify", c)

	c = enter()
	c.NetConn().Write([]byte("\x17\x03\x03\x00\x20" + strings.Repeat("x", 32)))
	wantEnd(t, "a record that nobody sealed", c)

	c = enter()
	c.NetConn().Write([]byte("\x15\x03\x03\x00\x02\x02\x00"))
	wantEnd(t, "an alert in the clear", c)
	if got := s.good.call("GetVersion"); got.code != am.Success {
		t.Errorf("GetVersion: %d %s", got.code, got.output)
	}
}
