package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"patchbay/credentials/cert"
)

// ClaimKey returns a subjectKeyIdentifier that identifies the key of another entity. The
// requester of a certificate can choose any identifier.
func ClaimKey(t testing.TB, victim *Entity) pkix.Extension {
	t.Helper()
	id, err := hex.DecodeString(KeyID(t, victim))
	if err != nil {
		t.Fatal(err)
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 14}, Value: marshal(t, id)}
}

// asn1Certificate is the outer structure of a certificate.
type asn1Certificate struct {
	TBS       asn1.RawValue
	Algorithm pkix.AlgorithmIdentifier
	Signature asn1.BitString
}

// parse decodes DER into a value of type T.
func parse[T any](t testing.TB, der []byte) (v T) {
	t.Helper()
	if _, err := asn1.Unmarshal(der, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// marshal encodes v in DER.
func marshal(t testing.TB, v any) []byte {
	t.Helper()
	der, err := asn1.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// Resigned returns a certificate with its signature replaced.
func Resigned(t testing.TB, der, signature []byte) []byte {
	t.Helper()
	o := parse[asn1Certificate](t, der)
	o.Signature = asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}
	return marshal(t, o)
}

// WithTail returns a certificate with additional data after the signature, but inside the
// outer SEQUENCE. The signature stays valid and the fingerprint changes.
func WithTail(t testing.TB, der []byte) []byte {
	t.Helper()
	all := parse[asn1.RawValue](t, der)
	return marshal(t, asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: append(bytes.Clone(all.Bytes), 5, 0)})
}

// Forged returns a certificate in the name of an issuer whose key is rsa-e3, created
// without that key.
func Forged(t testing.TB, issuer *Entity, s Subject) []byte {
	t.Helper()
	s.Algorithm = x509.SHA256WithRSA
	der := DER(t, issuer, s)
	return Resigned(t, der, CubeRoot(t, issuer, parse[asn1Certificate](t, der).TBS.FullBytes))
}

// CubeRoot returns a forged signature for the key rsa-e3 of an entity, created without that
// key. It is a cube root: its third power begins like the PKCS #1 padding of the SHA-256 of
// signed, and ends with other bytes. A verifier that does not check the end accepts it;
// CubeRoot checks that the forgery is good enough for that.
func CubeRoot(t testing.TB, e *Entity, signed []byte) []byte {
	t.Helper()
	key, ok := e.PublicKey.(*rsa.PublicKey)
	if !ok || key.E != 3 {
		t.Fatalf("%s has no key with the exponent 3", e.Name())
	}
	sum := sha256.Sum256(signed)
	// 0, block type 1, the least padding, 0, and the DigestInfo of SHA-256.
	begin := append([]byte{0, 1, 255, 255, 255, 255, 255, 255, 255, 255, 0,
		0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}, sum[:]...)
	block := make([]byte, key.Size())
	copy(block, begin)
	for i := len(begin); i < len(block); i++ {
		block[i] = 255
	}
	root := cubeRoot(new(big.Int).SetBytes(block))
	cube := new(big.Int).Exp(root, big.NewInt(3), nil)
	if power := cube.FillBytes(make([]byte, key.Size())); !bytes.HasPrefix(power, begin) || cube.Cmp(key.N) >= 0 {
		t.Fatal("the forged signature would deceive no verifier")
	}
	return root.FillBytes(make([]byte, key.Size()))
}

// cubeRoot returns the largest number whose cube is not above n.
func cubeRoot(n *big.Int) *big.Int {
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(n.BitLen()/3+1))
	one, three := big.NewInt(1), big.NewInt(3)
	for new(big.Int).Sub(high, low).Cmp(one) > 0 {
		middle := new(big.Int).Rsh(new(big.Int).Add(low, high), 1)
		if new(big.Int).Exp(middle, three, nil).Cmp(n) > 0 {
			high = middle
		} else {
			low = middle
		}
	}
	return low
}

// CRL returns a CRL of an issuer that revokes certificates, in PEM.
func CRL(t testing.TB, issuer *Entity, revoked ...*Entity) string {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: Now.Add(-time.Hour), NextUpdate: Now.AddDate(0, 1, 0)}
	for _, e := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: e.SerialNumber, RevocationTime: Now.Add(-time.Hour)})
	}
	maker := *issuer.Certificate.Certificate
	maker.KeyUsage |= x509.KeyUsageCRLSign // required by the library, but not by package cert
	der, err := x509.CreateRevocationList(rand.Reader, list, &maker, issuer.Key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}

// Trust creates and reads a trust folder with the anchors in list and additional files.
func Trust(t testing.TB, files map[string]string, list ...*Entity) *cert.Anchors {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("anchors.pem", PEM(list...))
	for name, text := range files {
		write(name, text)
	}
	anchors, problems, err := cert.NewFolder(dir, cert.Options{MinRSABits: 1024}).Load(Now)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	return anchors
}

// Twin returns a certificate that an ECDSA key has signed with (r, s) with the signature
// (r, n-s) instead. That signature is valid too, and anybody can compute it.
func Twin(t testing.TB, issuer *Entity, der []byte) []byte {
	t.Helper()
	key, ok := issuer.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		t.Fatalf("%s has no ECDSA key", issuer.Name())
	}
	pair := parse[struct{ R, S *big.Int }](t, parse[asn1Certificate](t, der).Signature.Bytes)
	pair.S.Sub(key.Params().N, pair.S)
	return Resigned(t, der, marshal(t, pair))
}
