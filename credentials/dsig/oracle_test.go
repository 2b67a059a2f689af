package dsig_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/beevik/etree"
	goxmldsig "github.com/russellhaering/goxmldsig"

	"patchbay/am/testkit/require"
	"patchbay/credentials/dsig"
	"patchbay/credentials/testdata/pki"
)

func keyFile(t *testing.T, name string) string {
	t.Helper()
	file, err := filepath.Abs("../testdata/keys/" + name + ".pem")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// template is a Signature as other software hands it to xmlsec1.
func template(id, canonicalization, method, transforms, digest string) string {
	return fmt.Sprintf(`<Signature xmlns="http://www.w3.org/2000/09/xmldsig#"%s>
  <SignedInfo>
    <CanonicalizationMethod Algorithm="%s"/>
    <SignatureMethod Algorithm="%s"/>
    <Reference URI="#ref0">%s<DigestMethod Algorithm="%s"/><DigestValue></DigestValue></Reference>
  </SignedInfo>
  <SignatureValue />
  <KeyInfo><X509Data><X509SubjectName/><X509IssuerSerial/><X509Certificate/></X509Data><KeyValue/></KeyInfo>
</Signature>`, id, canonicalization, method, transforms, digest)
}

// TestXmlsec1SignsAndWeAccept has an outside signer make every form of the profile.
func TestXmlsec1SignsAndWeAccept(t *testing.T) {
	xmlsec1 := require.Tool(t, "xmlsec1")
	c := newCast(t)
	const (
		dsNS      = "http://www.w3.org/2000/09/xmldsig#"
		more      = "http://www.w3.org/2001/04/xmldsig-more#"
		enc       = "http://www.w3.org/2001/04/xmlenc#"
		inclusive = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
		c14n11    = "http://www.w3.org/2006/12/xml-c14n11"
		exclusive = "http://www.w3.org/2001/10/xml-exc-c14n#"
	)
	transforms := func(names ...string) string {
		var b strings.Builder
		for _, n := range names {
			fmt.Fprintf(&b, `<Transform Algorithm="%s"/>`, n)
		}
		return "<Transforms>" + b.String() + "</Transforms>"
	}
	enveloped := transforms(dsNS + "enveloped-signature")
	sigID := ` xml:id="Sig_ref0"`
	for _, tt := range []struct{ rule, key, template string }{
		{"rsa-sha1", "rsa1", template(sigID, inclusive, dsNS+"rsa-sha1", enveloped, dsNS+"sha1")},
		{"rsa-sha256", "rsa1", template(sigID, inclusive, more+"rsa-sha256", enveloped, enc+"sha256")},
		{"rsa-sha384", "rsa1", template(sigID, inclusive, more+"rsa-sha384", enveloped, more+"sha384")},
		{"rsa-sha512", "rsa1", template(sigID, inclusive, more+"rsa-sha512", enveloped, enc+"sha512")},
		{"ecdsa-sha256", "p256", template(sigID, inclusive, more+"ecdsa-sha256", enveloped, enc+"sha256")},
		{"ecdsa-sha384", "p384", template(sigID, inclusive, more+"ecdsa-sha384", enveloped, more+"sha384")},
		{"no xml:id on the Signature", "rsa1", template("", inclusive, more+"rsa-sha256", enveloped, enc+"sha256")},
		{"no transforms", "rsa1", template(sigID, inclusive, more+"rsa-sha256", "", enc+"sha256")},
		{"canonicalization as second transform", "rsa1", template(sigID, inclusive, more+"rsa-sha256", transforms(dsNS+"enveloped-signature", exclusive), enc+"sha256")},
		{"canonicalization as only transform", "rsa1", template(sigID, inclusive, more+"rsa-sha256", transforms(c14n11), enc+"sha256")},
		{"exclusive canonicalization", "rsa1", template(sigID, exclusive, more+"rsa-sha256", enveloped, enc+"sha256")},
		{"canonicalization 1.1", "rsa1", template(sigID, c14n11, more+"rsa-sha256", enveloped, enc+"sha256")},
		{"xml:lang on the root", "rsa1", template(sigID, inclusive, more+"rsa-sha256", enveloped, enc+"sha256") + "<!--lang-->"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			credential := c.credential()
			signer := pki.Authority(t, nil, saURN, tt.key)
			doc := strings.Replace(credential.Unsigned(), "<signatures/>", "<signatures>"+tt.template+"</signatures>", 1)
			if tt.key != "rsa1" { // xmlsec1 has no KeyValue for other keys
				doc = strings.Replace(doc, "<KeyValue/>", "", 1)
			}
			if strings.Contains(doc, "<!--lang-->") {
				doc = strings.Replace(doc, "<signed-credential ", `<signed-credential xml:lang="en" xml:space="preserve" `, 1)
			}
			dir := t.TempDir()
			in, crt := filepath.Join(dir, "in.xml"), filepath.Join(dir, "cert.pem")
			for file, text := range map[string]string{in: doc, crt: pki.PEM(signer)} {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out := filepath.Join(dir, "out.xml")
			cmd := exec.Command(xmlsec1, "--sign", "--output", out, "--privkey-pem", keyFile(t, tt.key)+","+crt, in)
			if message, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("xmlsec1: %v\n%s", err, message)
			}
			signed, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			got, err := dsig.Verify(signed, dsig.Options{SHA1: true})
			if err != nil || len(got) != 1 || got[0].Signer.URN.String() != saURN {
				t.Fatalf("%v, %v", got, err)
			}
			if _, err := dsig.Verify(bytes.Replace(signed, []byte("slice+s1"), []byte("slice+s2"), 1), dsig.Options{SHA1: true}); err == nil {
				t.Error("accepted after a change")
			}
		})
	}
}

