package credentials

import (
	"crypto"
	"crypto/sha1" // names a key in ABAC; a name is no signature
	"encoding/hex"

	"patchbay/credentials/cert"
)

// keyID identifies a key in ABAC: the SHA-1 of the key's BIT STRING.
type keyID [sha1.Size]byte

func (k keyID) String() string { return hex.EncodeToString(k[:]) }

// parseKeyID accepts 40 hexadecimal digits in any case.
func parseKeyID(s string) (k keyID, ok bool) {
	if len(s) != hex.EncodedLen(len(k)) {
		return keyID{}, false
	}
	_, err := hex.Decode(k[:], []byte(s))
	return k, err == nil
}

func sameKey(a, b *cert.Certificate) bool {
	k, ok := a.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b.PublicKey)
}
