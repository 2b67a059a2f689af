package mtls_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"patchbay/am/server/mtls"
)

// place copies a file of the PKI to a folder of the test.
func place(t testing.TB, dir, from, to string, mode os.FileMode) string {
	t.Helper()
	text, err := os.ReadFile(file(t, from))
	if err != nil {
		t.Fatal(err)
	}
	return placeText(t, dir, to, text, mode)
}

func placeText(t testing.TB, dir, to string, text []byte, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(dir, to)
	if err := errors.Join(os.WriteFile(name, text, 0o600), os.Chmod(name, mode)); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestNewNamesTheFileAndTheRemedy(t *testing.T) {
	dir := t.TempDir()
	crt, key := file(t, "server.crt"), file(t, "rsa.key")
	rsaText, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	crtText, err := os.ReadFile(crt)
	if err != nil {
		t.Fatal(err)
	}
	pair := func(c, k string) []mtls.KeyPair { return []mtls.KeyPair{{CertFile: c, KeyFile: k}} }
	for _, c := range []struct {
		name string
		keys []mtls.KeyPair
		want []string // parts of the error; none: it is taken
	}{
		{"Mode0600", pair(crt, place(t, dir, "rsa.key", "0600.key", 0o600)), nil},
		{"Mode0640", pair(crt, place(t, dir, "rsa.key", "0640.key", 0o640)), nil},
		{"Mode0644", pair(crt, place(t, dir, "rsa.key", "0644.key", 0o644)), []string{"0644.key", "mode 0644", "chmod 0600", "0640"}},
		{"Mode0660", pair(crt, place(t, dir, "rsa.key", "0660.key", 0o660)), []string{"0660.key", "chmod 0600"}},
		{"BothInOneFile", pair(placeText(t, dir, "both.pem", append(crtText, rsaText...), 0o600), filepath.Join(dir, "both.pem")), nil},
		{"RSAAndECDSA", append(pair(crt, key), pair(file(t, "server-ecdsa.crt"), file(t, "ec.key"))...), nil},
		{"TwoOfOneAlgorithm", append(pair(crt, key), pair(file(t, "server-new.crt"), file(t, "rsa2.key"))...), []string{"rsa.key", "rsa2.key", "same algorithm"}},
		{"NoPair", nil, []string{"at least one pair"}},
		{"NoCertificateFile", pair(filepath.Join(dir, "none.crt"), key), []string{"none.crt", "no such file"}},
		{"Folder", pair(dir, key), []string{dir, "not a regular file"}},
		{"FIFO", pair(crt, fifo), []string{fifo, "not a regular file"}},
		{"NotPEM", pair(placeText(t, dir, "text.crt", []byte("hello\n"), 0o644), key), []string{"text.crt", "no start line"}},
		{"CutSecondCertificate", pair(placeText(t, dir, "cut2.crt", append(bytes.Clone(crtText), crtText[:len(crtText)/2]...), 0o644), key), []string{"cut2.crt"}},
		{"TooLarge", pair(placeText(t, dir, "large.crt", make([]byte, 2<<20), 0o644), key), []string{"large.crt", "larger than"}},
		{"KeyOfAnother", pair(crt, file(t, "rsa2.key")), []string{"rsa2.key", "does not belong", "server.crt"}},
		{"PassPhrase", pair(crt, file(t, "encrypted.key")), []string{"encrypted.key", "pass phrase", "openssl pkey"}},
		{"WeakKey", pair(file(t, "weak.crt"), file(t, "rsa1024.key")), []string{"weak.crt", "ee key too small"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, err := mtls.New(mtls.Config{Keys: c.keys})
			if err == nil {
				defer ctx.Close()
			}
			if len(c.want) == 0 && err != nil || len(c.want) > 0 && err == nil {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

// The server sends the certificates that follow its own.
func TestServerSendsItsChain(t *testing.T) {
	dir := t.TempDir()
	chain := ders(t, "server", "authority", "root")
	s := serve(t, chainHandler, func(c *mtls.Config, _ *http.Server) {
		c.Keys = []mtls.KeyPair{{CertFile: pemFile(t, chain), KeyFile: place(t, dir, "rsa.key", "key.pem", 0o600)}}
	})
	out, _ := s.sClient(t, append(presenting(t, "rsa", "alice"), "-showcerts")...)
	if n := strings.Count(out, "BEGIN CERTIFICATE"); n != len(chain) {
		t.Errorf("%d certificates, want %d\n%s", n, len(chain), out)
	}
}

func TestReload(t *testing.T) {
	dir := t.TempDir()
	pair := mtls.KeyPair{
		CertFile: place(t, dir, "server.crt", "server.crt", 0o644),
		KeyFile:  place(t, dir, "rsa.key", "server.key", 0o600),
	}
	s := serve(t, chainHandler, func(c *mtls.Config, _ *http.Server) { c.Keys = []mtls.KeyPair{pair} })
	alice := tlsConfig(identity(t, "rsa", "alice"), tls.VersionTLS13)
	mustServe := func(name string) {
		t.Helper()
		if got := s.dial(t, alice).ConnectionState().PeerCertificates[0].Raw; !bytes.Equal(got, ders(t, name)[0]) {
			t.Errorf("new connections do not get the certificate %s", name)
		}
	}
	old := s.dial(t, alice)
	br := bufio.NewReader(old)
	mustServe("server")

	place(t, dir, "server-new.crt", "server.crt", 0o644)
	if err := s.ctx.Reload(); err == nil || !strings.Contains(err.Error(), "does not belong") {
		t.Errorf("Reload with half of the new files: %v", err)
	}
	mustServe("server")

	place(t, dir, "rsa2.key", "server.key", 0o600)
	if err := s.ctx.Reload(); err != nil {
		t.Fatal(err)
	}
	mustServe("server-new")

	os.Chmod(pair.KeyFile, 0o644)
	if err := s.ctx.Reload(); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("Reload with an open key file: %v", err)
	}
	mustServe("server-new")

	if _, err := roundTrip(old, br, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Errorf("the connection from before: %v", err)
	}
}

func TestReloadDuringHandshakes(t *testing.T) {
	s := serve(t, chainHandler, nil)
	alice := tlsConfig(identity(t, "ec2", "ecdsa"), tls.VersionTLS13)
	var clients sync.WaitGroup
	stop := make(chan bool)
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.get(t, alice); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 50 {
		if err := s.ctx.Reload(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	clients.Wait()
}

func TestClosedContext(t *testing.T) {
	s := serve(t, chainHandler, nil)
	alice := tlsConfig(identity(t, "rsa", "alice"), tls.VersionTLS13)
	old := s.dial(t, alice)
	br := bufio.NewReader(old)
	if _, err := roundTrip(old, br, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	s.ctx.Close()
	s.ctx.Close()
	if err := s.ctx.Reload(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Reload: %v, want net.ErrClosed", err)
	}
	// Accept must go on, without an error that would end Serve.
	for range 2 {
		if _, err := s.get(t, alice); err == nil {
			t.Error("a new connection is served")
		}
	}
	if _, err := roundTrip(old, br, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Errorf("the connection from before: %v", err)
	}
}
