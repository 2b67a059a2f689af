package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"patchbay/schemas/xmltree"
)

// Forgery creates signatures that dsig.Sign would not create. The zero value creates an
// rsa-sha256 signature that follows the profile.
type Forgery struct {
	// Digest returns the digest of the credential's canonical bytes; nil means SHA-256.
	Digest func(canonical []byte) []byte
	// Edit changes the Signature element before it is signed.
	Edit func(signature string) string
	// Value returns the signature value for the canonical SignedInfo; nil means the
	// signature of its SHA-256 with the first signer's key.
	Value func(info []byte) []byte
	// Method is the canonicalization of the credential, usually Canonical XML 1.0.
	Method xmltree.Method
}

// Signed returns a document with a signature for the credential of that id. After Edit the
// Signature must still be the last one, and its SignedInfo well-formed.
func (f Forgery) Signed(t testing.TB, doc, id string, signer ...*Entity) string {
	t.Helper()
	if f.Digest == nil {
		f.Digest = sum256
	}
	if f.Value == nil {
		f.Value = func(info []byte) []byte {
			value, err := signer[0].Key.Sign(rand.Reader, sum256(info), crypto.SHA256)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	digest := f.Digest(canonicalBytes(t, doc, f.Method, false, func(e *xmltree.Element) bool {
		have, _ := e.Attr("http://www.w3.org/XML/1998/namespace", "id")
		return have == id && e.Local == "credential"
	}))
	var certificates strings.Builder
	for _, e := range signer {
		fmt.Fprintf(&certificates, "<X509Certificate>%s</X509Certificate>", base64.StdEncoding.EncodeToString(e.Raw))
	}
	signature := fmt.Sprintf(`<Signature xmlns="http://www.w3.org/2000/09/xmldsig#" xml:id="Sig_%s"><SignedInfo><CanonicalizationMethod Algorithm="http://www.w3.org/TR/2001/REC-xml-c14n-20010315"/><SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"/><Reference URI="#%s"><Transforms><Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature"/></Transforms><DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"/><DigestValue>%s</DigestValue></Reference></SignedInfo><SignatureValue></SignatureValue><KeyInfo><X509Data>%s</X509Data></KeyInfo></Signature>`,
		id, id, base64.StdEncoding.EncodeToString(digest), certificates.String())
	if f.Edit != nil {
		signature = f.Edit(signature)
	}
	if strings.Contains(doc, "<signatures/>") {
		doc = strings.Replace(doc, "<signatures/>", "<signatures></signatures>", 1)
	}
	at := strings.LastIndex(doc, "</signatures>")
	if at < 0 {
		t.Fatal("the document has no place for a signature")
	}
	doc = doc[:at] + signature + doc[at:]
	info := canonicalBytes(t, doc, xmltree.C14N10, true, func(e *xmltree.Element) bool { return e.Local == "SignedInfo" })
	value := base64.StdEncoding.EncodeToString(f.Value(info))
	i := strings.LastIndex(doc, "<SignatureValue>") + len("<SignatureValue>")
	return doc[:i] + value + doc[i:]
}

// canonicalBytes returns the canonical form of the first element for which meant returns
// true; with last, of the last such element.
func canonicalBytes(t testing.TB, doc string, m xmltree.Method, last bool, meant func(*xmltree.Element) bool) (canonical []byte) {
	t.Helper()
	if m == xmltree.ExclusiveC14N10 { // the limit of the canonical form grows with the document
		doc += "<!--" + strings.Repeat(" ", 1<<19) + "-->"
	}
	err := xmltree.Parse([]byte(doc), xmltree.HighestLimits(), func(d *xmltree.Doc) error {
		var found *xmltree.Element
		var walk func(e *xmltree.Element)
		walk = func(e *xmltree.Element) {
			if meant(e) && (last || found == nil) {
				found = e
			}
			for _, c := range e.Elements() {
				walk(c)
			}
		}
		walk(d.Root)
		if found == nil {
			return errors.New("there is nothing to sign")
		}
		var err error
		canonical, err = d.Canonical(found, m, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return canonical
}

// sum256 returns the SHA-256 of b.
func sum256(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:]
}
