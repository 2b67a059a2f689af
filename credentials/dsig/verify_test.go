package dsig_test

import (
	"bytes"
	"crypto/ecdsa"
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

// cast is everybody a credential needs.
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

// delegated is a credential of bob's around one of alice's, signed by both sides.
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

func TestSignedOctetsAreGivenBack(t *testing.T) {
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

func TestDelegatedChainIsGivenOutermostFirst(t *testing.T) {
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

// TestSignerIsTheCertificateWhoseKeyVerifies is #8 and #9: neither order nor a
// bare key beside the certificates decides.
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

// TestAttacks are the attacks of the specification on documents, numbered as
// there. Each row names the reason, so that none is refused only because a
// digest happens not to match any more.
func TestAttacks(t *testing.T) {
	c := newCast(t)
	doc := c.credential().Signed(t)
	if _, err := dsig.Verify([]byte(doc), dsig.Options{SHA1: true}); err != nil {
		t.Fatal(err)
	}
	delegated := c.delegated(t)
	cred := between(doc, "<credential ", "</credential>")
	sig := between(doc, "<Signature ", "</Signature>")
	forged := strings.NewReplacer(`"ref0"`, `"ref9"`, "slice+s1", "slice+s2").Replace(cred)
	forgedSame := strings.Replace(cred, "slice+s1", "slice+s2", 1)
	in := func(old, by string) string { return replace(t, doc, old, by) }
	rsa256 := "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
	sha256 := "http://www.w3.org/2001/04/xmlenc#sha256"
	enveloped := "http://www.w3.org/2000/09/xmldsig#enveloped-signature"
	inclusive := "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
	transform := `<Transform Algorithm="` + enveloped + `"/>`
	for _, tt := range []struct {
		attack string
		doc    string
		want   dsig.Reason
	}{
		{"1 owner changed", in("<owner_urn>"+aliceURN, "<owner_urn>"+aliceURN+"x"), dsig.BadSignature},
		{"1 expiry changed", in("2026-11-22", "2027-11-22"), dsig.BadSignature},
		{"1 privilege changed", in("<name>info", "<name>*"), dsig.BadSignature},
		{"1 digest changed to fit nothing", in("<DigestValue>", "<DigestValue>AAAA"), dsig.BadSignature},
		{"1 reference kept, SignedInfo changed", in(transform, ""), dsig.BadSignature},
		{"2 Signature removed", in(sig, ""), dsig.Unsigned},
		{"2 signatures empty", in("<signatures>"+sig+"</signatures>", "<signatures/>"), dsig.Unsigned},
		{"2 signatures absent", in("<signatures>"+sig+"</signatures>", ""), dsig.Unsigned},
		{"3 wrapped: signed one in extensions of the forged", in(cred, strings.Replace(forged, "</credential>", "<extensions>"+cred+"</extensions></credential>", 1)), dsig.Unsigned},
		{"3 wrapped: signed one in signatures", in(cred+"<signatures>", forged+"<signatures>"+cred), dsig.Malformed},
		{"3 wrapped: signed one as second child", in(cred, forged+cred), dsig.Malformed},
		{"3 wrapped: forged one without id first", in(cred, strings.Replace(forged, ` xml:id="ref9"`, "", 1)+cred), dsig.Malformed},
		{"3 wrapped: forged one without id alone", in(cred, strings.Replace(forged, ` xml:id="ref9"`, "", 1)), dsig.Malformed},
		{"3 wrapped: in an Object of the signature", strings.Replace(in(cred, forged), "</Signature>", "<Object>"+cred+"</Object></Signature>", 1), dsig.Unsigned},
		{"3 an Object in a right signature", in("</Signature>", "<Object><x/></Object></Signature>"), dsig.Unsupported},
		{"3 wrapped: signed one as parent of the forged", in(cred, strings.Replace(forged, "</credential>", "<parent>"+cred+"</parent></credential>", 1)), dsig.Unsigned},
		{"3 wrapped: in a foreign child of the root", in(cred, forged+"<extra>"+cred+"</extra>"), dsig.Malformed},
		{"3 wrapped: two signatures elements", in("</signed-credential>", "<signatures/></signed-credential>"), dsig.Malformed},
		{"4 same xml:id twice", in("</credential>", `<extensions><x xml:id="ref0"/></extensions></credential>`), dsig.Malformed},
		{"4 same id as Id", in("</credential>", `<extensions><x Id="ref0"/></extensions></credential>`), dsig.Malformed},
		{"4 same id as ID", in("</credential>", `<extensions><x ID=" ref0 "/></extensions></credential>`), dsig.Malformed},
		{"4 same id as id", in("</credential>", `<extensions><x id="ref0"/></extensions></credential>`), dsig.Malformed},
		{"4 same id on the signature", in(`xml:id="Sig_ref0"`, `xml:id="ref0"`), dsig.Malformed},
		{"4 credential known by Id only", in(`xml:id="ref0"`, `Id="ref0"`), dsig.Malformed},
		{"4 the same forged twice", in(cred, forgedSame+cred), dsig.Malformed},
		{"5 reference to the whole document", in(`URI="#ref0"`, `URI=""`), dsig.Unsupported},
		{"5 reference without URI", in(` URI="#ref0"`, ``), dsig.Unsupported},
		{"5 reference to another element", in(`URI="#ref0"`, `URI="#Sig_ref0"`), dsig.Unsigned},
		{"5 reference by xpointer", in(`URI="#ref0"`, `URI="#xpointer(id('ref0'))"`), dsig.Unsigned},
		{"5 two References", in("</Reference>", "</Reference>"+strings.Replace(between(doc, "<Reference ", "</Reference>"), "#ref0", "#ref9", 1)), dsig.Malformed},
		{"5 signed twice", in(sig, sig+strings.Replace(sig, "Sig_ref0", "Sig_x", 1)), dsig.Unsigned},
		{"6 outer unsigned, parent signed", replace(t, delegated, between(delegated[strings.LastIndex(delegated, "<Signature "):], "<Signature ", "</Signature>"), ""), dsig.Unsigned},
		{"6 outer signature refers to the parent", replace(t, delegated, `URI="#ref1"`, `URI="#ref0"`), dsig.Unsigned},
		{"20 HMAC", in(rsa256, "http://www.w3.org/2000/09/xmldsig#hmac-sha1"), dsig.Unsupported},
		{"20 HMAC of zero bits", in(`rsa-sha256"/>`, `rsa-sha256"><HMACOutputLength>0</HMACOutputLength></SignatureMethod>`), dsig.Unsupported},
		{"20 none", in(rsa256, "none"), dsig.Unsupported},
		{"20 no algorithm", in(` Algorithm="`+rsa256+`"`, ""), dsig.Unsupported},
		{"20 MD5 signature", in(rsa256, "http://www.w3.org/2001/04/xmldsig-more#rsa-md5"), dsig.Unsupported},
		{"20 MD5 digest", in(sha256, "http://www.w3.org/2001/04/xmldsig-more#md5"), dsig.Unsupported},
		{"20 DSA", in(rsa256, "http://www.w3.org/2000/09/xmldsig#dsa-sha1"), dsig.Unsupported},
		{"20 ECDSA with an RSA key", in(rsa256, "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256"), dsig.BadSignature},
		{"20 canonicalization with comments", in(inclusive, inclusive+"#WithComments"), dsig.Unsupported},
		{"20 canonicalization with parameters", in(inclusive+`"/>`, inclusive+`"><x/></CanonicalizationMethod>`), dsig.Unsupported},
		{"21 XSLT", in(enveloped, "http://www.w3.org/TR/1999/REC-xslt-19991116"), dsig.Unsupported},
		{"21 XPath", in(transform, transform+`<Transform Algorithm="http://www.w3.org/TR/1999/REC-xpath-19991116"><XPath>self::node()</XPath></Transform>`), dsig.Unsupported},
		{"21 base64", in(transform, transform+`<Transform Algorithm="http://www.w3.org/2000/09/xmldsig#base64"/>`), dsig.Unsupported},
		{"21 enveloped after canonicalization", in(transform, `<Transform Algorithm="`+inclusive+`"/>`+transform), dsig.Unsupported},
		{"21 three transforms", in(transform, transform+`<Transform Algorithm="`+inclusive+`"/><Transform Algorithm="`+inclusive+`"/>`), dsig.Unsupported},
		{"21 external http", in(`URI="#ref0"`, `URI="http://127.0.0.1:1/x"`), dsig.Unsupported},
		{"21 external file", in(`URI="#ref0"`, `URI="file:///etc/passwd"`), dsig.Unsupported},
		{"21 RetrievalMethod", in("<X509Data>", `<RetrievalMethod URI="http://127.0.0.1:1/x"/><X509Data>`), dsig.Unsupported},
		{"21 Manifest", in("</Signature>", "<Object><Manifest/></Object></Signature>"), dsig.Unsupported},
		{"22 DOCTYPE", in("<signed-credential", "<!DOCTYPE signed-credential><signed-credential"), dsig.Malformed},
		{"22 external entity", in("<signed-credential", `<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><signed-credential`), dsig.Malformed},
		{"22 billion laughs", in("<signed-credential", `<!DOCTYPE s [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><signed-credential`), dsig.Malformed},
		{"22 undefined entity", in("<serial>8", "<serial>&x;"), dsig.Malformed},
		{"22 xinclude is only an element", in(cred, cred+`<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file:///etc/passwd"/>`), dsig.Malformed},
		{"23 huge text", in("<serial>8", "<serial>"+strings.Repeat("8", 1<<20)), dsig.Malformed},
		{"23 deep nesting", in("<serial>8", strings.Repeat("<x>", 40)+strings.Repeat("</x>", 40)+"<serial>8"), dsig.Malformed},
		{"23 many attributes", in("<serial>", "<serial"+numbered(40, ` a%d=""`)+">"), dsig.Malformed},
		{"23 many elements", in("<serial>", strings.Repeat("<x/>", dsig.DefaultLimits.Elements)+"<serial>"), dsig.Malformed},
		{"23 many namespaces", in("<serial>", "<serial"+numbered(dsig.DefaultLimits.Namespaces, ` xmlns:n%d="urn:n"`)+">"), dsig.Malformed},
		{"23 a long name of a namespace", in("<serial>", `<serial xmlns:n="urn:`+strings.Repeat("n", dsig.DefaultLimits.NamespaceBytes)+`">`), dsig.Malformed},
		{"23 a name repeated by exclusive canonicalization", strings.Replace(in("</credential>", `<extensions xmlns:n="urn:`+strings.Repeat("n", 240)+`">`+strings.Repeat("<n:x/>", 3800)+"</extensions></credential>"), transform,
			strings.Replace(transform, "http://www.w3.org/2000/09/xmldsig#enveloped-signature", "http://www.w3.org/2001/10/xml-exc-c14n#", 1), 1), dsig.Malformed},
		{"23 eleven certificates", in("<X509Certificate>", strings.Repeat("<X509Certificate/>", 10)+"<X509Certificate>"), dsig.Unsupported},
		{"23 seventeen signatures", in(sig, sig+numbered(16, strings.NewReplacer("%", "%%", "#ref0", "#x%[1]d", "Sig_ref0", "S%[1]d").Replace(sig))), dsig.Malformed},
		{"23 six credentials inside each other", in(cred, nested(cred, 6)), dsig.Malformed},
		{"24 comment in a URN", in("slice+s1</target_urn>", "slice+s<!-- x -->1</target_urn>"), dsig.Malformed},
		{"24 comment before a URN", in("<target_urn>", "<target_urn><!-- x -->"), dsig.Malformed},
		{"24 comment in a privilege", in("<name>info", "<name>in<!-- x -->fo"), dsig.Malformed},
		{"24 comment in a GID", in("-----BEGIN", "<!-- x -->-----BEGIN"), dsig.Malformed},
		{"24 PI in a URN", in("slice+s1</target_urn>", "slice+s<?x?>1</target_urn>"), dsig.Malformed},
		{"24 CDATA", in("slice+s1</target_urn>", "slice+<![CDATA[s1]]></target_urn>"), dsig.Malformed},
		{"24 comment in the DigestValue", in("<DigestValue>", "<DigestValue><!-- x -->"), dsig.Malformed},
		{"26 prefixed credential", in(cred, strings.NewReplacer("<credential ", `<x:credential xmlns:x="urn:x" `, "</credential>", "</x:credential>").Replace(cred)), dsig.Malformed},
		{"26 default namespace on the root", in("<signed-credential ", `<signed-credential xmlns="urn:x" `), dsig.Malformed},
		{"26 xmlns:xsi altered", in("XMLSchema-instance", "XMLSchema-instancX"), dsig.BadSignature},
		{"26 namespace added to the root", in("<signed-credential ", `<signed-credential xmlns:q="urn:q" `), dsig.BadSignature},
		{"26 Signature in another namespace", in("http://www.w3.org/2000/09/xmldsig#\" xml:id", "http://example.org/\" xml:id"), dsig.Malformed},
		{"26 Signature in no namespace", in(` xmlns="http://www.w3.org/2000/09/xmldsig#"`, ``), dsig.Malformed},
		{"26 parent in another namespace", in("</credential>", `<x:parent xmlns:x="urn:x"/></credential>`), dsig.Malformed},
		{"27 UTF-16 declared", in("utf-8", "UTF-16"), dsig.Malformed},
		{"27 ISO-8859-1 declared", in("utf-8", "ISO-8859-1"), dsig.Malformed},
		{"27 UTF-7 declared", in("utf-8", "UTF-7"), dsig.Malformed},
		{"27 overlong UTF-8", in("<serial>8", "<serial>\xc0\xb8"), dsig.Malformed},
		{"27 NUL", in("<serial>8", "<serial>8\x00"), dsig.Malformed},
		{"28 second root", doc + "<signed-credential/>", dsig.Malformed},
		{"28 trailing text", doc + "x", dsig.Malformed},
		{"another root", in("<signed-credential ", "<credentials><signed-credential ") + "</credentials>", dsig.Malformed},
	} {
		t.Run(tt.attack, func(t *testing.T) {
			signed, err := dsig.Verify([]byte(tt.doc), dsig.Options{SHA1: true})
			e, ok := errors.AsType[*dsig.Error](err)
			if !ok || e.Reason != tt.want || signed != nil {
				t.Fatalf("reason %v, %v; want reason %v", e, err, tt.want)
			}
			if strings.ContainsAny(e.Text, "\r\n") || len(e.Text) > 400 {
				t.Errorf("not one readable line: %q", e.Text)
			}
		})
	}
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func nested(cred string, depth int) string {
	out := strings.Replace(cred, "ref0", "deep0", 1)
	for i := 1; i < depth; i++ {
		out = strings.NewReplacer("ref0", fmt.Sprint("deep", i), "</credential>", "<parent>"+out+"</parent></credential>").Replace(cred)
	}
	return out
}

// TestFlippedByteNeverChangesWhatIsRead changes every byte of a credential.
// Some changes are not in signed octets: white space around the certificate
// for example, or fields of the certificate other than its key. Such a document
// may be accepted here, but then the octets, which alone are read, and the key
// that signed them are what they were. Whether the certificate is genuine is
// decided elsewhere.
func TestFlippedByteNeverChangesWhatIsRead(t *testing.T) {
	credential := newCast(t).credential()
	credential.Signer[0] = pki.Authority(t, nil, saURN, "p256") // a short signature and certificate
	credential.Owner = []*pki.Entity{credential.Signer[0]}
	credential.Target = credential.Owner
	doc := []byte(credential.Signed(t))
	want, err := dsig.Verify(doc, dsig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for i := range doc {
		for _, bit := range []byte{0x01, 0x20} {
			changed := bytes.Clone(doc)
			changed[i] ^= bit
			got, err := dsig.Verify(changed, dsig.Options{SHA1: true})
			if err != nil {
				continue
			}
			accepted++
			if len(got) != 1 || !bytes.Equal(got[0].Canonical, want[0].Canonical) || !want[0].Signer.PublicKey.(*ecdsa.PublicKey).Equal(got[0].Signer.PublicKey) {
				t.Fatalf("byte %d of %d, %q, changed by %#x: accepted with other octets or another key", i, len(doc), doc[max(0, i-20):i+1], bit)
			}
		}
	}
	t.Logf("%d of %d changes do not concern what is signed", accepted, 2*len(doc))
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

// crowded is a credential as costly to canonicalize as the limits allow.
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

func BenchmarkVerify(b *testing.B) {
	c := newCast(b)
	for name, doc := range map[string]string{"single": c.credential().Signed(b), "delegated": c.delegated(b), "crowded": c.crowded(b)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := dsig.Verify([]byte(doc), dsig.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
