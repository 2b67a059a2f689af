package dsig

import (
	"crypto"
	"crypto/x509"
	"errors"
	"math/big"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"patchbay/credentials/cert"
	"patchbay/credentials/rule"
	"patchbay/schemas/xmltree"
)

type signature struct {
	info             *xmltree.Element // SignedInfo
	canonicalization xmltree.Method
	method           x509.SignatureAlgorithm
	uri              string
	transform        xmltree.Method
	digest           crypto.Hash
	digestValue      []byte
	value            []byte
	certificates     []string // base64, as written
	sha1             bool
}

// readSignature reads a Signature. It fails for content that is not supported.
func readSignature(e *xmltree.Element, o Options) (*signature, error) {
	if err := checkChildren(e, "SignedInfo", "SignatureValue", "KeyInfo"); err != nil {
		return nil, err
	}
	if err := checkBlankText(e); err != nil {
		return nil, err
	}
	s := &signature{}
	var err error
	if s.info, err = exactlyOne(e, dsName("SignedInfo")); err != nil {
		return nil, err
	}
	if err := s.readInfo(); err != nil {
		return nil, err
	}
	if s.value, err = base64Child(e, "SignatureValue"); err != nil {
		return nil, err
	}
	keys, err := exactlyOne(e, dsName("KeyInfo"))
	if err != nil {
		return nil, err
	}
	if err := s.readKeys(keys); err != nil {
		return nil, err
	}
	if s.sha1 = s.method == x509.SHA1WithRSA || s.digest == crypto.SHA1; s.sha1 && !o.SHA1 {
		return nil, refuse(WeakDigest, rule.SHA1, "the credential is signed with SHA-1, which this server does not accept; ask its authority for a new one")
	}
	return s, nil
}

func (s *signature) readInfo() error {
	if err := checkChildren(s.info, "CanonicalizationMethod", "SignatureMethod", "Reference"); err != nil {
		return err
	}
	var err error
	if s.canonicalization, err = algorithm(s.info, "CanonicalizationMethod", canonicalizations); err != nil {
		return err
	}
	if s.method, err = algorithm(s.info, "SignatureMethod", signatureMethods); err != nil {
		return err
	}
	reference, err := exactlyOne(s.info, dsName("Reference"))
	if err != nil {
		return err
	}
	if err := checkChildren(reference, "Transforms", "DigestMethod", "DigestValue"); err != nil {
		return err
	}
	s.uri, _ = reference.Attr("", "URI")
	if len(s.uri) < 2 || s.uri[0] != '#' {
		return refuse(Unsupported, rule.Reference, "line %d: a signature must refer to a credential by #id, not %.60q", reference.Line, s.uri)
	}
	if err := s.readTransforms(reference); err != nil {
		return err
	}
	if s.digest, err = algorithm(reference, "DigestMethod", digestMethods); err != nil {
		return err
	}
	s.digestValue, err = base64Child(reference, "DigestValue")
	return err
}

// readTransforms sets the canonicalization of the credential, which is Canonical XML 1.0 by
// default. A first transform "enveloped-signature" has no effect, since signatures are
// outside credentials.
func (s *signature) readTransforms(reference *xmltree.Element) error {
	s.transform = xmltree.C14N10
	transforms, err := atMostOne(reference, dsName("Transforms"))
	if err != nil || transforms == nil {
		return err
	}
	list := transforms.Elements()
	for i, t := range list {
		if !hasName(t, dsName("Transform")) {
			return refuse(Unsupported, misplacedRule(t, nsDS, "Transform"), "line %d: unexpected %s among the transforms", t.Line, describe(t))
		}
		name, _ := t.Attr("", "Algorithm")
		method, isC14N := canonicalizations[name]
		switch {
		case len(t.Elements()) > 0:
			return refuse(Unsupported, rule.Parameters, "line %d: a transform has parameters", t.Line)
		case i == 0 && name == enveloped:
		case i == len(list)-1 && isC14N:
			s.transform = method
		default:
			return refuse(Unsupported, rule.Transform, "line %d: the transform %.80q is not accepted", t.Line, name)
		}
	}
	return nil
}

