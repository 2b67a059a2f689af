package cert

import (
	"bytes"
	"encoding/asn1"
	"slices"
)

var (
	oidAuthorityInfoAccess = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 1}
	oidSubjectAltName      = asn1.ObjectIdentifier{2, 5, 29, 17}
)

// cutAIA removes the authorityInfoAccess extension from a certificate. The authorities of
// Emulab and imec write an access method 2.25.UUID to this extension. The standard library
// refuses the whole certificate, since the UUID's 128 bits are too long. cutAIA returns the
// shortened certificate for parsing, and the original TBSCertificate for the signature. ok
// is false unless there is exactly one such extension, without a field "critical".
func cutAIA(der []byte) (cut, tbs []byte, ok bool) {
	const extensionsTag = 3
	outer := elements(der)
	if len(outer) == 0 {
		return nil, nil, false
	}
	tbs = bytes.Clone(outer[0].FullBytes)
	fields := elements(tbs)
	if len(fields) == 0 {
		return nil, nil, false
	}
	last := &fields[len(fields)-1]
	extensions := elements(last.Bytes)
	kept := slices.DeleteFunc(slices.Clone(extensions), isAIA)
	isSingle := len(kept) == len(extensions)-1
	hasTag := last.Class == asn1.ClassContextSpecific && last.Tag == extensionsTag
	// Without a field "critical", an extension has two parts: identifier and value.
	if !isSingle || !hasTag || len(elements(extensions[slices.IndexFunc(extensions, isAIA)].FullBytes)) != 2 {
		return nil, nil, false
	}
	if *last = (asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: extensionsTag, IsCompound: true, Bytes: sequence(kept)}); len(kept) == 0 {
		fields = fields[:len(fields)-1]
	}
	outer[0] = asn1.RawValue{FullBytes: sequence(fields)}
	return sequence(outer), tbs, true
}

func isAIA(extension asn1.RawValue) bool {
	parts := elements(extension.FullBytes)
	oid, _ := asn1.Marshal(oidAuthorityInfoAccess)
	return len(parts) > 0 && bytes.Equal(parts[0].FullBytes, oid)
}

// elements returns nil if der is not a SEQUENCE.
func elements(der []byte) (list []asn1.RawValue) {
	if rest, err := asn1.Unmarshal(der, &list); err != nil || len(rest) > 0 {
		return nil
	}
	return list
}

// sequence returns nil if the encoding fails.
func sequence(list []asn1.RawValue) []byte {
	der, _ := asn1.Marshal(list)
	return der
}
