package credentials

import (
	"crypto"
	"crypto/sha1" // names a key in ABAC; a name is no signature
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"

	"patchbay/credentials/cert"
)

// keyID names a key in ABAC: the SHA-1 of its BIT STRING.
type keyID [sha1.Size]byte

func (k keyID) String() string { return hex.EncodeToString(k[:]) }

// parseKeyID reads 40 hexadecimal digits of any case.
func parseKeyID(s string) (k keyID, ok bool) {
	if len(s) != hex.EncodedLen(len(k)) {
		return keyID{}, false
	}
	_, err := hex.Decode(k[:], []byte(s))
	return k, err == nil
}

// keyIDOf computes the name of a certificate's key. What the certificate itself
// says in its subjectKeyIdentifier was chosen by whoever asked for it and may
// be the name of another's key. One that cannot be taken apart, which no parsed
// certificate has, is named by all of it.
func keyIDOf(c *cert.Certificate) keyID {
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	if _, err := asn1.Unmarshal(c.RawSubjectPublicKeyInfo, &info); err != nil {
		return sha1.Sum(c.RawSubjectPublicKeyInfo)
	}
	return sha1.Sum(info.Key.Bytes)
}

// sameKey tells whether two certificates are of one key.
func sameKey(a, b *cert.Certificate) bool {
	k, ok := a.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b.PublicKey)
}