// readKeys reads the certificates in KeyInfo, and ignores other forms of the key.
func (s *signature) readKeys(keys *xmltree.Element) error {
	if err := checkBlankText(keys); err != nil {
		return err
	}
	for _, e := range keys.Elements() {
		switch {
		case hasName(e, dsName("X509Data")):
		case hasName(e, dsName("KeyValue")), hasName(e, dsName("KeyName")):
			continue
		default:
			return refuse(Unsupported, rule.KeyInfo, "line %d: %s is not accepted as a key", e.Line, describe(e))
		}
		if err := checkBlankText(e); err != nil {
			return err
		}
		for _, c := range e.Elements() {
			if !hasName(c, dsName("X509Certificate")) {
				continue
			}
			if len(s.certificates) == cert.MaxCertificates {
				return refuse(Unsupported, rule.SignerCount, "a signature has more than %d certificates", cert.MaxCertificates)
			}
			content, err := leafText(c)
			if err != nil {
				return err
			}
			s.certificates = append(s.certificates, content)
		}
	}
	if len(s.certificates) == 0 {
		return refuse(Unsupported, rule.Readable, "line %d: the signature contains no certificate", keys.Line)
	}
	return nil
}

// algorithm returns the algorithm that the child name of e states. It fails if the algorithm is
// not in the list or has parameters.
func algorithm[T any](e *xmltree.Element, name string, list map[string]T) (T, error) {
	var zero T
	c, err := exactlyOne(e, dsName(name))
	if err != nil {
		return zero, err
	}
	value, _ := c.Attr("", "Algorithm")
	found, ok := list[value]
	switch {
	case len(c.Elements()) > 0:
		return zero, refuse(Unsupported, rule.Parameters, "line %d: a %s has parameters", c.Line, name)
	case !ok:
		return zero, refuse(Unsupported, rule.Algorithm, "line %d: the %s %.80q is not accepted", c.Line, name, value)
	}
	return found, nil
}

func base64Child(e *xmltree.Element, name string) ([]byte, error) {
	c, err := exactlyOne(e, dsName(name))
	if err != nil {
		return nil, err
	}
	content, err := leafText(c)
	if err != nil {
		return nil, err
	}
	b, err := decodeBase64(content)
	if err != nil {
		return nil, refuse(Malformed, rule.Readable, "line %d: <%s> is not base64", c.Line, name)
	}
	return b, nil
}

// checkChildren fails for a child other than these elements in the namespace of signatures.
func checkChildren(e *xmltree.Element, names ...string) error {
next:
	for _, c := range e.Elements() {
		for _, name := range names {
			if hasName(c, dsName(name)) {
				continue next
			}
		}
		broken := rule.Profile
		if misplacedRule(c, nsDS, names...) == rule.Names {
			broken = rule.Names
		}
		return refuse(Unsupported, broken, "line %d: unexpected %s in %s", c.Line, describe(c), describe(e))
	}
	return nil
}

// xmlSignature converts an ECDSA signature from ASN.1 to the format in XML: two numbers,
// each with size bytes.
func xmlSignature(der []byte, size int) ([]byte, error) {
	in := cryptobyte.String(der)
	var seq cryptobyte.String
	r, s := new(big.Int), new(big.Int)
	if !in.ReadASN1(&seq, asn1.SEQUENCE) || !seq.ReadASN1Integer(r) || !seq.ReadASN1Integer(s) {
		return nil, errors.New("cannot sign: the key returned a malformed signature")
	}
	out := make([]byte, 2*size)
	r.FillBytes(out[:size])
	s.FillBytes(out[size:])
	return out, nil
}

// asn1Signature converts an ECDSA signature from the format in XML, two numbers of equal
// length, to ASN.1.
func asn1Signature(value []byte) ([]byte, error) {
	if len(value) == 0 || len(value)%2 != 0 || len(value) > 2*66 {
		return nil, refuse(BadSignature, rule.Signature, "the signature value has the wrong length for ECDSA")
	}
	half := len(value) / 2
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1BigInt(new(big.Int).SetBytes(value[:half]))
		b.AddASN1BigInt(new(big.Int).SetBytes(value[half:]))
	})
	return b.Bytes()
}
