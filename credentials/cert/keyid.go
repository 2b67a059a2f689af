package cert

import (
	"crypto/sha1" // names a key in ABAC; a name is no signature
	"crypto/x509/pkix"
	"encoding/asn1"
)

// KeyID computes the name that ABAC gives to the key: the SHA-1 of its BIT STRING. The
// subjectKeyIdentifier in the certificate is not used: its requester chose it, and it
// may name another key. If the key cannot be decoded, which no parsed certificate
// allows, the name is the SHA-1 of the whole key.
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
