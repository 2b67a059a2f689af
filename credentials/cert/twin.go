package cert

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/asn1"
	"math/big"
)

// twin is the fingerprint of the other form of a certificate that an ECDSA key
// has signed. With a signature (r, s) anybody can make (r, n-s), which is as
// good: who is refused by fingerprint would only have to write their certificate
// anew. ok is false where there is no other form.
func twin(c, issuer *Certificate) (hash [sha256.Size]byte, ok bool) {
	key, isECDSA := issuer.PublicKey.(*ecdsa.PublicKey)
	if !isECDSA || !acceptedCurve(key.Curve) {
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
