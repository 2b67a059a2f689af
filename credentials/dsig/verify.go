package dsig

import (
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"strings"

	"patchbay/credentials/cert"
	"patchbay/credentials/rule"
	"patchbay/schemas/xmltree"
)

// Options are the operator's settings and the limits of a document.
type Options struct {
	// SHA1 accepts SHA-1 as the digest and in the signature.
	SHA1 bool
	// Limits are the limits of the document; a zero field means its value in DefaultLimits.
	Limits xmltree.Limits
	// Budget limits the signature checks.
	Budget *cert.Budget
}

// DefaultLimits are the limits of a signed credential. The time for canonicalization grows
// with the elements, and with the square of the namespaces in scope. A document of 50 kB
// with 10,000 elements and 64 namespaces took a third of a second. Authorities write some
// hundred elements and three namespaces with names of fifty bytes.
var DefaultLimits = xmltree.Limits{Bytes: 1 << 20, Depth: 32, Elements: 4000, Attrs: 32, Namespaces: 20, NamespaceBytes: 256}

// limits replaces zero fields by the default.
func (o Options) limits() xmltree.Limits {
	l := o.Limits
	for _, v := range []struct {
		field *int
		value int
	}{
		{&l.Bytes, DefaultLimits.Bytes}, {&l.Depth, DefaultLimits.Depth}, {&l.Elements, DefaultLimits.Elements},
		{&l.Attrs, DefaultLimits.Attrs}, {&l.Namespaces, DefaultLimits.Namespaces},
		{&l.NamespaceBytes, DefaultLimits.NamespaceBytes},
	} {
		if *v.field == 0 {
			*v.field = v.value
		}
	}
	return l
}

// Signed is one verified credential with its signer.
type Signed struct {
	// ID is the credential's xml:id.
	ID string
	// Canonical is the credential in canonical form, as a separate document. The signature
	// covers exactly these bytes.
	Canonical []byte
	// Signer is the certificate whose key made the signature. It is not yet verified.
	Signer *cert.Certificate
	// Others are the other certificates in the signature, such as the signer's chain.
	Others []*cert.Certificate
	// SHA1 means that the digest or the signature uses SHA-1.
	SHA1 bool
	// Signatures is the number of signatures in the document, including signatures that
	// cover no credential of the chain.
	Signatures int
}

// Verify checks the signatures of a signed credential. It returns all credentials of the
// chain, the outermost first, and fails if one is not signed. The error is always an
// *Error.
func Verify(doc []byte, o Options) ([]Signed, error) {
	var signed []Signed
	err := xmltree.Parse(doc, o.limits(), func(d *xmltree.Doc) error {
		var err error
		signed, err = verify(d, o)
		return err
	})
	if err == nil {
		return signed, nil
	}
	if e, ok := err.(*Error); ok {
		return nil, e
	}
	return nil, wrapError("cannot be read", err)
}

func verify(doc *xmltree.Doc, o Options) ([]Signed, error) {
	d, err := readDocument(doc)
	if err != nil {
		return nil, err
	}
	signatures := make([]*signature, len(d.chain)) // by credential
	for _, e := range d.signatures {
		// Ignore a signature over other elements, even if it is malformed: it proves
		// nothing about the chain.
		if !d.concerns(e) {
			continue
		}
		s, err := readSignature(e, o)
		if err != nil {
			return nil, err
		}
		for i, id := range d.ids {
			if s.uri != "#"+id {
				continue
			}
			if signatures[i] != nil {
				return nil, refuse(Unsigned, rule.SignedOnce, "the credential %.60q is signed twice", id)
			}
			signatures[i] = s
		}
	}
	signed := make([]Signed, len(d.chain))
	for i, e := range d.chain {
		if signatures[i] == nil {
			return nil, refuse(Unsigned, rule.Signed, "the credential %.60q is not signed", d.ids[i])
		}
		if signed[i], err = signatures[i].check(doc, e, o.Budget); err != nil {
			return nil, err
		}
		signed[i].ID, signed[i].Signatures = d.ids[i], len(d.signatures)
	}
	return signed, nil
}

// check returns e as a verified credential if the signature is for e.
func (s *signature) check(doc *xmltree.Doc, e *xmltree.Element, budget *cert.Budget) (Signed, error) {
	canonical, err := doc.Canonical(e, s.transform, nil)
	if err != nil {
		return Signed{}, wrapError("it is not read", err)
	}
	h := s.digest.New()
	h.Write(canonical)
	if subtle.ConstantTimeCompare(h.Sum(nil), s.digestValue) != 1 {
		return Signed{}, refuse(BadSignature, rule.Digest, "the credential was changed after it was signed (digest)")
	}
	info, err := doc.Canonical(s.info, s.canonicalization, nil)
	if err != nil {
		return Signed{}, wrapError("it is not read", err)
	}
	signer, others, err := s.findSigner(info, budget)
	if err != nil {
		return Signed{}, err
	}
	return Signed{Canonical: canonical, Signer: signer, Others: others, SHA1: s.sha1}, nil
}

// findSigner tries each certificate, since the order in a signature is not specified.
func (s *signature) findSigner(info []byte, budget *cert.Budget) (signer *cert.Certificate, others []*cert.Certificate, err error) {
	value := s.value
	if isECDSA(s.method) {
		if value, err = asn1Signature(value); err != nil {
			return nil, nil, err
		}
	}
	var list []*cert.Certificate
	var unreadable error
	for _, text := range s.certificates {
		der, err := decodeBase64(text)
		if err != nil {
			unreadable = err
			continue
		}
		c, err := cert.Parse(der)
		if err != nil {
			unreadable = err
			continue
		}
		list = append(list, c)
	}
	for i, c := range list {
		if !budget.Take(c.PublicKey) {
			return nil, nil, &Error{Reason: Unsupported, Rule: rule.Budget, Text: "its signature is not checked: " + cert.ErrBudget.Error(), Err: cert.ErrBudget}
		}
		if cert.CheckSignature(c.PublicKey, s.method, info, value) == nil {
			return c, append(list[:i:i], list[i+1:]...), nil
		}
	}
	if unreadable != nil {
		return nil, nil, &Error{Reason: BadSignature, Rule: rule.Signature, Text: "a certificate of the signature cannot be read, and the signature was not made with the key of another one", Err: unreadable}
	}
	return nil, nil, refuse(BadSignature, rule.Signature, "the signature was not made with the key of its certificate")
}

// decodeBase64 ignores white space. It fails if unused bits at the end are not zero, so
// that a value has only one encoding.
func decodeBase64(s string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		return nil, refuse(Malformed, rule.Readable, "not base64")
	}
	return b, nil
}

func isECDSA(alg x509.SignatureAlgorithm) bool {
	return alg == x509.ECDSAWithSHA256 || alg == x509.ECDSAWithSHA384 || alg == x509.ECDSAWithSHA512
}
