package cert_test

import (
	"crypto/x509"
	"strings"
	"testing"

	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

func TestAlgorithmFitsTheKey(t *testing.T) {
	ec, rsaKey := pki.Key(t, "p256"), pki.Key(t, "rsa1")
	for _, tt := range []struct {
		key any
		alg x509.SignatureAlgorithm
	}{
		{ec.Public(), x509.SHA256WithRSA}, {rsaKey.Public(), x509.ECDSAWithSHA256}, {rsaKey.Public(), x509.MD5WithRSA},
		{rsaKey.Public(), x509.SHA256WithRSAPSS}, {rsaKey.Public(), x509.UnknownSignatureAlgorithm}, {[]byte("secret"), x509.SHA256WithRSA},
		{nil, x509.SHA256WithRSA}, {pki.Key(t, "rsa8200").Public(), x509.SHA256WithRSA}, {pki.Key(t, "p224").Public(), x509.ECDSAWithSHA256},
	} {
		if err := cert.CheckSignature(tt.key, tt.alg, []byte("x"), make([]byte, 256)); err == nil {
			t.Errorf("%T with %s: accepted", tt.key, tt.alg)
		}
	}
}

// TestLargeKeysVerifyNothing checks that no signature is computed with a key that is too large.
func TestLargeKeysVerifyNothing(t *testing.T) {
	err := cert.CheckSignature(pki.Key(t, "rsa8200").Public(), x509.SHA256WithRSA, []byte("x"), make([]byte, 1025))
	if err == nil || !strings.Contains(err.Error(), "at most 8192") {
		t.Errorf("got %v", err)
	}
}
