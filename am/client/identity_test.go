package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"patchbay/am/testkit/require"
)

var quiet = log.New(io.Discard, "", 0)

type identity struct {
	key             crypto.Signer
	der             []byte
	certPEM, keyPEM []byte
}

func newIdentity(t *testing.T, extra ...pkix.Extension) identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return identityOf(t, key, extra...)
}

func identityOf(t *testing.T, key crypto.Signer, extra ...pkix.Extension) identity {
	t.Helper()
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "alice"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), ExtraExtensions: extra,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return identity{key, der, block("CERTIFICATE", der), block("PRIVATE KEY", pkcs8)}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// oddAIA returns an authority information access extension whose method is a UUID, as
// the federation's authorities write it: one arc of its object identifier has 128 bits.
func oddAIA(t *testing.T) pkix.Extension {
	t.Helper()
	var b cryptobyte.Builder
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(cbasn1.OBJECT_IDENTIFIER, func(b *cryptobyte.Builder) {
				b.AddUint8(2*40 + 25)
				b.AddBytes(append(bytes.Repeat([]byte{0x83, 0xa5}, 9), 0x11))
			})
			b.AddASN1(cbasn1.Tag(6).ContextSpecific(), func(b *cryptobyte.Builder) { b.AddBytes([]byte("https://example.org/sa")) })
		})
	})
	value, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 1}, Value: value}
}

func TestLoadIdentity(t *testing.T) {
	dir := t.TempDir()
	id, other := newIdentity(t), newIdentity(t)
	odd := newIdentity(t, oddAIA(t))
	if _, err := x509.ParseCertificate(odd.der); err == nil {
		t.Fatal("Go's parser accepts the odd certificate: the test checks nothing")
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaIdentity := identityOf(t, rsaKey)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edIdentity := identityOf(t, edKey)
	ecDER, err := x509.MarshalECPrivateKey(id.key.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, []byte("text between\n")) }
	legacy := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}, Bytes: []byte{1}})

	for i, tt := range []struct {
		rule      string
		cert, key []byte // nil key: it is in the same file
		leaf      []byte
		length    int
		says      string
	}{
		{"two files", id.certPEM, id.keyPEM, id.der, 1, ""},
		{"one file, key first", join(id.keyPEM, id.certPEM), nil, id.der, 1, ""},
		{"one file, key last", join(id.certPEM, id.keyPEM), nil, id.der, 1, ""},
		{"a chain", join(id.certPEM, other.certPEM), id.keyPEM, id.der, 2, ""},
		{"a chain in the wrong order", join(other.certPEM, odd.certPEM, id.certPEM), id.keyPEM, id.der, 3, ""},
		{"the odd extension", odd.certPEM, odd.keyPEM, odd.der, 1, ""},
		{"RSA, PKCS 1", rsaIdentity.certPEM, block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)), rsaIdentity.der, 1, ""},
		{"RSA, PKCS 8", rsaIdentity.certPEM, rsaIdentity.keyPEM, rsaIdentity.der, 1, ""},
		{"EC, with parameters before", id.certPEM, join(block("EC PARAMETERS", []byte{6, 0}), block("EC PRIVATE KEY", ecDER)), id.der, 1, ""},
		{"Ed25519", edIdentity.certPEM, edIdentity.keyPEM, edIdentity.der, 1, ""},
		{"key of another certificate", id.certPEM, other.keyPEM, nil, 0, "belongs to no certificate"},
		{"passphrase, PKCS 8", id.certPEM, block("ENCRYPTED PRIVATE KEY", []byte{1}), nil, 0, "openssl pkey -in"},
		{"passphrase, old form", join(id.certPEM, legacy), nil, nil, 0, "protected by a passphrase"},
		{"ssh key", id.certPEM, block("OPENSSH PRIVATE KEY", []byte{1}), nil, 0, "it is for ssh"},
		{"unknown PEM type", id.certPEM, block("DSA PRIVATE KEY", []byte{1}), nil, 0, "the PEM type DSA PRIVATE KEY is unknown"},
		{"broken key", id.certPEM, block("PRIVATE KEY", []byte{1}), nil, 0, "cannot use the key"},
		{"no key", id.certPEM, nil, nil, 0, "holds no private key"},
		{"no certificate", id.keyPEM, nil, nil, 0, "holds no certificate"},
		{"empty", []byte{}, nil, nil, 0, "holds no certificate"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			certFile, keyFile := writeFile(t, dir, fmt.Sprint(i, ".pem"), tt.cert), ""
			if tt.key != nil {
				keyFile = writeFile(t, dir, fmt.Sprint(i, ".key"), tt.key)
			}
			got, err := loadIdentity(certFile, keyFile)
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got %v, want %q", err, tt.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Certificate) != tt.length || !bytes.Equal(got.Certificate[0], tt.leaf) {
				t.Errorf("got %d certificates, the right leaf first: %v", len(got.Certificate), bytes.Equal(got.Certificate[0], tt.leaf))
			}
		})
	}
	if _, err := loadIdentity(dir+"/none", ""); err == nil {
		t.Error("a file that does not exist was read")
	}
}

// TestOddCertificateProvesItsKey makes a call to an OpenSSL server, which can read the
// federation's certificates; a Go server cannot.
func TestOddCertificateProvesItsKey(t *testing.T) {
	openssl := require.Tool(t, "openssl")
	dir := t.TempDir()
	server, odd := newIdentity(t), newIdentity(t, oddAIA(t))
	serverFile := writeFile(t, dir, "server.pem", append(server.keyPEM, server.certPEM...))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, openssl, "s_server", "-accept", "127.0.0.1:0", "-naccept", "1", "-cert", serverFile, "-key", serverFile,
		"-Verify", "1", "-CAfile", writeFile(t, dir, "ca.pem", odd.certPEM), "-verify_return_error")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		cmd.Wait()
	})

	var seen strings.Builder
	lines := bufio.NewScanner(out)
	until := func(mark string) string {
		for lines.Scan() {
			fmt.Fprintln(&seen, lines.Text())
			if _, rest, ok := strings.Cut(lines.Text(), mark); ok {
				return rest
			}
		}
		return ""
	}
	address := until("ACCEPT ")
	if address == "" {
		t.Fatalf("the server does not listen:\n%s", seen.String())
	}
	type result struct {
		Reply
		error
	}
	done := make(chan result, 1)
	c := newClient(t, Config{URL: "https://" + address, CertFile: writeFile(t, dir, "odd.pem", append(odd.certPEM, odd.keyPEM...)), Timeout: 15 * time.Second})
	go func() {
		r, err := c.Call(ctx, "GetVersion")
		done <- result{r, err}
	}()
	until("Accept-Encoding: ") // the last header of the call
	body := triple("hello")
	fmt.Fprintf(in, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if r := <-done; r.error != nil || r.Value != "hello" {
		t.Errorf("got %v, %v; the server said\n%s", r.Value, r.error, seen.String())
	}
	if !strings.Contains(seen.String(), string(odd.certPEM)) {
		t.Errorf("the server did not see the certificate:\n%s", seen.String())
	}
}