// TestXmlsec1AcceptsOurSignatures has an outside verifier check our signatures.
func TestXmlsec1AcceptsOurSignatures(t *testing.T) {
	xmlsec1 := require.Tool(t, "xmlsec1")
	c := newCast(t)
	dir := t.TempDir()
	verify := func(doc, id, key string) error {
		file, crt := filepath.Join(dir, "doc.xml"), filepath.Join(dir, "cert.pem")
		for name, text := range map[string]string{file: doc, crt: pki.PEM(pki.Authority(t, nil, saURN, key))} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command(xmlsec1, "--verify", "--node-id", id, "--enabled-key-data", "key-name,rsa,ec", "--pubkey-cert-pem", crt, file).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}
	for _, tt := range []struct {
		key  string
		sha1 bool
	}{{"rsa1", false}, {"rsa1", true}, {"p256", false}, {"p384", false}} {
		credential := c.credential()
		credential.SHA1 = tt.sha1
		credential.Signer = []*pki.Entity{pki.Authority(t, nil, saURN, tt.key)}
		doc := credential.Signed(t)
		if err := verify(doc, "Sig_ref0", tt.key); err != nil {
			t.Errorf("%s, SHA-1 %v: %v", tt.key, tt.sha1, err)
		}
		if err := verify(strings.Replace(doc, "slice+s1", "slice+s2", 1), "Sig_ref0", tt.key); err == nil {
			t.Errorf("%s: xmlsec1 accepts a changed document, so it proves nothing", tt.key)
		}
	}
	delegated := c.delegated(t)
	if err := verify(delegated, "Sig_ref0", "rsa1"); err != nil {
		t.Errorf("inner signature: %v", err)
	}
	if err := verify(delegated, "Sig_ref1", "rsa2"); err != nil {
		t.Errorf("outer signature: %v", err)
	}
}

// TestSecondCanonicalizerAgrees compares the canonical form with that of an independent library.
func TestSecondCanonicalizerAgrees(t *testing.T) {
	c := newCast(t)
	with := c.credential()
	with.Edit = func(doc string) string {
		doc = strings.Replace(doc, "<signed-credential ", `<signed-credential xml:lang="en" xmlns:p="http://example.org/policy" `, 1)
		return strings.Replace(doc, "</credential>", "<extensions>\r\n<p:x b='2' a=\"1 &lt; &#9;2\" p:z='ä'/>&gt;&#13;</extensions></credential>", 1)
	}
	for rule, doc := range map[string]string{"plain": c.credential().Signed(t), "delegated": c.delegated(t), "extensions and namespaces": with.Signed(t)} {
		signed, err := dsig.Verify([]byte(doc), dsig.Options{})
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		tree := etree.NewDocument()
		if err := tree.ReadFromString(doc); err != nil {
			t.Fatal(err)
		}
		for _, s := range signed {
			var e *etree.Element
			for _, found := range tree.FindElements("//credential") {
				if found.SelectAttrValue("xml:id", "") == s.ID {
					e = found
				}
			}
			if e == nil {
				t.Fatalf("%s: the second parser finds no %s", rule, s.ID)
			}
			// The library canonicalizes an element without its ancestors, so inherited
			// namespaces are written on it first.
			for p := e.Parent(); p != nil; p = p.Parent() {
				for _, a := range p.Attr {
					inherited := a.Space == "xmlns" || a.Space == "xml" && a.Key != "id"
					if inherited && e.SelectAttr(a.FullKey()) == nil {
						e.CreateAttr(a.FullKey(), a.Value)
					}
				}
			}
			want, err := goxmldsig.MakeC14N10RecCanonicalizer().Canonicalize(e.Copy())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(s.Canonical, want) {
				t.Errorf("%s, %s: octets differ\n got %.600s\nwant %.600s", rule, s.ID, s.Canonical, want)
			}
		}
	}
}
