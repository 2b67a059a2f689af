package site

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/display"
	"patchbay/credentials/trial"
)

func TestMain(m *testing.M) {
	display.Program = "patchbay" // not the name of the test
	os.Exit(m.Run())
}

// has fails for each part that is not in text.
func has(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// made returns a folder with a site without components.
func made(t testing.TB) string {
	t.Helper()
	dir, now := t.TempDir(), time.Now()
	authority, err := trial.Create(filepath.Join(dir, AuthorityDir), "testbed.example.org", now)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: now, NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		ConfigName: []byte(`authority: testbed.example.org
listen: 127.0.0.1:0
keys: [{certificate: server.pem, key: server-key.pem}]
`),
		InventoryName:       []byte("sliver_types: [{name: vm}]\ncomponents: []\n"),
		"providers/README":  nil,
		"trusted/trial.pem": authority.Certificate(),
		"server.pem":        pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"server-key.pem":    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	} {
		if err := ReplaceFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
