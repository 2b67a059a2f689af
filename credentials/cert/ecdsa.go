package cert

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/asn1"
	"math/big"
)

// alternateHash returns the fingerprint of the other valid form of a certificate with an
// ECDSA signature. Anyone can replace a signature (r, s) by (r, n-s), which is also valid.
// A deny list with the first fingerprint would not match the other form. ok is false if
// there is no other form.
func alternateHash(c, issuer *Certificate) (hash [sha256.Size]byte, ok bool) {
	key, isECDSA := issuer.PublicKey.(*ecdsa.PublicKey)
	if !isECDSA || !isAcceptedCurve(key.Curve) {
		return hash, false
	}
	var whole struct {
		TBS, Algorithm asn1.RawValue
		Signature      asn1.BitString
	}
	var pair struct{ R, S *big.Int }
	_, err := asn1.Unmarshal(c.Raw, &whole)
	_, err2 := asn1.Unmarshal(c.Signature, &pair)
	if err != nil || err2 != nil {
		return hash, false
	}
	pair.S.Sub(key.Params().N, pair.S)
	signature, err := asn1.Marshal(pair)
	whole.Signature = asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}
	der, err2 := asn1.Marshal(whole)
	return sha256.Sum256(der), err == nil && err2 == nil
}
