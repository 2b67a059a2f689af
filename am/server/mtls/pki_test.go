package mtls_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"patchbay/am/testkit/require"
)

// openssl makes the test PKI, so that the tests do not depend on Go's rules for certificates:
//
//	root ─┬ authority (odd AIA) ─ alice, ecdsa, ed25519, pss, sha1, weak, … (odd AIA)
//	      └ expired
//	selfsigned, v1, server, server-ecdsa, server-new
const pkiConfig = `
[req]
distinguished_name = dn
[dn]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = keyCertSign,cRLSign
subjectAltName = URI:urn:publicid:IDN+example.org+authority+sa
authorityInfoAccess = 2.25.305821105408246119474742976030998643995;URI:https://example.org:12369/protogeni/xmlrpc/sa
[member]
basicConstraints = CA:FALSE
subjectAltName = URI:urn:publicid:IDN+example.org+user+alice, URI:urn:uuid:0b0d1a4c-5a3c-4a3e-9d5c-2f5b7f1f6a11, email:alice@example.org
authorityInfoAccess = 2.25.305821105408246119474742976030998643995;URI:https://example.org:12369/protogeni/xmlrpc/sa
[root]
basicConstraints = critical,CA:TRUE
[server]
subjectAltName = DNS:localhost, IP:127.0.0.1
[ca]
default_ca = expiring
[expiring]
dir = %[1]s
database = %[1]s/index.txt
serial = %[1]s/serial
new_certs_dir = %[1]s
default_md = sha256
policy = anything
[anything]
commonName = supplied
`

// script makes the PKI in the current folder; issue NAME EXTENSIONS KEY OPTIONS… signs with the authority.
const pkiScript = `
set -e
: > index.txt
echo 01 > serial
new() { openssl req -config pki.cnf -new -subj "/CN=$1" -key "$2.key" -out "$1.csr"; }
self() { openssl req -config pki.cnf -x509 -subj "/CN=$1" -key "$2.key" -days 30 -extensions "$3" -out "$1.crt"; }
issue() {
	name=$1 ext=$2 key=$3; shift 3
	new "$name" "$key"
	openssl x509 -req -in "$name.csr" -CA authority.crt -CAkey ec.key -CAcreateserial -days 30 -extfile pki.cnf -extensions "$ext" -out "$name.crt" "$@"
}
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ec.key
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ec2.key
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.key
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa2.key
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024 -out rsa1024.key
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:512 -out rsa512.key
openssl genpkey -algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048 -out pss.key
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -pkeyopt rsa_keygen_pubexp:1180591620717411303425 -out longexp.key
openssl genpkey -algorithm ED25519 -out ed25519.key
openssl genpkey -algorithm X25519 -out x25519.key
openssl pkey -in x25519.key -pubout -out x25519.pub
openssl pkey -in rsa.key -aes256 -passout pass:secret -out encrypted.key

self root ec2 root
new authority ec
openssl x509 -req -in authority.csr -CA root.crt -CAkey ec2.key -CAcreateserial -days 30 -extfile pki.cnf -extensions authority -out authority.crt

issue alice member rsa
issue ecdsa member ec2
issue pss member pss
issue ed25519 member ed25519
issue longexp member longexp
issue x25519 member rsa -force_pubkey x25519.pub
issue sha1 member rsa -sha1
issue weak member rsa1024 -sha1
issue feeble member rsa512
self selfsigned rsa member
new v1 rsa
openssl x509 -req -in v1.csr -signkey rsa.key -days 30 -out v1.crt
new expired rsa
openssl ca -batch -config pki.cnf -in expired.csr -cert root.crt -keyfile ec2.key -startdate 20200101000000Z -enddate 20210101000000Z -extfile pki.cnf -extensions member -notext -out expired.crt

self server rsa server
self server-ecdsa ec server
self server-new rsa2 server
chmod 0600 *.key
`

// pkiDir is the folder of the PKI, made once and removed by TestMain.
var pkiDir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "mtls-pki-")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "pki.cnf"), fmt.Appendf(nil, pkiConfig, dir), 0o600); err != nil {
		return dir, err
	}
	cmd := exec.Command("sh", "-c", pkiScript)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("cannot make the test PKI: %w\n%s", err, out)
	}
	return dir, nil
})

var pkiMade bool // written by tests, which do not run in parallel, before TestMain reads it

func TestMain(m *testing.M) {
	code := require.NoLeaks(m)
	if pkiMade {
		if dir, _ := pkiDir(); dir != "" {
			os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// file is the path of a file of the PKI.
func file(t testing.TB, name string) string {
	t.Helper()
	require.Tool(t, "openssl")
	pkiMade = true
	dir, err := pkiDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// ders reads the certificates of one or several files of the PKI.
func ders(t testing.TB, names ...string) [][]byte {
	t.Helper()
	var list [][]byte
	for _, name := range names {
		text, err := os.ReadFile(file(t, name+".crt"))
		if err != nil {
			t.Fatal(err)
		}
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			list = append(list, block.Bytes)
		}
	}
	return list
}

// pemFile writes certificates to a file of its own.
func pemFile(t testing.TB, certs [][]byte) string {
	t.Helper()
	var text bytes.Buffer
	for _, der := range certs {
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "chain.pem")
	if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// identity returns the certificate of a Go client. tls.LoadX509KeyPair cannot read these
// certificates.
func identity(t testing.TB, key string, chain ...string) *tls.Certificate {
	t.Helper()
	text, err := os.ReadFile(file(t, key+".key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: ders(t, chain...), PrivateKey: private}
}

// forged is a certificate for any public key, with a padding of n bytes, from an unknown issuer.
func forged(t testing.TB, public any, n int) []byte {
	t.Helper()
	issuer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:    big.NewInt(4711),
		Subject:         pkix.Name{CommonName: "forged"},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1}, Value: make([]byte, n)}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, issuer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func sameChain(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }
