package dsig_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"patchbay/credentials/dsig"
	"patchbay/credentials/testdata/pki"
	"patchbay/schemas/xmltree"
)

const (
	saURN    = "urn:publicid:IDN+example.org+authority+sa"
	aliceURN = "urn:publicid:IDN+example.org+user+alice"
	sliceURN = "urn:publicid:IDN+example.org+slice+s1"
)

// cast has the entities of a credential.
type cast struct{ sa, alice, bob, slice *pki.Entity }

func newCast(t testing.TB) cast {
	sa := pki.Authority(t, nil, saURN, "rsa1")
	return cast{
		sa: sa, alice: pki.User(t, sa, aliceURN, "rsa2"), bob: pki.User(t, sa, "urn:publicid:IDN+example.org+user+bob", "rsa4"),
		slice: pki.User(t, sa, sliceURN, "rsa3"),
	}
}

func (c cast) credential() pki.Credential {
	return pki.Credential{
		Owner: []*pki.Entity{c.alice}, Target: []*pki.Entity{c.slice, c.sa}, Signer: []*pki.Entity{c.sa}, Privileges: []string{"embed", "info"},
	}
}

// delegated is a credential of bob with one of alice as parent, signed by both.
func (c cast) delegated(t testing.TB) string {
	inner := c.credential()
	outer := c.credential()
	outer.Owner, outer.ID, outer.Parent = []*pki.Entity{c.bob}, "ref1", inner.Element()
	doc := pki.Sign(t, outer.Unsigned(), "ref0", false, c.sa)
	return pki.Sign(t, doc, "ref1", false, c.alice, c.sa)
}

func between(s, from, to string) string {
	i := strings.Index(s, from)
	j := strings.Index(s[i:], to)
	return s[i : i+j+len(to)]
}

func replace(t *testing.T, s, old, by string) string {
	t.Helper()
	if !strings.Contains(s, old) {
		t.Fatalf("the document holds no %q", old)
	}
	return strings.Replace(s, old, by, 1)
}

func TestVerifyReturnsTheSignedBytes(t *testing.T) {
	c := newCast(t)
	for _, sha1 := range []bool{false, true} {
		credential := c.credential()
		credential.SHA1 = sha1
		doc := credential.Signed(t)
		signed, err := dsig.Verify([]byte(doc), dsig.Options{SHA1: sha1})
		if err != nil || len(signed) != 1 {
			t.Fatalf("%d signed, %v", len(signed), err)
		}
		s := signed[0]
		if s.ID != "ref0" || s.Signer.URN.String() != saURN || s.SHA1 != sha1 {
			t.Errorf("id %q by %s, SHA-1 %v", s.ID, s.Signer.Name(), s.SHA1)
		}
		err = xmltree.Parse(s.Canonical, xmltree.Limits{}, func(d *xmltree.Doc) error {
			if d.Root.Name != (xmltree.Name{Local: "credential"}) || !strings.Contains(d.Root.Text(), sliceURN) {
				t.Errorf("the octets are those of <%s>", d.Root.Local)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestSHA1NeedsTheSwitch(t *testing.T) {
	credential := newCast(t).credential()
	credential.SHA1 = true
	_, err := dsig.Verify([]byte(credential.Signed(t)), dsig.Options{})
	if e, ok := errors.AsType[*dsig.Error](err); !ok || e.Reason != dsig.WeakDigest {
		t.Errorf("%v, want %v", err, dsig.WeakDigest)
	}
}

func TestEveryKindOfKey(t *testing.T) {
	c := newCast(t)
	for _, key := range []string{"rsa1", "rsa1024", "rsa-e3", "p256", "p384"} {
		credential := c.credential()
		credential.Signer = []*pki.Entity{pki.Authority(t, nil, saURN, key)}
		if _, err := dsig.Verify([]byte(credential.Signed(t)), dsig.Options{}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestDelegatedChainIsReturnedOutermostFirst(t *testing.T) {
	c := newCast(t)
	doc := c.delegated(t)
	signed, err := dsig.Verify([]byte(doc), dsig.Options{})
	if err != nil || len(signed) != 2 {
		t.Fatalf("%d signed, %v", len(signed), err)
	}
	if signed[0].ID != "ref1" || signed[0].Signer.URN.String() != aliceURN || signed[1].ID != "ref0" || signed[1].Signer.URN.String() != saURN {
		t.Errorf("%s by %s, %s by %s", signed[0].ID, signed[0].Signer.URN, signed[1].ID, signed[1].Signer.URN)
	}
	// #34: the parent's own signature broken, the child's fine.
	last := strings.LastIndex(doc, "<SignatureValue>")
	first := strings.Index(doc, "<SignatureValue>") + len("<SignatureValue>")
	if first > last {
		t.Fatal("there are not two signatures")
	}
	broken := []byte(doc)
	broken[first+9] ^= 1
	if _, err := dsig.Verify(broken, dsig.Options{}); err == nil {
		t.Error("a chain with a broken inner signature is accepted")
	}
}

// TestSignerIsTheCertificateWhoseKeyVerifies tests #8 and #9: the signer depends neither on the
// order of certificates nor on a bare key beside them.
func TestSignerIsTheCertificateWhoseKeyVerifies(t *testing.T) {
	c := newCast(t)
	mallory := pki.User(t, nil, "urn:publicid:IDN+example.net+user+mallory", "rsa5")
	credential := c.credential()
	credential.Signer = []*pki.Entity{mallory, c.sa}
	doc := credential.Signed(t)
	certs := between(doc, "<X509Data>", "</X509Data>")
	one := between(certs, "<X509Certificate>", "</X509Certificate>")
	swapped := strings.Replace(doc, certs, "<X509Data>"+strings.Replace(certs[len("<X509Data>"):len(certs)-len("</X509Data>")], one, "", 1)+one+"</X509Data>", 1)
	for rule, d := range map[string]string{"signer first": doc, "trusted authority first": swapped} {
		signed, err := dsig.Verify([]byte(d), dsig.Options{})
		if err != nil || signed[0].Signer.URN != mallory.URN || len(signed[0].Others) != 1 || signed[0].Others[0].URN != c.sa.URN {
			t.Errorf("%s: signer %v, %v", rule, signed, err)
		}
	}
	onlyTrusted := strings.Replace(doc, one, "", 1)
	keyValue := replace(t, onlyTrusted, "</X509Data>", "</X509Data><KeyValue><RSAKeyValue><Modulus>AQAB</Modulus><Exponent>AQAB</Exponent></RSAKeyValue></KeyValue>")
	for rule, d := range map[string]string{"signer's certificate gone": onlyTrusted, "key only in KeyValue": keyValue} {
		if _, err := dsig.Verify([]byte(d), dsig.Options{}); err == nil {
			t.Errorf("%s: accepted", rule)
		}
	}
	if _, err := dsig.Verify([]byte(replace(t, doc, "</X509Data>", "</X509Data><KeyValue/><KeyName>x</KeyName>")), dsig.Options{}); err != nil {
		t.Errorf("an unused KeyValue and KeyName: %v", err)
	}
	if _, err := dsig.Verify([]byte(replace(t, doc, "<X509Certificate>", "<X509Certificate>AAAA</X509Certificate><X509Certificate>")), dsig.Options{}); err != nil {
		t.Errorf("an unreadable certificate that is not needed: %v", err)
	}
}

func TestHarmlessDifferencesAreAccepted(t *testing.T) {
	doc := newCast(t).credential().Signed(t)
	sig := between(doc, "<Signature ", "</Signature>")
	for _, tt := range []struct{ rule, doc string }{
		{"CR and blanks in base64", replace(t, doc, "<SignatureValue>", "<SignatureValue>&#13;\n \t")},
		{"byte order mark and blanks before", "\ufeff\n" + doc},
		{"empty X509SubjectName and X509IssuerSerial", replace(t, doc, "<X509Data>", "<X509Data><X509SubjectName/><X509IssuerSerial/>")},
		{"a signature that refers to nothing used", replace(t, doc, "<signatures>", "<signatures>"+strings.NewReplacer("#ref0", "#other", "Sig_ref0", "Sig_other").Replace(sig))},
		{"such a one that nobody could check", replace(t, doc, "<signatures>", "<signatures>"+strings.NewReplacer("#ref0", "#other", "Sig_ref0", "Sig_other", "enveloped-signature", "nonsense").Replace(sig))},
		{"a comment between elements", replace(t, doc, "<serial>", "<!-- x --><serial>")},
		{"US-ASCII declared", replace(t, doc, "utf-8", "US-ASCII")},
	} {
		if _, err := dsig.Verify([]byte(tt.doc), dsig.Options{}); err != nil {
			t.Errorf("%s: %v", tt.rule, err)
		}
	}
}

// TestEveryReason has each reason once. All attacks are tried in credentials,
// with the rule that refuses each.
func TestEveryReason(t *testing.T) {
	doc := newCast(t).credential().Signed(t)
	for _, tt := range []struct {
		why, old, by string
		want         dsig.Reason
	}{
		{"digest", "<name>info", "<name>*", dsig.BadSignature},
		{"signature", "<SignatureValue>", "<SignatureValue>AAAA", dsig.BadSignature},
		{"no signature", between(doc, "<Signature ", "</Signature>"), "", dsig.Unsigned},
		{"method", "rsa-sha256", "hmac-sha256", dsig.Unsupported},
		{"shape", "<signatures>", "<signatures/><signatures>", dsig.Malformed},
		{"not XML", "</signed-credential>", "", dsig.Malformed},
	} {
		signed, err := dsig.Verify([]byte(replace(t, doc, tt.old, tt.by)), dsig.Options{})
		e, ok := errors.AsType[*dsig.Error](err)
		if !ok || e.Reason != tt.want || e.Rule == "" || signed != nil {
			t.Errorf("%s: reason %v, %v; want reason %v", tt.why, e, err, tt.want)
		} else if strings.ContainsAny(e.Text, "\r\n") || len(e.Text) > 400 {
			t.Errorf("%s: not one readable line: %q", tt.why, e.Text)
		}
	}
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func FuzzVerify(f *testing.F) {
	c := newCast(f)
	short := c.credential()
	short.Signer = []*pki.Entity{pki.Authority(f, nil, saURN, "p256")}
	short.Owner, short.Target = short.Signer, short.Signer
	doc := short.Signed(f)
	want, err := dsig.Verify([]byte(doc), dsig.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(doc))
	f.Add([]byte(c.delegated(f)))
	f.Add([]byte("<signed-credential><credential xml:id='a'/><signatures/></signed-credential>"))
	f.Fuzz(func(t *testing.T, b []byte) {
		signed, err := dsig.Verify(b, dsig.Options{SHA1: true})
		if (err == nil) != (len(signed) > 0) {
			t.Fatalf("%d signed, %v", len(signed), err)
		}
		for _, s := range signed {
			if s.Signer.Fingerprint() == want[0].Signer.Fingerprint() && s.ID == "ref0" && !bytes.Equal(s.Canonical, want[0].Canonical) {
				t.Fatalf("other octets are accepted as signed by %s", s.Signer.Name())
			}
		}
	})
}

// crowded is the most expensive credential to canonicalize within the limits.
func (c cast) crowded(t testing.TB) string {
	costly := c.credential()
	costly.Edit = func(doc string) string {
		spaces := numbered(dsig.DefaultLimits.Namespaces-2, ` xmlns:n%d="urn:n"`) // beside xsi and that of the signature
		extensions := "<extensions" + spaces + ">" + strings.Repeat("<x/>", dsig.DefaultLimits.Elements-100) + "</extensions>"
		return strings.Replace(doc, "</credential>", extensions+"</credential>", 1)
	}
	return costly.Signed(t)
}

func TestLimitsOfADocumentCanBeReached(t *testing.T) {
	if _, err := dsig.Verify([]byte(newCast(t).crowded(t)), dsig.Options{}); err != nil {
		t.Error(err)
	}
}
