package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"path/filepath"
	"testing"
	"time"
)

// certificateForger creates certificates, some of them signed by the site's authority.
type certificateForger struct {
	t         *testing.T // of the current case
	authority *x509.Certificate
	signer    crypto.Signer
	user      string // the URN of the hostile user
	serial    int64
}

func newCertificateForger(t *testing.T, s *hostileTest) *certificateForger {
	t.Helper()
	dir := filepath.Join(s.dir, "authority")
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "authority.pem"), filepath.Join(dir, "authority.key"))
	if err != nil {
		t.Fatal(err)
	}
	return &certificateForger{t: t, authority: pair.Leaf, signer: pair.PrivateKey.(crypto.Signer), user: s.bad.URN.String(), serial: 1 << 40}
}

// newECKey returns a new key of a fast kind.
func (f *certificateForger) newECKey() crypto.Signer {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	return k
}

// key returns one of the fixed keys of the credentials' tests.
func (f *certificateForger) key(name string) crypto.Signer {
	f.t.Helper()
	return parseKey(f.t, []byte(readFile(f.t, filepath.Join("..", "..", "credentials", "testdata", "keys", name))))
}

// newCertificate returns a user's certificate as the site's authority issues it, changed
// by change, and signed by parent or by itself.
func (f *certificateForger) newCertificate(key crypto.Signer, parent *x509.Certificate, signer crypto.Signer, change func(*x509.Certificate)) tls.Certificate {
	f.t.Helper()
	f.serial++
	name, err := url.Parse(f.user)
	if err != nil {
		f.t.Fatal(err)
	}
	x := &x509.Certificate{
		SerialNumber: big.NewInt(f.serial), Subject: pkix.Name{CommonName: "attacker"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		URIs: []*url.URL{name}, EmailAddresses: []string{"attacker@example.org"}, BasicConstraintsValid: true,
	}
	if change != nil {
		change(x)
	}
	if parent == nil {
		parent, signer = x, key
	}
	der, err := x509.CreateCertificate(rand.Reader, x, parent, key.Public(), signer)
	if err != nil {
		f.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// issuedByAuthority returns a certificate signed by the site's authority.
func (f *certificateForger) issuedByAuthority(key crypto.Signer, change func(*x509.Certificate)) tls.Certificate {
	f.t.Helper()
	return f.newCertificate(key, f.authority, f.signer, change)
}

// withChain returns c followed by these certificates.
func withChain(c tls.Certificate, more ...[]byte) tls.Certificate {
	c.Certificate = append(c.Certificate[:1:1], more...)
	return c
}
