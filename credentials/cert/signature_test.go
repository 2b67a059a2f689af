package cert_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"math/big"
	"testing"

	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

// TestForgedSignatureOfSmallExponent is #20: for keys with the exponent 3 a
// value whose cube only begins like a signature can be made without the key.
// Verifiers that do not look at the end of the padding accept it.
func TestForgedSignatureOfSmallExponent(t *testing.T) {
	key := pki.Key(t, "rsa-e3").(*rsa.PrivateKey)
	if key.E != 3 {
		t.Fatal("the test key has another exponent")
	}
	message := []byte("anything")
	digest := sha256.Sum256(message)
	prefix := []byte{0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}
	block := make([]byte, key.Size())
	head := append([]byte{0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0}, append(prefix, digest[:]...)...)
	copy(block, head)
	for i := len(head); i < len(block); i++ {
		block[i] = 0xff
	}
	root := cubeRoot(new(big.Int).SetBytes(block))
	forged := root.FillBytes(make([]byte, key.Size()))
	cube := new(big.Int).Exp(root, big.NewInt(3), nil).FillBytes(make([]byte, key.Size()))
	if string(cube[:len(head)]) != string(head) {
		t.Fatal("the forgery does not even begin like a signature: the test proves nothing")
	}
	if err := cert.CheckSignature(&key.PublicKey, x509.SHA256WithRSA, message, forged); err == nil {
		t.Error("a forged signature is accepted")
	}
	good, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	if err := cert.CheckSignature(&key.PublicKey, x509.SHA256WithRSA, message, good); err != nil {
		t.Errorf("a genuine signature of the same key: %v", err)
	}
}

// cubeRoot is the largest number whose cube is not above n.
func cubeRoot(n *big.Int) *big.Int {
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(n.BitLen()/3+1))
	for low.Cmp(high) < 0 {
		middle := new(big.Int).Add(low, high)
		middle.Add(middle, big.NewInt(1)).Rsh(middle, 1)
		if new(big.Int).Exp(middle, big.NewInt(3), nil).Cmp(n) > 0 {
			high.Sub(middle, big.NewInt(1))
		} else {
			low = middle
		}
	}
	return low
}

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
