package mtls_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"patchbay/am/server/mtls"
	"patchbay/am/testkit/wait"
)

func TestVersionsBelowTLS12AreRefused(t *testing.T) {
	s := serve(t, chainHandler, func(c *mtls.Config, _ *http.Server) { c.SHA1Handshakes = true })
	for name, v := range map[string]uint16{"TLS10": tls.VersionTLS10, "TLS11": tls.VersionTLS11} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.get(t, tlsConfig(identity(t, "rsa", "alice"), v)); err == nil || !strings.Contains(err.Error(), "protocol version not supported") {
				t.Errorf("the client saw %v, want the alert protocol_version", err)
			}
		})
	}
	t.Run("OpenSSL", func(t *testing.T) {
		out, page := s.sClient(t, append(presenting(t, "rsa", "alice"), "-tls1_1")...)
		if page != nil || !strings.Contains(out, "alert protocol version") {
			t.Errorf("want the alert protocol_version:\n%s", out)
		}
	})
}

func TestSuites(t *testing.T) {
	both := serve(t, chainHandler, nil)
	legacy := serve(t, chainHandler, func(c *mtls.Config, _ *http.Server) { c.SHA1Handshakes = true })
	for _, c := range []struct {
		name, suite string
		site        *site
		served      bool
	}{
		{"RSAKeyExchangeCBC", "AES128-SHA", both, true},
		{"RSAKeyExchangeCBC256", "AES256-SHA256", both, true},
		{"RSAKeyExchangeGCM", "AES256-GCM-SHA384", both, true},
		{"ECDHEWithRSAKeyCBC", "ECDHE-RSA-AES128-SHA", both, true},
		{"ECDHEWithRSAKey", "ECDHE-RSA-AES256-GCM-SHA384", both, true},
		{"ECDHEWithECDSAKey", "ECDHE-ECDSA-CHACHA20-POLY1305", both, true},
		{"FiniteField", "DHE-RSA-AES256-GCM-SHA384", both, false},
		{"FiniteFieldLegacy", "kDHE", legacy, false},
		{"RSAKeyExchangeLegacy", "AES128-SHA", legacy, true},
		{"Anonymous", "aNULL", both, false},
		{"AnonymousLegacy", "aNULL", legacy, false},
		{"NoEncryption", "eNULL", both, false},
		{"NoEncryptionLegacy", "eNULL", legacy, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append(presenting(t, "rsa", "alice"), "-tls1_2", "-cipher", c.suite+":@SECLEVEL=0")
			out, page := c.site.sClient(t, args...)
			if c.served != (page != nil) {
				t.Errorf("served: %t\n%s", page != nil, out)
			}
			if c.served && !strings.Contains(out, "Cipher is "+c.suite) {
				t.Errorf("not by %s:\n%s", c.suite, out)
			}
		})
	}
}

func TestHandshakesSignedWithSHA1NeedTheSwitch(t *testing.T) {
	args := append(presenting(t, "rsa", "alice"), "-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0", "-sigalgs", "RSA+SHA1")
	for name, legacy := range map[string]bool{"Off": false, "On": true} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, chainHandler, func(c *mtls.Config, _ *http.Server) { c.SHA1Handshakes = legacy })
			if out, page := s.sClient(t, args...); legacy != (page != nil) {
				t.Errorf("served: %t\n%s", page != nil, out)
			}
		})
	}
}

// A group that costs the server much more than the client is refused before any computation.
func TestGroups(t *testing.T) {
	for name, s := range map[string]*site{
		"":       serve(t, chainHandler, nil),
		"Legacy": serve(t, chainHandler, func(c *mtls.Config, _ *http.Server) { c.SHA1Handshakes = true }),
	} {
		for group, served := range map[string]bool{
			"X25519": true, "P-256": true, "P-384": true, "P-521": true, "X448": false,
			"ffdhe2048": false, "ffdhe3072": false, "ffdhe4096": false, "ffdhe6144": false, "ffdhe8192": false,
		} {
			t.Run(group+name, func(t *testing.T) {
				out, page := s.sClient(t, append(presenting(t, "rsa", "alice"), "-tls1_3", "-groups", group)...)
				if served != (page != nil) || !served && !strings.Contains(out, "alert handshake failure") {
					t.Errorf("served: %t\n%s", page != nil, out)
				}
			})
		}
	}
}

// A client whose first ClientHello has no key share of a permitted group gets a HelloRetryRequest.
func TestHelloRetryRequest(t *testing.T) {
	s := serve(t, chainHandler, nil)
	out, page := s.sClient(t, append(presenting(t, "rsa", "alice"), "-tls1_3", "-groups", "X448:P-521", "-msg")...)
	if page == nil {
		t.Errorf("not served:\n%s", out)
	}
}

