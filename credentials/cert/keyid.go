package cert

import (
	"crypto/sha1" // names a key in ABAC; a name is no signature
	"crypto/x509/pkix"
	"encoding/asn1"
)

// KeyID computes the name that ABAC gives to the key: the SHA-1 of its BIT
// STRING. What the certificate itself says in its subjectKeyIdentifier was
// chosen by whoever asked for it and may be the name of another's key. A key
// that cannot be taken apart, which no parsed certificate has, is named by all
// of it.
func (c *Certificate) KeyID() [sha1.Size]byte {
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	if _, err := asn1.Unmarshal(c.RawSubjectPublicKeyInfo, &info); err != nil {
		return sha1.Sum(c.RawSubjectPublicKeyInfo)
	}
	return sha1.Sum(info.Key.Bytes)
}
