package pki

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/credentials/cert"
)

// Now is the time at which tests are held.
var Now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var keys sync.Map

// Key reads a private key of ../keys: rsa1 to rsa6, rsa1024, rsa-e3, rsa8200,
// p224, p256, p384 or p521.
func Key(t testing.TB, name string) crypto.Signer {
	t.Helper()
	if k, ok := keys.Load(name); ok {
		return k.(crypto.Signer)
	}
	_, here, _, _ := runtime.Caller(0)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", "keys", name+".pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	var key crypto.Signer
	if k, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		key = k
	} else if k, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		key = k
	} else {
		t.Fatalf("key %s: %v", name, err)
	}
	keys.Store(name, key)
	return key
}

// Subject says what a certificate is to hold. Zero fields take what is usual.
type Subject struct {
	// URIs are the alternative names, as written.
	URIs []string
	// Key names the subject's key; rsa1 unless given.
	Key string
	CN  string
	CA  bool
	// From and To are the dates; an hour before Now and a year after, unless given.
	From, To time.Time
	KeyUsage x509.KeyUsage
	// PathLen is the path length plus one; 0 leaves it out.
	PathLen   int
	Algorithm x509.SignatureAlgorithm
	Extra     []pkix.Extension
}

// Entity is a certificate with its key.
type Entity struct {
	*cert.Certificate
	Key crypto.Signer
}

var serial atomic.Int64

// DER makes a certificate signed by the issuer, or by itself when that is nil.
func DER(t testing.TB, issuer *Entity, s Subject) []byte {
	t.Helper()
	if s.Key == "" {
		s.Key = "rsa1"
	}
	if s.From.IsZero() {
		s.From = Now.Add(-time.Hour)
	}
	if s.To.IsZero() {
		s.To = Now.AddDate(1, 0, 0)
	}
	if s.CN == "" && len(s.URIs) > 0 {
		s.CN = s.URIs[0]
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: s.CN},
		NotBefore: s.From, NotAfter: s.To, KeyUsage: s.KeyUsage,
		BasicConstraintsValid: true, IsCA: s.CA, ExtraExtensions: s.Extra, SignatureAlgorithm: s.Algorithm,
	}
	if s.PathLen > 0 {
		template.MaxPathLen, template.MaxPathLenZero = s.PathLen-1, s.PathLen == 1
	}
	if len(s.URIs) > 0 {
		template.ExtraExtensions = append([]pkix.Extension{AltNames(t, s.URIs...)}, s.Extra...)
	}
	key := Key(t, s.Key)
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.Certificate.Certificate, issuer.Key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatalf("certificate of %v: %v", s.URIs, err)
	}
	return der
}

// Issue is DER, read back.
func Issue(t testing.TB, issuer *Entity, s Subject) *Entity {
	t.Helper()
	c, err := cert.Parse(DER(t, issuer, s))
	if err != nil {
		t.Fatalf("certificate of %v: %v", s.URIs, err)
	}
	if s.Key == "" {
		s.Key = "rsa1"
	}
	return &Entity{c, Key(t, s.Key)}
}

// Authority makes a CA of that URN.
func Authority(t testing.TB, issuer *Entity, urn, key string) *Entity {
	t.Helper()
	return Issue(t, issuer, Subject{URIs: []string{urn}, Key: key, CA: true})
}

// User makes a certificate that is no CA.
func User(t testing.TB, issuer *Entity, urn, key string) *Entity {
	t.Helper()
	return Issue(t, issuer, Subject{URIs: []string{urn}, Key: key})
}

// AltNames is the extension that holds URIs byte for byte.
func AltNames(t testing.TB, uris ...string) pkix.Extension {
	t.Helper()
	var names []asn1.RawValue
	for _, u := range uris {
		names = append(names, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(u)})
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: marshal(t, names)}
}

// OddAIA is the authorityInfoAccess extension of Emulab and imec authorities,
// whose access method is an arc of 128 bits: 2.25.305821105408246119474742976030998643995.
func OddAIA(critical bool) pkix.Extension {
	n, _ := new(big.Int).SetString("305821105408246119474742976030998643995", 10)
	oid := []byte{2*40 + 25}
	for shift := (n.BitLen() - 1) / 7 * 7; shift >= 0; shift -= 7 {
		digit := byte(new(big.Int).Rsh(n, uint(shift)).Uint64() & 0x7f)
		if shift > 0 {
			digit |= 0x80
		}
		oid = append(oid, digit)
	}
	tlv := func(tag byte, parts ...[]byte) []byte {
		body := bytes.Join(parts, nil)
		return append([]byte{tag, byte(len(body))}, body...)
	}
	access := tlv(0x30, tlv(0x06, oid), tlv(0x86, []byte("https://sa.example.org:12369/protogeni/xmlrpc/sa")))
	return pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 1}, Critical: critical, Value: tlv(0x30, access)}
}

// Anchors trusts the certificates as such.
func Anchors(list ...*Entity) *cert.Anchors {
	var anchors []cert.Anchor
	for _, e := range list {
		anchors = append(anchors, cert.Anchor{Certificate: e.Certificate})
	}
	return cert.NewAnchors(anchors...)
}

// PEM is the certificates as a GID, leaf first.
func PEM(list ...*Entity) string {
	var b bytes.Buffer
	for _, e := range list {
		pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: e.Raw})
	}
	return b.String()
}

// Raw is the certificates as a TLS peer shows them.
func Raw(list ...*Entity) (raw [][]byte) {
	for _, e := range list {
		raw = append(raw, e.Raw)
	}
	return raw
}
