package credentials_test

import (
	"crypto"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
	"patchbay/credentials/testdata/pki"
)

// algorithm is a way of signing: the key, and the names of the method and of the
// digest.
type algorithm struct {
	key, method, digest string
	hash                crypto.Hash // for our own signer
}

var algorithms = []algorithm{
	{"rsa5", "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256", "http://www.w3.org/2001/04/xmlenc#sha256", crypto.SHA256},
	{"rsa5", "http://www.w3.org/2001/04/xmldsig-more#rsa-sha384", "http://www.w3.org/2001/04/xmldsig-more#sha384", crypto.SHA384},
	{"rsa5", "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512", "http://www.w3.org/2001/04/xmlenc#sha512", crypto.SHA512},
	{"p256", "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256", "http://www.w3.org/2001/04/xmlenc#sha256", 0},
	{"p384", "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384", "http://www.w3.org/2001/04/xmldsig-more#sha384", 0},
	{"p521", "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha512", "http://www.w3.org/2001/04/xmlenc#sha512", 0},
}

// signer signs the credential of that id in a document.
type signer func(t *testing.T, doc, id, key string, chain ...*pki.Entity) string

// everyForm signs a slice credential, a delegated one and a speaks-for credential with one kind of
// key. Each is accepted, and refused after a change of a name in it.
func everyForm(t *testing.T, key string, sign signer) {
	t.Helper()
	w := newWorld(t)
	w.sa = pki.Authority(t, nil, saURN, key)
	w.alice, w.bob, w.slice = pki.User(t, w.sa, aliceURN, key), pki.User(t, w.sa, bobURN, key), pki.User(t, w.sa, sliceURN, key)
	w.tool = pki.User(t, w.sa, toolURN, key)
	w.z = credentials.New(pki.Anchors(w.sa), credentials.Config{})
	slice := sign(t, w.sliceCredential().Unsigned(), "ref0", key, w.sa)
	delegated := sign(t, sign(t, pki.Nest(w.handedOn(w.bob)...).Unsigned(), "ref0", key, w.sa), "ref1", key, w.alice, w.sa)
	abac := sign(t, w.speaksFor().Unsigned(t), "ref0", key, w.alice, w.sa)
	old := sign(t, w.oldSpeaksFor().Unsigned(), "ref0", key, w.alice, w.sa)
	for _, tt := range []struct {
		form   string
		caller *pki.Entity
		option string
		docs   []string
		part   string // of the first document, that is changed
	}{
		{"slice", w.alice, "", []string{slice}, "+slice+s1<"},
		{"delegated", w.bob, "", []string{delegated}, "+user+bob<"},
		{"delegated, its parent", w.bob, "", []string{delegated}, "+user+alice<"},
		{"abac", w.tool, aliceURN, []string{abac, slice}, pki.KeyID(t, w.tool) + "<"},
		{"speaksfor", w.tool, aliceURN, []string{old, slice}, "+tool+portal<"},
	} {
		if _, err := w.speak(t, tt.caller, tt.option, tt.docs...); err != nil {
			t.Errorf("%s: %v", tt.form, err)
		}
		tt.docs[0] = replace(t, tt.docs[0], tt.part, tt.part[:len(tt.part)-2]+"7<")
		if _, err := w.speak(t, tt.caller, tt.option, tt.docs...); err == nil || !strings.Contains(err.Error(), "changed after it was signed") {
			t.Errorf("%s, changed: %v", tt.form, err)
		}
	}
}

func TestEveryAlgorithmOfOurOwnSigner(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.method[strings.Index(a.method, "#")+1:], func(t *testing.T) {
			everyForm(t, a.key, func(t *testing.T, doc, id, key string, chain ...*pki.Entity) string {
				var list []*cert.Certificate
				for _, e := range chain {
					list = append(list, e.Certificate)
				}
				signed, err := dsig.Sign([]byte(doc), id, chain[0].Key, list, dsig.SignOptions{Hash: a.hash})
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(signed), a.method) || !strings.Contains(string(signed), a.digest) {
					t.Fatalf("not signed by %s", a.method)
				}
				return string(signed)
			})
		})
	}
}

// TestXmlsec1SignsAndWeAuthorize signs all of them with xmlsec1, as the reference implementation
// does.
func TestXmlsec1SignsAndWeAuthorize(t *testing.T) {
	xmlsec1 := require.Tool(t, "xmlsec1")
	for _, a := range algorithms {
		t.Run(a.method[strings.Index(a.method, "#")+1:], func(t *testing.T) {
			everyForm(t, a.key, func(t *testing.T, doc, id, key string, chain ...*pki.Entity) string {
				return signedByXmlsec1(t, xmlsec1, doc, id, key, a.template(id), chain...)
			})
		})
	}
}

// template is a Signature as other programs fill it in.
func (a algorithm) template(id string) string {
	return fmt.Sprintf(`<Signature xmlns="http://www.w3.org/2000/09/xmldsig#" xml:id="Sig_%s">
<SignedInfo><CanonicalizationMethod Algorithm="http://www.w3.org/TR/2001/REC-xml-c14n-20010315"/><SignatureMethod Algorithm="%s"/>
<Reference URI="#%s"><Transforms><Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature"/></Transforms><DigestMethod Algorithm="%s"/><DigestValue/></Reference></SignedInfo>
<SignatureValue/><KeyInfo><X509Data><X509SubjectName/><X509IssuerSerial/><X509Certificate/></X509Data></KeyInfo></Signature>`, id, a.method, id, a.digest)
}

// signedByXmlsec1 has the credential of that id signed by another program, with
// one of our keys.
func signedByXmlsec1(t testing.TB, xmlsec1, doc, id, key, template string, chain ...*pki.Entity) string {
	t.Helper()
	dir := t.TempDir()
	secret, err := filepath.Abs("testdata/keys/" + key + ".pem")
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range chain {
		file := filepath.Join(dir, fmt.Sprint(i, ".pem"))
		if err := os.WriteFile(file, []byte(pki.PEM(e)), 0o600); err != nil {
			t.Fatal(err)
		}
		secret += "," + file
	}
	return filledByXmlsec1(t, xmlsec1, doc, id, template, "--privkey-pem", secret)
}

// filledByXmlsec1 has another program fill in the template of a Signature.
func filledByXmlsec1(t testing.TB, xmlsec1, doc, id, template string, key ...string) string {
	t.Helper()
	if strings.Contains(doc, "<signatures/>") {
		doc = replace(t, doc, "<signatures/>", "<signatures></signatures>")
	}
	doc = replace(t, doc, "</signatures>", template+"</signatures>")
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.xml"), filepath.Join(dir, "out.xml")
	if err := os.WriteFile(in, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--sign", "--node-id", "Sig_" + id, "--output", out}, key...)
	if message, err := exec.Command(xmlsec1, append(args, in)...).CombinedOutput(); err != nil {
		t.Fatalf("xmlsec1: %v\n%s", err, message)
	}
	signed, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(signed)
}
