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

// Forgery signs what and as dsig.Sign would not. The zero value is rsa-sha256
// in the form of the profile.
type Forgery struct {
	// Digest is of the credential's canonical octets; SHA-256 unless given.
	Digest func(canonical []byte) []byte
	// Edit changes the Signature before it is signed.
	Edit func(signature string) string
	// Value is the signature over the canonical SignedInfo; that of the first
	// signer's key over its SHA-256 unless given.
	Value func(info []byte) []byte
	// Method is how the credential's octets are made; Canonical XML 1.0 unless given.
	Method xmltree.Method
}

// Signed signs the credential of that id in a document. What is edited must
// keep the Signature the last one, and its SignedInfo well-formed.
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

// octets are those of the first, or the last, element that is meant.
func canonicalBytes(t testing.TB, doc string, m xmltree.Method, last bool, meant func(*xmltree.Element) bool) (canonical []byte) {
	t.Helper()
	if m == xmltree.ExclusiveC14N10 { // a longer document may have more octets
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

func sum256(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:]
}
