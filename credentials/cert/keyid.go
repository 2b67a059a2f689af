package cert

import (
	"crypto/sha1" // names a key in ABAC; a name is no signature
	"crypto/x509/pkix"
	"encoding/asn1"
)

// KeyID returns the identifier of the key in ABAC: the SHA-1 of the key's BIT STRING. It
// does not use the subjectKeyIdentifier in the certificate, because the requester of the
// certificate may have chosen the identifier of another key. If the key cannot be decoded,
// which cannot happen in a parsed certificate, KeyID returns the SHA-1 of the whole key.
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
