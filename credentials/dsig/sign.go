package dsig

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"slices"
	"strings"

	"patchbay/credentials/cert"
	"patchbay/schemas/xmltree"
)

// SignOptions select the signature method.
type SignOptions struct {
	// SHA1 selects rsa-sha1, for software that supports nothing newer.
	SHA1 bool
	// Hash is SHA-256, SHA-384 or SHA-512 for an RSA key; 0 means SHA-256. For an ECDSA
	// key, the curve determines the hash.
	Hash crypto.Hash
}

// Sign signs the credential with the xml:id. It returns the document with a new Signature
// in the element <signatures>, which must exist. The parameter chain is the certificate of
// the key, followed by other certificates that a verifier may need.
func Sign(doc []byte, id string, key crypto.Signer, chain []*cert.Certificate, o SignOptions) ([]byte, error) {
	m, err := chooseMethod(key, o)
	if err != nil {
		return nil, err
	}
	if len(chain) == 0 {
		return nil, errors.New("cannot sign: no certificate is given")
	}
	s := unsignedSignature{method: m, id: id, chain: chain}
	err = xmltree.Parse(doc, DefaultLimits, func(d *xmltree.Doc) error {
		e := findCredential(d.Root, id)
		if e == nil {
			return fmt.Errorf("cannot sign: there is no credential %q", id)
		}
		canonical, err := d.Canonical(e, xmltree.C14N10, nil)
		s.digest = m.sum(canonical)
		return err
	})
	if err != nil {
		return nil, err
	}
	// What is signed is the canonical SignedInfo, as it is in the document: insert it without a value.
	unsigned, err := insertSignature(doc, s.element(nil))
	if err != nil {
		return nil, err
	}
	var info []byte
	err = xmltree.Parse(unsigned, DefaultLimits, func(d *xmltree.Doc) error {
		children := d.Root.Elements()
		signatures := children[len(children)-1].Elements()
		e, err := exactlyOne(signatures[len(signatures)-1], dsName("SignedInfo"))
		if err != nil {
			return err
		}
		info, err = d.Canonical(e, xmltree.C14N10, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	value, err := key.Sign(rand.Reader, m.sum(info), m.hash)
	if err != nil {
		return nil, fmt.Errorf("cannot sign: %w", err)
	}
	if k, ok := key.Public().(*ecdsa.PublicKey); ok {
		if value, err = xmlSignature(value, (k.Curve.Params().BitSize+7)/8); err != nil {
			return nil, err
		}
	}
	return insertSignature(doc, s.element(value))
}

type method struct {
	signature, digest string
	hash              crypto.Hash
}

func (m method) sum(b []byte) []byte {
	h := m.hash.New()
	h.Write(b)
	return h.Sum(nil)
}

// chooseMethod returns the method for the key. It fails if Verify does not accept the key or the
// hash.
func chooseMethod(key crypto.Signer, o SignOptions) (method, error) {
	sha256 := method{digest: nsEnc + "sha256", hash: crypto.SHA256}
	switch k := key.Public().(type) {
	case *rsa.PublicKey:
		if o.SHA1 {
			return method{nsDS + "rsa-sha1", nsDS + "sha1", crypto.SHA1}, nil
		}
		switch o.Hash {
		case 0, crypto.SHA256:
			sha256.signature = nsMore + "rsa-sha256"
			return sha256, nil
		case crypto.SHA384:
			return method{nsMore + "rsa-sha384", nsMore + "sha384", crypto.SHA384}, nil
		case crypto.SHA512:
			return method{nsMore + "rsa-sha512", nsEnc + "sha512", crypto.SHA512}, nil
		}
	case *ecdsa.PublicKey:
		switch size := k.Curve.Params().BitSize; {
		case o.SHA1:
		case size == 256:
			sha256.signature = nsMore + "ecdsa-sha256"
			return sha256, nil
		case size == 384:
			return method{nsMore + "ecdsa-sha384", nsMore + "sha384", crypto.SHA384}, nil
		case size == 521:
			return method{nsMore + "ecdsa-sha512", nsEnc + "sha512", crypto.SHA512}, nil
		}
	}
	return method{}, errors.New("cannot sign with this kind of key or this hash")
}

// unsignedSignature is a Signature element without the signature value.
type unsignedSignature struct {
	method method
	id     string
	chain  []*cert.Certificate
	digest []byte
}

// element returns the Signature with the signature value, which is nil if only SignedInfo is used.
func (s unsignedSignature) element(value []byte) []byte {
	var b bytes.Buffer
	id := html.EscapeString(s.id)
	fmt.Fprintf(&b, `<Signature xmlns="%s" xml:id="Sig_%s">
  <SignedInfo>
    <CanonicalizationMethod Algorithm="%s"/>
    <SignatureMethod Algorithm="%s"/>
    <Reference URI="#%s">
      <Transforms>
        <Transform Algorithm="%s"/>
      </Transforms>
      <DigestMethod Algorithm="%s"/>
      <DigestValue>%s</DigestValue>
    </Reference>
  </SignedInfo>
  <SignatureValue>%s</SignatureValue>
  <KeyInfo>
    <X509Data>
`, nsDS, id, c14n10, s.method.signature, id, enveloped, s.method.digest, base64.StdEncoding.EncodeToString(s.digest), base64Lines(value))
	for _, c := range s.chain {
		fmt.Fprintf(&b, "      <X509Certificate>%s</X509Certificate>\n", base64Lines(c.Raw))
	}
	b.WriteString("    </X509Data>\n  </KeyInfo>\n</Signature>")
	return b.Bytes()
}

// base64Lines writes lines of 64 characters, as other signers do.
func base64Lines(raw []byte) string {
	s := base64.StdEncoding.EncodeToString(raw)
	var b strings.Builder
	for len(s) > 64 {
		b.WriteString(s[:64])
		b.WriteByte('\n')
		s = s[64:]
	}
	b.WriteString(s)
	return b.String()
}

// insertSignature adds the element at the end of <signatures>.
func insertSignature(doc, element []byte) ([]byte, error) {
	head, tail, found := cutLast(doc, []byte("</signatures>"))
	if !found {
		if head, tail, found = cutLast(doc, []byte("<signatures/>")); !found {
			return nil, errors.New("cannot sign: the document has no <signatures>")
		}
		head = append(head[:len(head):len(head)], "<signatures>"...)
	}
	return slices.Concat(head, element, []byte("</signatures>"), tail), nil
}

func cutLast(b, sep []byte) (before, after []byte, found bool) {
	i := bytes.LastIndex(b, sep)
	if i < 0 {
		return nil, nil, false
	}
	return b[:i], b[i+len(sep):], true
}

// findCredential returns nil if the element has no credential with the id.
func findCredential(e *xmltree.Element, id string) *xmltree.Element {
	if have, _ := e.Attr(nsXML, "id"); have == id && e.Name == noNamespace("credential") {
		return e
	}
	for _, c := range e.Elements() {
		if found := findCredential(c, id); found != nil {
			return found
		}
	}
	return nil
}
