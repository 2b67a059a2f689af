package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/program"
)

// TestCheckReportsExpiryOfServerCertificate proves that check reports the end of a server
// certificate, and what to do.
func TestCheckReportsExpiryOfServerCertificate(t *testing.T) {
	dir := program.NewSite(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, tt := range []struct {
		left time.Duration
		want string
	}{
		{-time.Hour, "error    server-ecdsa.pem: it expired on "},
		{72 * time.Hour, "warning  server-ecdsa.pem: it ends on "},
	} {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost", name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(tt.left)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		for file, block := range map[string]*pem.Block{
			"server-ecdsa.pem":     {Type: "CERTIFICATE", Bytes: der},
			"server-ecdsa-key.pem": {Type: "PRIVATE KEY", Bytes: pkcs8},
		} {
			if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, out := runCommand(t, "check", "--config", dir)
		program.WantTexts(t, strings.ReplaceAll(out, dir+"/", ""), tt.want+template.NotAfter.UTC().Format(time.DateOnly)+"; replace it, then: systemctl reload patchbay")
	}
}
