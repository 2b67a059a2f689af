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

// Now is the present time in tests.
var Now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// keys are the keys that were read, by name.
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

// Subject describes a certificate. A zero field means its usual value.
type Subject struct {
	// URIs are the alternative names. They are not normalized.
	URIs []string
	// Key names the subject's key, usually rsa1.
	Key string
	CN  string // usually the first URI
	CA  bool
	// From and To are the dates, usually an hour before Now and a year after Now.
	From, To time.Time
	KeyUsage x509.KeyUsage
	// PathLen is the path length constraint plus one; 0 means that there is none.
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

// DER creates a certificate in DER. A nil issuer means that it is self-signed.
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

// Issue creates a certificate with DER and parses it.
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

// Authority creates a CA certificate with that URN. key names its key.
func Authority(t testing.TB, issuer *Entity, urn, key string) *Entity {
	t.Helper()
	return Issue(t, issuer, Subject{URIs: []string{urn}, Key: key, CA: true})
}

// User creates a certificate with that URN that is not a CA. key names its key.
func User(t testing.TB, issuer *Entity, urn, key string) *Entity {
	t.Helper()
	return Issue(t, issuer, Subject{URIs: []string{urn}, Key: key})
}

// AltNames returns the extension with these URIs as alternative names, byte for byte.
func AltNames(t testing.TB, uris ...string) pkix.Extension {
	t.Helper()
	var names []asn1.RawValue
	for _, u := range uris {
		names = append(names, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(u)})
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: marshal(t, names)}
}

// OddAIA returns an authorityInfoAccess extension like that of Emulab and imec authorities. Its
// access method has an arc of 128 bits: 2.25.305821105408246119474742976030998643995.
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

// Anchors returns a generation of trust with these certificates as anchors.
func Anchors(list ...*Entity) *cert.Anchors {
	var anchors []cert.Anchor
	for _, e := range list {
		anchors = append(anchors, cert.Anchor{Certificate: e.Certificate})
	}
	return cert.NewAnchors(anchors...)
}

// PEM returns certificates in PEM, as in a GID. The leaf must come first.
func PEM(list ...*Entity) string {
	var b bytes.Buffer
	for _, e := range list {
		pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: e.Raw})
	}
	return b.String()
}

// Raw returns certificates in DER, as a TLS peer presents them.
func Raw(list ...*Entity) (raw [][]byte) {
	for _, e := range list {
		raw = append(raw, e.Raw)
	}
	return raw
}
