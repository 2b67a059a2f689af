package cert

import (
	"encoding/asn1"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"
)

var (
	oidAuthorityInfoAccess = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 1}
	oidSubjectAltName      = asn1.ObjectIdentifier{2, 5, 29, 17}
)

var extensionsTag = cbasn1.Tag(3).Constructed().ContextSpecific()

// cutAIA removes the one non-critical authorityInfoAccess extension from a
// certificate. Emulab's and imec's authorities put an access method 2.25.UUID
// there, an arc of 128 bits, for which the standard library refuses the whole
// certificate. It gives the shortened certificate for parsing and the original
// TBSCertificate for the signature; ok is false when there is not exactly one
// such extension, or it is critical.
func cutAIA(der []byte) (cut, tbs []byte, ok bool) {
	in := cryptobyte.String(der)
	var outer, element, body cryptobyte.String
	if !in.ReadASN1(&outer, cbasn1.SEQUENCE) || !in.Empty() || !outer.ReadASN1Element(&element, cbasn1.SEQUENCE) {
		return nil, nil, false
	}
	tbs = append([]byte(nil), element...)
	if !element.ReadASN1(&body, cbasn1.SEQUENCE) {
		return nil, nil, false
	}
	var fields, extensions []byte
	cuts := 0
	for !body.Empty() {
		var field cryptobyte.String
		var tag cbasn1.Tag
		if !body.ReadAnyASN1Element(&field, &tag) {
			return nil, nil, false
		}
		if tag != extensionsTag {
			fields = append(fields, field...)
			continue
		}
		if !body.Empty() {
			return nil, nil, false
		}
		if extensions, cuts, ok = cutExtension(field); !ok {
			return nil, nil, false
		}
	}
	if cuts != 1 {
		return nil, nil, false
	}
	b := cryptobyte.NewBuilder(make([]byte, 0, len(der)))
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddBytes(fields)
			if len(extensions) > 0 {
				b.AddASN1(extensionsTag, func(b *cryptobyte.Builder) {
					b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) { b.AddBytes(extensions) })
				})
			}
		})
		b.AddBytes(outer)
	})
	cut, err := b.Bytes()
	return cut, tbs, err == nil
}

// cutExtension copies the list of extensions without authorityInfoAccess and
// counts what it left out; a critical one is never left out.
func cutExtension(field cryptobyte.String) (kept []byte, cuts int, ok bool) {
	var wrapped, list cryptobyte.String
	if !field.ReadASN1(&wrapped, extensionsTag) || !wrapped.ReadASN1(&list, cbasn1.SEQUENCE) || !wrapped.Empty() {
		return nil, 0, false
	}
	for !list.Empty() {
		var element, extension cryptobyte.String
		if !list.ReadASN1Element(&element, cbasn1.SEQUENCE) {
			return nil, 0, false
		}
		copied := element
		var oid asn1.ObjectIdentifier
		if !copied.ReadASN1(&extension, cbasn1.SEQUENCE) || !extension.ReadASN1ObjectIdentifier(&oid) {
			return nil, 0, false
		}
		if !oid.Equal(oidAuthorityInfoAccess) {
			kept = append(kept, element...)
			continue
		}
		if extension.PeekASN1Tag(cbasn1.BOOLEAN) {
			return nil, 0, false
		}
		cuts++
	}
	return kept, cuts, true
}
