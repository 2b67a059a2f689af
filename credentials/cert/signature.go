package cert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha1" // old federations still sign with it
	_ "crypto/sha256"
	_ "crypto/sha512"
	"crypto/x509"
	"errors"
	"fmt"

	"patchbay/credentials/rule"
)

// MaxRSABits is the maximum size of an RSA key in bits.
const MaxRSABits = 8192

var digests = map[x509.SignatureAlgorithm]crypto.Hash{
	x509.SHA1WithRSA:     crypto.SHA1,
	x509.SHA256WithRSA:   crypto.SHA256,
	x509.SHA384WithRSA:   crypto.SHA384,
	x509.SHA512WithRSA:   crypto.SHA512,
	x509.ECDSAWithSHA1:   crypto.SHA1,
	x509.ECDSAWithSHA256: crypto.SHA256,
	x509.ECDSAWithSHA384: crypto.SHA384,
	x509.ECDSAWithSHA512: crypto.SHA512,
}

// CheckSignature checks a signature over the signed bytes. It supports RSA (PKCS #1 v1.5)
// up to MaxRSABits, and ECDSA on P-256, P-384 or P-521 with the signature in ASN.1. It also
// accepts SHA-1, which the caller must refuse if SHA-1 is not allowed. It fails for any
// other key or algorithm.
func CheckSignature(key any, alg x509.SignatureAlgorithm, signed, sig []byte) error {
	hash, ok := digests[alg]
	if !ok {
		return fmt.Errorf("algorithm %s is not accepted", alg)
	}
	h := hash.New()
	h.Write(signed)
	return checkDigest(key, alg, h.Sum(nil), sig)
}

// checkDigest is like CheckSignature, but takes the digest of the signed bytes.
func checkDigest(key any, alg x509.SignatureAlgorithm, digest, sig []byte) error {
	hash := digests[alg]
	switch k := key.(type) {
	case *rsa.PublicKey:
		if !usesRSA(alg) {
			return errors.New("the algorithm is not for an RSA key")
		}
		if k.N.BitLen() > MaxRSABits {
			return fmt.Errorf("RSA key of %d bits, at most %d", k.N.BitLen(), MaxRSABits)
		}
		if rsa.VerifyPKCS1v15(k, hash, digest, sig) != nil {
			return errors.New("signature does not match")
		}
		return nil
	case *ecdsa.PublicKey:
		if usesRSA(alg) {
			return errors.New("the algorithm is not for an ECDSA key")
		}
		if !isAcceptedCurve(k.Curve) {
			return errors.New("elliptic curve is not accepted")
		}
		if !ecdsa.VerifyASN1(k, digest, sig) {
			return errors.New("signature does not match")
		}
		return nil
	}
	return errors.New("kind of key is not accepted")
}

func usesRSA(alg x509.SignatureAlgorithm) bool {
	return alg == x509.SHA1WithRSA || alg == x509.SHA256WithRSA || alg == x509.SHA384WithRSA || alg == x509.SHA512WithRSA
}

func isAcceptedCurve(c elliptic.Curve) bool {
	return c == elliptic.P256() || c == elliptic.P384() || c == elliptic.P521()
}

func checkKey(c *Certificate, o Options) *Error {
	accepted := false
	switch k := c.PublicKey.(type) {
	case *rsa.PublicKey:
		accepted = true
		least := o.MinRSABits
		if least == 0 {
			least = DefaultMinRSABits
		}
		switch bits := k.N.BitLen(); {
		case bits < least:
			return refuse(WeakKey, rule.MinKeySize, c, "has an RSA key of %d bits, at least %d are needed; ask its authority for a certificate with a new key", bits, least)
		case bits > MaxRSABits:
			return refuse(WeakKey, rule.MaxKeySize, c, "has an RSA key of %d bits, at most %d are read", bits, MaxRSABits)
		}
	case *ecdsa.PublicKey:
		accepted = isAcceptedCurve(k.Curve)
	}
	if !accepted {
		return refuse(WeakKey, rule.KeyKind, c, "has a key that is neither RSA nor ECDSA on P-256, P-384 or P-521")
	}
	return nil
}
