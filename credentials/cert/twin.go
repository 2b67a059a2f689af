package cert

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"math/big"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// twin is the fingerprint of the other form of a certificate that an ECDSA key
// has signed. With a signature (r, s) anybody can make (r, n-s), which is as
// good: who is refused by fingerprint would only have to write his certificate
// anew. ok is false where there is no other form.
func twin(c, issuer *Certificate) (hash [sha256.Size]byte, ok bool) {
	key, isECDSA := issuer.PublicKey.(*ecdsa.PublicKey)
	if !isECDSA || !acceptedCurve(key.Curve) {
		return hash, false
	}
	in := cryptobyte.String(c.Raw)
	var outer, tbs, algorithm, pair cryptobyte.String
	signature := cryptobyte.String(c.Signature)
	r, s := new(big.Int), new(big.Int)
	if !in.ReadASN1(&outer, asn1.SEQUENCE) || !outer.ReadASN1Element(&tbs, asn1.SEQUENCE) || !outer.ReadASN1Element(&algorithm, asn1.SEQUENCE) ||
		!signature.ReadASN1(&pair, asn1.SEQUENCE) || !pair.ReadASN1Integer(r) || !pair.ReadASN1Integer(s) {
		return hash, false
	}
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddBytes(tbs)
		b.AddBytes(algorithm)
		b.AddASN1(asn1.BIT_STRING, func(b *cryptobyte.Builder) {
			b.AddUint8(0)
			b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1BigInt(r)
				b.AddASN1BigInt(s.Sub(key.Params().N, s))
			})
		})
	})
	der, err := b.Bytes()
	return sha256.Sum256(der), err == nil
}
