package cert

import (
	"crypto/sha1" // names a key in ABAC; a name is no signature
	"crypto/x509/pkix"
	"encoding/asn1"
)

// KeyID returns the SHA-1 of the key's BIT STRING, which identifies the key in ABAC. The
// subjectKeyIdentifier in the certificate could be that of another key.
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