func TestResumptionIsNeverDone(t *testing.T) {
	s := serve(t, chainHandler, nil)
	want := ders(t, "alice", "authority")

	for name, v := range versions {
		t.Run("CacheOfAGoClient"+name, func(t *testing.T) {
			cfg := tlsConfig(identity(t, "rsa", "alice", "authority"), v)
			cfg.ClientSessionCache = tls.NewLRUClientSessionCache(0)
			for range 3 {
				c := s.dial(t, cfg)
				body, err := roundTrip(c, bufio.NewReader(c), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				if err != nil {
					t.Fatal(err)
				}
				if c.ConnectionState().DidResume {
					t.Error("resumed")
				}
				if got, err := parseChain([]byte(body)); err != nil || !sameChain(got, want) {
					t.Errorf("%d certificates (%v), want 2", len(got), err)
				}
				c.Close()
			}
		})
	}

	for flag, protocol := range map[string]string{"-tls1_2": "TLSv1.2", "-tls1_3": "TLSv1.3"} {
		t.Run("ForeignTicket"+flag, func(t *testing.T) {
			ticket := foreignSession(t, flag)
			out, page := s.sClient(t, append(presenting(t, "rsa", "alice", "authority"), flag, "-sess_in", ticket)...)
			if got, err := parseChain(page); err != nil || !sameChain(got, want) {
				t.Errorf("%d certificates (%v), want 2\n%s", len(got), err, out)
			}
			if !strings.Contains(out, "New, "+protocol) {
				t.Errorf("no full handshake:\n%s", out)
			}
		})
		t.Run("NoSessionIsGivenOut"+flag, func(t *testing.T) {
			out, page := s.sClient(t, append(presenting(t, "rsa", "alice"), flag, "-msg")...)
			if page == nil || strings.Contains(out, "NewSessionTicket") {
				t.Errorf("a ticket, or no answer:\n%s", out)
			}
		})
	}
	t.Run("Reconnect", func(t *testing.T) {
		out, _ := s.sClient(t, append(presenting(t, "rsa", "alice"), "-tls1_2", "-reconnect")...)
		if n := strings.Count(out, "New, TLSv1.2"); n != 6 || strings.Contains(out, "Reused, ") {
			t.Errorf("%d full handshakes, want 6:\n%s", n, out)
		}
	})
}

// foreignSession gets a session with a ticket from a server of openssl's own.
func foreignSession(t *testing.T, flag string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "session.pem")
	server := exec.Command("openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", file(t, "server.crt"), "-key", file(t, "rsa.key"), "-naccept", "1", flag)
	stdin, err := server.StdinPipe() // kept open: it quits at the end of its input
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Process.Kill()
	var addr string
	lines := bufio.NewScanner(stdout)
	for addr == "" && lines.Scan() {
		if after, ok := strings.CutPrefix(lines.Text(), "ACCEPT "); ok {
			addr = after
		}
	}
	go io.Copy(io.Discard, stdout)

	client := exec.Command("openssl", "s_client", "-connect", addr, flag, "-sess_out", name)
	in, err := client.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		client.Wait()
	}()
	wait.Until(t, "a session of openssl s_server", func() bool { info, err := os.Stat(name); return err == nil && info.Size() > 0 })
	return name
}

// keyboard is an s_client whose input the test writes. The lines R and K renegotiate and
// change keys.
type keyboard struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan bool

	mu  sync.Mutex
	out bytes.Buffer
}

func (k *keyboard) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.out.Write(p)
}

// printed is everything that s_client has printed so far.
func (k *keyboard) printed() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.out.String()
}

// press types a line and waits for the next echo; s_client reads one line per
// turn only if it finds no more than one. It returns false when none comes.
func (k *keyboard) press(line, echo string) bool {
	before := strings.Count(k.printed(), echo)
	if _, err := io.WriteString(k.in, line); err != nil {
		return false
	}
	echoed := func() bool { return strings.Count(k.printed(), echo) > before }
	wait.Until(k.t, "the echo of "+line, func() bool {
		select {
		case <-k.ended:
			return true
		default:
			return echoed()
		}
	})
	return echoed()
}

func (s *site) sit(t *testing.T, args ...string) *keyboard {
	t.Helper()
	k := &keyboard{t: t, ended: make(chan bool), cmd: exec.CommandContext(t.Context(), "openssl", append([]string{"s_client", "-connect", s.addr}, args...)...)}
	k.cmd.Stdout, k.cmd.Stderr = k, k
	var err error
	if k.in, err = k.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		k.cmd.Wait() // its exit code says little
		close(k.ended)
	}()
	t.Cleanup(func() {
		k.in.Close()
		<-k.ended
	})
	return k
}

func TestRenegotiationIsRefusedAtOnce(t *testing.T) {
	s := serve(t, chainHandler, nil)
	k := s.sit(t, append(presenting(t, "rsa", "alice"), "-tls1_2")...)
	if !k.press("R\n", "RENEGOTIATING") {
		t.Fatalf("s_client does not try:\n%s", k.printed())
	}
	wait.Holds(t, func() bool { return strings.Contains(k.printed(), "no renegotiation") }, func() string {
		return "want the alert no_renegotiation: " + k.printed()
	})
}

func TestKeyUpdates(t *testing.T) {
	t.Run("AFewAreAnswered", func(t *testing.T) {
		s := serve(t, chainHandler, nil)
		k := s.sit(t, append(presenting(t, "rsa", "alice"), "-tls1_3")...)
		for range 5 {
			if !k.press("K\n", "KEYUPDATE") {
				t.Fatalf("s_client does not try:\n%s", k.printed())
			}
		}
		if !k.press("GET / HTTP/1.0\r\n\r\n", "200 OK") {
			t.Errorf("not served:\n%s", k.printed())
		}
	})
	t.Run("AFloodEndsTheConnection", func(t *testing.T) {
		s := serve(t, chainHandler, nil)
		k := s.sit(t, append(presenting(t, "rsa", "alice"), "-tls1_3")...)
		n := 0
		for n < 1000 && (n == 0 || s.ctx.Live() > 0) && k.press("K\n", "KEYUPDATE") {
			n++
		}
		t.Logf("ended after %d key updates", n)
		if n < 20 || n == 1000 {
			t.Errorf("ended after %d key updates\n%s", n, k.printed())
		}
	})
}
