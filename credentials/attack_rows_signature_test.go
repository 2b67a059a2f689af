package credentials_test

import (
	"bytes"
	"crypto"
	"crypto/hmac"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"patchbay/credentials"
	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
)

// Names of algorithms.
const (
	rsaSHA256 = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
	sha256URI = "http://www.w3.org/2001/04/xmlenc#sha256"
	enveloped = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"
	inclusive = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
)

// signatureAttacks are attacks on the signed content, the algorithm and the key.
func signatureAttacks(t *testing.T, w *world) []attack {
	return slices.Concat(changes(t, w), wrappings(t, w), references(t, w), keys(t, w), algorithmsOffList(t, w), transforms(t, w), leavesWithMarks(t, w), otherNames(t, w), expiries(t, w))
}

// by replaces the caller of a scene.
func (s scene) by(e *pki.Entity) scene {
	s.caller = pki.Raw(e)
	return s
}

// changes modify signed content or remove the signature.
func changes(t *testing.T, w *world) []attack {
	credential := w.sliceCredential()
	doc := credential.Signed(t)
	good := shows(doc)
	sig := intermediates(doc, "<Signature ", "</Signature>")
	edit := func(old, by string) scene { return shows(replace(t, doc, old, by)) }
	of := func(c pki.Credential, change func(*pki.Credential)) pki.Credential { change(&c); return c }
	bobs := of(credential, func(c *pki.Credential) { c.Owner = []*pki.Entity{w.bob} }).Signed(t)
	others := of(credential, func(c *pki.Credential) { c.Target = []*pki.Entity{w.other, w.sa} }).Signed(t)
	poor := of(credential, func(c *pki.Credential) { c.Privileges = []string{"info"} }).Signed(t)
	old := of(credential, func(c *pki.Credential) { c.Expires = "2026-11-20T12:00:00Z" }).Signed(t)
	value := func(doc string) func([]byte) []byte { // the signature value of another document
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(strings.NewReplacer("<SignatureValue>", "", "</SignatureValue>", "").Replace(intermediates(doc, "<SignatureValue>", "</SignatureValue>"))), ""))
		if err != nil {
			t.Fatal(err)
		}
		return func([]byte) []byte { return b }
	}
	handed := w.handedOn(w.bob)
	handed[1].Privileges = []string{"info"}
	inner := pki.Sign(t, pki.Nest(handed...).Unsigned(), "ref0", false, w.sa)
	widened := func(doc string) scene { // alice changes the delegated credential, then signs
		return shows(pki.Sign(t, doc, "ref1", false, w.alice, w.sa)).by(w.bob)
	}
	handed[0].Privileges = []string{"embed"}
	unsigned := pki.Nest(handed...).Unsigned()
	i := strings.Index(unsigned, "<parent>")
	wide := pki.Sign(t, unsigned, "ref0", false, w.sa)
	wide = wide[:i] + replace(t, wide[i:], "<name>info</name>", "<name>*</name>")
	restamped := pki.Forgery{Value: value(inner)}.Signed(t, unsigned[:i]+replace(t, unsigned[i:], "<name>info</name>", "<name>*</name>"), "ref0", w.sa)
	honest := shows(pki.Delegated(t, w.handedOn(w.bob)...)).by(w.bob)
	return []attack{
		{1, "owner changed", rule.Digest, shows(strings.NewReplacer(pki.PEM(w.bob), pki.PEM(w.alice), bobURN, aliceURN).Replace(bobs)), good},
		{1, "slice changed", rule.Digest, shows(strings.NewReplacer(pki.PEM(w.other), pki.PEM(w.slice), "slice+s2</target_urn>", "slice+s1</target_urn>").Replace(others)), good},
		{1, "privilege changed", rule.Digest, shows(replace(t, poor, "<name>info", "<name>*")), good},
		{1, "privilege added", rule.Digest, shows(replace(t, poor, "<privilege>", "<privilege><name>sa</name></privilege><privilege>")), good},
		{1, "expiry changed", rule.Digest, shows(replace(t, old, "2026-11-20", "2026-11-22")), good},
		{1, "one blank added", rule.Digest, edit("<uuid/>", "<uuid/> "), edit("<uuid/>", "<uuid />")},
		{1, "digest changed", rule.Digest, edit("<DigestValue>", "<DigestValue>AAAA"), good},
		{1, "digest made to fit the change", rule.Signature, shows(pki.Forgery{Value: value(doc)}.Signed(t, of(credential, func(c *pki.Credential) { c.Privileges = []string{"*"} }).Unsigned(), "ref0", w.sa)), good},
		{1, "transform taken out of SignedInfo", rule.Signature, edit(`<Transform Algorithm="`+enveloped+`"/>`, ""), good},
		{1, "signature cut short", rule.Signature, shows(pki.Forgery{Value: func([]byte) []byte { return value(doc)(nil)[1:] }}.Signed(t, credential.Unsigned(), "ref0", w.sa)), good},
		{1, "signature of another document", rule.Signature, shows(pki.Forgery{Value: value(others)}.Signed(t, credential.Unsigned(), "ref0", w.sa)), good},

		{2, "Signature removed", rule.Signed, shows(replace(t, doc, sig, "")), good},
		{2, "signatures empty", rule.Signed, shows(credential.Unsigned()), good},
		{2, "signatures absent", rule.Signed, shows(replace(t, credential.Unsigned(), "<signatures/>", "")), good},
		{2, "Signature empty", rule.Readable, edit(sig, `<Signature xmlns="http://www.w3.org/2000/09/xmldsig#"/>`), good},
		{2, "SignatureValue empty", rule.Signature, shows(pki.Forgery{Value: func([]byte) []byte { return nil }}.Signed(t, credential.Unsigned(), "ref0", w.sa)), good},
		{2, "SignatureValue absent", rule.Readable, edit(intermediates(doc, "<SignatureValue>", "</SignatureValue>"), ""), good},
		{2, "SignedInfo absent", rule.Readable, edit(intermediates(doc, "<SignedInfo>", "</SignedInfo>"), ""), good},

		{6, "outer credential not signed, its parent is", rule.Signed, shows(pki.Sign(t, pki.Nest(w.handedOn(w.bob)...).Unsigned(), "ref0", false, w.sa)).by(w.bob), honest},
		{6, "outer credential signed, its parent is not", rule.Signed, shows(pki.Sign(t, pki.Nest(w.handedOn(w.bob)...).Unsigned(), "ref1", false, w.alice, w.sa)).by(w.bob), honest},

		{34, "parent changed, then handed on", rule.Digest, widened(wide), honest},
		{34, "parent's digest made to fit, then handed on", rule.Signature, widened(restamped), honest},
		{34, "parent's signature broken afterwards", rule.Signature, shows(brokenValue(pki.Delegated(t, w.handedOn(w.bob)...))).by(w.bob), honest},
	}
}

// wrappings add unsigned content beside the signed content, so that it may be read instead.
func wrappings(t *testing.T, w *world) []attack {
	doc := w.sliceCredential().Signed(t)
	good := shows(doc)
	held := w.sliceCredential() // for the slice s2
	held.Target = []*pki.Entity{w.other, w.sa}
	others := held.Signed(t)
	cred := intermediates(others, "<credential ", "</credential>")
	wanted := w.sliceCredential()
	wanted.ID = "ref9"
	forged := wanted.Element()
	within := func(outer, part string) string { return replace(t, outer, "</credential>", part+"</credential>") }
	wrap := func(by string) scene { return shows(replace(t, others, cred, by)) }
	edit := func(old, by string) scene { return shows(replace(t, doc, old, by)) }
	nameless := replace(t, forged, ` xml:id="ref9"`, "")
	twin := replace(t, forged, "ref9", "ref0")
	extended := func(extension string) scene {
		c := w.sliceCredential()
		c.Edit = func(doc string) string { return within(doc, "<extensions>"+extension+"</extensions>") }
		return shows(c.Signed(t))
	}
	mine := intermediates(doc, "<credential ", "</credential>")
	marked := func(id string) scene {
		return shows(pki.Forgery{Edit: func(s string) string { return replace(t, s, ` xml:id="Sig_ref0"`, id) }}.Signed(t, w.sliceCredential().Unsigned(), "ref0", w.sa))
	}
	return []attack{
		{3, "signed one in extensions of the forged", rule.Signed, wrap(within(forged, "<extensions>"+cred+"</extensions>")), extended("<credential><target_urn>x</target_urn></credential>")},
		{3, "signed one in an Object of its signature", rule.Signed, shows(replace(t, replace(t, others, cred, forged), "</Signature>", "<Object>"+cred+"</Object></Signature>")), good},
		{3, "signed one among the signatures", rule.Cardinality, shows(replace(t, others, cred+"<signatures>", forged+"<signatures>"+cred)), good},
		{3, "signed one behind the forged", rule.Cardinality, wrap(forged + cred), good},
		{3, "signed one in front of the forged", rule.Cardinality, shows(replace(t, doc, mine, mine+forged)), good},
		{3, "signed one in a foreign child of the root", rule.Cardinality, wrap(forged + "<extra>" + cred + "</extra>"), good},
		{3, "signed one as parent of the forged", rule.Signed, shows(replace(t, doc, mine, replace(t, within(forged, "<parent>"+mine+"</parent>"), pki.PEM(w.alice)+"</owner_gid><owner_urn>"+aliceURN, pki.PEM(w.bob)+"</owner_gid><owner_urn>"+bobURN))).by(w.bob), shows(pki.Delegated(t, w.handedOn(w.bob)...)).by(w.bob)},
		{3, "forged one without an id in its place", rule.OwnID, wrap(within(nameless, "<extensions>"+cred+"</extensions>")), good},
		{3, "forged one with an empty id", rule.OwnID, wrap(within(replace(t, forged, "ref9", ""), "<extensions>"+cred+"</extensions>")), good},
		{3, "forged one with the id of the signed", rule.OneID, wrap(within(twin, "<extensions>"+cred+"</extensions>")), good},
		{3, "credential with a blank in its id", rule.OwnID, shows(pki.Forgery{}.Signed(t, replace(t, w.sliceCredential().Unsigned(), "ref0", "ref0 "), "ref0 ", w.sa)), good},
		{3, "Object in a right signature", rule.Profile, edit("</Signature>", "<Object><x/></Object></Signature>"), good},
		{3, "two elements signatures", rule.Cardinality, edit("</signed-credential>", "<signatures/></signed-credential>"), good},
		{3, "two credentials in a parent", rule.Cardinality, shows(twice(t, w, "")).by(w.bob), shows(pki.Delegated(t, w.handedOn(w.bob)...)).by(w.bob)},
		{3, "two parents", rule.Cardinality, shows(twice(t, w, "</parent><parent>")).by(w.bob), shows(pki.Delegated(t, w.handedOn(w.bob)...)).by(w.bob)},
		{3, "another root", rule.Readable, shows(replace(t, doc, "<signed-credential ", "<credentials><signed-credential ") + "</credentials>"), good},
		{3, "no credential", rule.Readable, edit(mine, ""), good},

		{4, "xml:id twice", rule.OneID, extended(`<x xml:id="ref0"/>`), extended(`<x xml:id="ref1"/>`)},
		{4, "the same as Id", rule.OneID, extended(`<x Id="ref0"/>`), extended(`<x Id="ref1"/>`)},
		{4, "the same as ID, with blanks", rule.OneID, extended(`<x ID=" ref0 "/>`), extended(`<x ID=" ref1 "/>`)},
		{4, "the same as id", rule.OneID, extended(`<x id="ref0"/>`), extended(`<x ref="ref0"/>`)},
		{4, "the same on the signature", rule.OneID, marked(` xml:id="ref0"`), marked("")},
		{4, "credential known by Id only", rule.OwnID, shows(replace(t, doc, `xml:id="ref0"`, `Id="ref0"`)), good},
	}
}

// twice returns a delegated credential that contains its parent two times, with this text
// between them.
func twice(t testing.TB, w *world, between string) string {
	outer := pki.Nest(w.handedOn(w.bob)...)
	doc := outer.Unsigned()
	doc = replace(t, doc, "</parent>", between+replace(t, outer.Parent, "ref0", "ref7")+"</parent>")
	return pki.Sign(t, pki.Sign(t, doc, "ref0", false, w.sa), "ref1", false, w.alice, w.sa)
}

// references refer to the signed content in other ways than by the credential's id.
func references(t *testing.T, w *world) []attack {
	doc := w.sliceCredential().Signed(t)
	good := shows(doc)
	uri := func(attribute string) string { // signed so
		return pki.Forgery{Edit: func(s string) string { return replace(t, s, ` URI="#ref0"`, attribute) }}.Signed(t, w.sliceCredential().Unsigned(), "ref0", w.sa)
	}
	delegated := pki.Nest(w.handedOn(w.bob)...).Unsigned()
	honest := shows(pki.Delegated(t, w.handedOn(w.bob)...)).by(w.bob)
	again := func(doc, reference string, signer ...*pki.Entity) string { // one more signature of ref0
		return pki.Forgery{Edit: func(s string) string {
			return replace(t, replace(t, s, ` xml:id="Sig_ref0"`, ""), "#ref0", reference)
		}}.Signed(t, doc, "ref0", signer...)
	}
	return []attack{
		{5, "to the whole document", rule.Reference, shows(uri(` URI=""`)), good},
		{5, "to nothing", rule.Reference, shows(uri("")), good},
		{5, "to the empty id", rule.Signed, shows(uri(` URI="#"`)), good},
		{5, "to the signature", rule.Signed, shows(uri(` URI="#Sig_ref0"`)), good},
		{5, "to an id that is not there", rule.Signed, shows(uri(` URI="#ref1"`)), good},
		{5, "to its id and a blank", rule.Signed, shows(uri(` URI="#ref0 "`)), good},
		{5, "by xpointer", rule.Signed, shows(uri(` URI="#xpointer(id('ref0'))"`)), good},
		{5, "to the root by xpointer", rule.Signed, shows(uri(` URI="#xpointer(/)"`)), good},
		{5, "to the parent instead", rule.SignedOnce, shows(pki.Sign(t, again(delegated, "#ref0", w.alice, w.sa), "ref0", false, w.sa)).by(w.bob), honest},
		{5, "to two things", rule.Cardinality, shows(pki.Forgery{Edit: func(s string) string {
			return replace(t, s, "</Reference>", "</Reference>"+replace(t, intermediates(s, "<Reference ", "</Reference>"), "#ref0", "#ref9"))
		}}.Signed(t, w.sliceCredential().Unsigned(), "ref0", w.sa)), good},
		{5, "two signatures of one credential", rule.SignedOnce, shows(again(doc, "#ref0", w.sa)), shows(again(doc, "#x", w.sa))},
		{21, "to another host", rule.Reference, shows(uri(` URI="http://127.0.0.1:1/x"`)), good},
		{21, "to a file", rule.Reference, shows(uri(` URI="file:///etc/passwd"`)), good},
		{21, "to a name beside", rule.Reference, shows(uri(` URI="other.xml#ref0"`)), good},
	}
}

// keys are attacks with keys of other entities than the document names.
func keys(t *testing.T, w *world) []attack {
	credential := w.sliceCredential()
	doc := credential.Signed(t)
	good := shows(doc)
	edit := func(old, by string) scene { return shows(replace(t, doc, old, by)) }
	stranger := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+sa", "rsa5")
	underStranger := pki.Authority(t, stranger, saURN, "rsa6")
	fake := pki.Issue(t, nil, pki.Subject{URIs: []string{saURN}, CN: "another name of the sa", Key: "rsa5", CA: true})
	by := func(key *pki.Entity, shown ...*pki.Entity) scene {
		return shows(pki.Forgery{Value: func(info []byte) []byte { return signSHA256(t, key, info) }}.Signed(t, credential.Unsigned(), "ref0", shown...))
	}
	value := keyValue(t, fake)
	certificates := func(n int, each string) scene {
		return edit("<X509Certificate>", strings.Repeat(each, n)+"<X509Certificate>")
	}
	empty := "<X509Certificate/>"
	return []attack{
		{7, "self-made key", rule.Anchored, by(fake, fake), by(w.sa, w.sa)},
		{7, "self-made key in the name of the anchor", rule.CertificateSignature, by(underStranger, pki.Authority(t, nil, saURN, "rsa6")), good},
		{7, "self-made chain", rule.Anchored, by(underStranger, underStranger, stranger), good},
		{7, "self-made chain with the trusted certificate at its end", rule.Anchored, by(underStranger, underStranger, stranger, w.sa), good},
		{8, "forged key in KeyValue beside the trusted certificate", rule.Signature, shows(strings.ReplaceAll(by(fake, w.sa).documents[0].Text, "<KeyInfo>", "<KeyInfo>"+value)), edit("<KeyInfo>", "<KeyInfo>"+value)},
		{8, "forged key in KeyValue alone", rule.Readable, edit(intermediates(doc, "<X509Data>", "</X509Data>"), value), good},
		{8, "name of a trusted key alone", rule.Readable, edit(intermediates(doc, "<X509Data>", "</X509Data>"), "<KeyName>"+saURN+"</KeyName>"), edit("<X509Data>", "<KeyName>x</KeyName><X509Data>")},
		{8, "subject and number of a trusted certificate alone", rule.Readable, edit(intermediates(doc, "<X509Certificate>", "</X509Certificate>"), "<X509SubjectName>"+saURN+"</X509SubjectName>"), edit("<X509Data>", "<X509Data><X509SubjectName>x</X509SubjectName><X509IssuerSerial/>")},
		{9, "trusted certificate first, forged key second", rule.Anchored, by(fake, w.sa, fake), by(w.sa, w.sa, fake)},
		{9, "forged key first, trusted certificate second", rule.Anchored, by(fake, fake, w.sa), by(w.sa, fake, w.sa)},
		{9, "trusted certificate first, a user's key second", rule.SignerIsAuthority, by(w.bob, w.sa, w.bob), by(w.sa, w.sa, w.bob)},
		{21, "key to be fetched", rule.KeyInfo, edit("<X509Data>", `<RetrievalMethod URI="http://127.0.0.1:1/x"/><X509Data>`), good},
		{21, "key that is encrypted", rule.KeyInfo, edit("<X509Data>", `<EncryptedKey xmlns="http://www.w3.org/2001/04/xmlenc#"/><X509Data>`), good},
		{23, "eleven certificates", rule.SignerCount, certificates(10, empty), certificates(9, empty)},
		{23, "three thousand certificates", rule.SignerCount, certificates(3000, empty), good},
		{23, "seventeen signatures", rule.SignatureCount, edit("</Signature>", "</Signature>"+surplus(16)), edit("</Signature>", "</Signature>"+surplus(15))},
		{23, "six credentials inside each other", rule.Chain, shows(pki.Delegated(t, w.loop(6)...)), shows(pki.Delegated(t, w.loop(5)...)).by(w.alice)},
	}
}

// surplus returns signatures that refer to no existing element.
func surplus(n int) string {
	return numbered(n, `<Signature xmlns="http://www.w3.org/2000/09/xmldsig#"><SignedInfo><Reference URI="#x%d"/></SignedInfo></Signature>`)
}

func signSHA256(t testing.TB, e *pki.Entity, info []byte) []byte {
	t.Helper()
	h := crypto.SHA256.New()
	h.Write(info)
	value, err := e.Key.Sign(rand.Reader, h.Sum(nil), crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// keyValue is an RSA key in the form for KeyInfo.
func keyValue(t testing.TB, e *pki.Entity) string {
	t.Helper()
	key, ok := e.PublicKey.(*rsa.PublicKey)
	if !ok {
		t.Fatalf("%s has no RSA key", e.Name())
	}
	return fmt.Sprintf("<KeyValue><RSAKeyValue><Modulus>%s</Modulus><Exponent>AQAB</Exponent></RSAKeyValue></KeyValue>", base64.StdEncoding.EncodeToString(key.N.Bytes()))
}

// algorithmsOffList are signatures with algorithms that are not permitted.
func algorithmsOffList(t *testing.T, w *world) []attack {
	unsigned := w.sliceCredential().Unsigned()
	edit := func(old, by string) func(string) string {
		return func(s string) string { return replace(t, s, old, by) }
	}
	signed := func(f pki.Forgery, signer ...*pki.Entity) scene {
		if signer == nil {
			signer = []*pki.Entity{w.sa}
		}
		return shows(f.Signed(t, unsigned, "ref0", signer...))
	}
	good := signed(pki.Forgery{})
	method := func(name string) func(string) string { return edit(rsaSHA256, name) }
	nothing := func([]byte) []byte { return nil }
	e3 := pki.Authority(t, w.sa, saURN, "rsa-e3")
	curve := pki.Authority(t, w.sa, saURN, "p256")
	ecdsa := method("http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256")
	weak := w.sliceCredential()
	weak.SHA1 = true
	allowed := shows(weak.Signed(t))
	allowed.config = credentials.Config{SHA1Signatures: true}
	onCurve := w.sliceCredential()
	onCurve.Signer = []*pki.Entity{curve, w.sa}
	return []attack{
		{20, "HMAC with the public key as secret", rule.Algorithm, signed(pki.Forgery{Edit: method("http://www.w3.org/2000/09/xmldsig#hmac-sha1"), Value: func(info []byte) []byte {
			h := hmac.New(sha1.New, w.sa.RawSubjectPublicKeyInfo)
			h.Write(info)
			return h.Sum(nil)
		}}), good},
		{20, "HMAC of no bits", rule.Parameters, signed(pki.Forgery{Edit: edit(rsaSHA256+`"/>`, rsaSHA256+`"><HMACOutputLength>0</HMACOutputLength></SignatureMethod>`)}), good},
		{20, "method none", rule.Algorithm, signed(pki.Forgery{Edit: method("none"), Value: nothing}), good},
		{20, "no method", rule.Algorithm, signed(pki.Forgery{Edit: edit(` Algorithm="`+rsaSHA256+`"`, ""), Value: nothing}), good},
		{20, "MD5 signature", rule.Algorithm, signed(pki.Forgery{Edit: method("http://www.w3.org/2001/04/xmldsig-more#rsa-md5"), Value: func(info []byte) []byte {
			sum := md5.Sum(info)
			value, err := w.sa.Key.Sign(rand.Reader, sum[:], crypto.MD5)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}}), good},
		{20, "MD5 digest", rule.Algorithm, signed(pki.Forgery{Edit: edit(sha256URI, "http://www.w3.org/2001/04/xmldsig-more#md5"), Digest: func(b []byte) []byte {
			sum := md5.Sum(b)
			return sum[:]
		}}), good},
		{20, "SHA-1 where it is not allowed", rule.SHA1, shows(weak.Signed(t)), allowed},
		{20, "canonicalization with comments", rule.Algorithm, signed(pki.Forgery{Edit: edit(inclusive, inclusive+"#WithComments")}), good},
		{20, "canonicalization with parameters", rule.Parameters, signed(pki.Forgery{Edit: edit(inclusive+`"/>`, inclusive+`"><x/></CanonicalizationMethod>`)}), good},
		{20, "PKCS #1 forgery with a key of e=3", rule.Signature, signed(pki.Forgery{Value: func(info []byte) []byte { return pki.CubeRoot(t, e3, info) }}, e3, w.sa), signed(pki.Forgery{}, e3, w.sa)},
		{20, "ECDSA with an RSA key", rule.Signature, signed(pki.Forgery{Edit: ecdsa}), good},
		{20, "RSA with an ECDSA key", rule.Signature, signed(pki.Forgery{Value: func(info []byte) []byte { return signSHA256(t, w.bob, info) }}, curve, w.sa), shows(onCurve.Signed(t))},
		{20, "ECDSA of zeros", rule.Signature, signed(pki.Forgery{Edit: ecdsa, Value: func([]byte) []byte { return make([]byte, 64) }}, curve, w.sa), shows(onCurve.Signed(t))},
		{20, "ECDSA in ASN.1", rule.Signature, signed(pki.Forgery{Edit: ecdsa, Value: func(info []byte) []byte { return signSHA256(t, curve, info) }}, curve, w.sa), shows(onCurve.Signed(t))},
		{20, "RSA of zeros", rule.Signature, signed(pki.Forgery{Value: func([]byte) []byte { return make([]byte, 256) }}), good},
		{20, "RSA with a zero in front", rule.Signature, signed(pki.Forgery{Value: func(info []byte) []byte { return append(bytes.Repeat([]byte{0}, 1), signSHA256(t, w.sa, info)...) }}), good},
	}
}

// transforms change the digested content.
func transforms(t *testing.T, w *world) []attack {
	good := shows(pki.Forgery{}.Signed(t, w.sliceCredential().Unsigned(), "ref0", w.sa))
	one := `<Transform Algorithm="` + enveloped + `"/>`
	list := func(transforms string) scene {
		return shows(pki.Forgery{Edit: func(s string) string { return replace(t, s, one, transforms) }}.Signed(t, w.sliceCredential().Unsigned(), "ref0", w.sa))
	}
	of := func(name string) string { return `<Transform Algorithm="` + name + `"/>` }
	return []attack{
		{21, "XSLT", rule.Transform, list(of("http://www.w3.org/TR/1999/REC-xslt-19991116")), good},
		{21, "XSLT with a style sheet", rule.Parameters, list(`<Transform Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116"><xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform" version="1.0"/></Transform>`), good},
		{21, "XPath", rule.Parameters, list(one + `<Transform Algorithm="http://www.w3.org/TR/1999/REC-xpath-19991116"><XPath>self::node()</XPath></Transform>`), good},
		{21, "XPath filter", rule.Transform, list(of("http://www.w3.org/2002/06/xmldsig-filter2")), good},
		{21, "base64", rule.Transform, list(one + of("http://www.w3.org/2000/09/xmldsig#base64")), list(one + of(inclusive))},
		{21, "decryption", rule.Transform, list(of("http://www.w3.org/2002/07/decrypt#XML")), good},
		{21, "canonicalization with comments", rule.Transform, list(one + of(inclusive+"#WithComments")), list(of(inclusive))},
		{21, "prefixes to be kept", rule.Parameters, list(one + `<Transform Algorithm="` + inclusive + `"><InclusiveNamespaces xmlns="http://www.w3.org/2001/10/xml-exc-c14n#" PrefixList="x"/></Transform>`), list(one + of(inclusive))},
		{21, "enveloped after canonicalization", rule.Transform, list(of(inclusive) + one), list(one + of(inclusive))},
		{21, "three transforms", rule.Transform, list(one + of(inclusive) + of(inclusive)), list(one + of(inclusive))},
		{21, "something else among the transforms", rule.Cardinality, list(one + "<x/>"), good},
		{21, "Manifest", rule.Profile, shows(replace(t, good.documents[0].Text, "</Signature>", "<Object><Manifest/></Object></Signature>")), good},
	}
}

// leavesWithMarks are elements that contain more than text.
func leavesWithMarks(t *testing.T, w *world) []attack {
	doc := w.sliceCredential().Signed(t)
	good := shows(doc)
	after := func(old, by string) scene { return shows(replace(t, doc, old, by)) }
	before := func(old, by string) scene {
		c := w.sliceCredential()
		c.Edit = func(doc string) string { return replace(t, doc, old, by) }
		return shows(c.Signed(t))
	}
	const name, mark = "+slice+s1</target_urn>", "<!-- x -->"
	return []attack{
		{24, "comment in a name, the signature stays good", rule.TextOnly, after(name, "+slice+s<!-- x -->1</target_urn>"), after("<uuid/>", "<!-- x --><uuid/>")},
		{24, "comment in front of a name", rule.TextOnly, after("<target_urn>", "<target_urn>"+mark), after("<target_urn>", mark+"<target_urn>")},
		{24, "comment behind a name", rule.TextOnly, after("</owner_urn>", mark+"</owner_urn>"), after("</owner_urn>", "</owner_urn>"+mark)},
		{24, "comment in a privilege", rule.TextOnly, after("<name>info", "<name>in"+mark+"fo"), after("<privilege>", "<privilege>"+mark)},
		{24, "comment in the expiry", rule.TextOnly, after("<expires>", "<expires>"+mark), good},
		{24, "comment in a GID", rule.TextOnly, after("-----BEGIN", mark+"-----BEGIN"), good},
		{24, "comment in the type", rule.TextOnly, after("privilege</type>", mark+"privilege</type>"), good},
		{24, "comment in a leaf that is not read", rule.TextOnly, after("<serial>", "<serial>"+mark), good},
		{24, "comment in a name, signed with it", rule.TextOnly, before(name, "+slice+s<!-- x -->1</target_urn>"), before(name, "+slice+s1\n </target_urn>")},
		{24, "processing instruction in a name, signed with it", rule.TextOnly, before(name, "+slice+s<?x?>1</target_urn>"), before("<uuid/>", "<?x?><uuid/>")},
		{24, "processing instruction in a name", rule.TextOnly, after(name, "+slice+s<?x?>1</target_urn>"), good},
		{24, "CDATA in a name, the signature stays good", rule.TextOnly, after(name, "+slice+<![CDATA[s1]]></target_urn>"), after(name, "+slice+s&#49;</target_urn>")},
		{24, "CDATA in a name, signed with it", rule.TextOnly, before(name, "+slice+<![CDATA[s1]]></target_urn>"), before(name, "+slice+s&#x31;</target_urn>")},
		{24, "empty CDATA between elements", rule.TextOnly, after("<uuid/>", "<![CDATA[]]><uuid/>"), good},
		{24, "text beside the credential", rule.BlankBetween, after("<signatures>", sliceURN+"<signatures>"), after("<signatures>", "\n<signatures>")},
		{24, "text beside the signature", rule.BlankBetween, after("<signatures>", "<signatures>"+sliceURN), after("<signatures>", "<signatures>\n")},
		{24, "text in the signature", rule.BlankBetween, after("<KeyInfo>", "x<KeyInfo>"), after("<KeyInfo>", "\n<KeyInfo>")},
		{24, "text beside the key", rule.BlankBetween, after("<X509Data>", "x<X509Data>"), after("<X509Data>", "\n<X509Data>")},
		{24, "text beside the signer's certificate", rule.BlankBetween, after("<X509Data>", "<X509Data>x"), after("<X509Data>", "<X509Data>\n")},
		{24, "comment in the DigestValue", rule.TextOnly, after("<DigestValue>", "<DigestValue><?x?>"), after("<DigestValue>", "<!-- x --><DigestValue>")},
		{24, "comment in the SignatureValue", rule.TextOnly, after("<SignatureValue>", "<SignatureValue>"+mark), after("<SignatureValue>", mark+"<SignatureValue>")},
		{24, "comment in the signer's certificate", rule.TextOnly, after("<X509Certificate>", "<X509Certificate>"+mark), after("<X509Certificate>", mark+"<X509Certificate>")},
	}
}

// otherNames are elements of other namespaces.
func otherNames(t *testing.T, w *world) []attack {
	doc := w.sliceCredential().Signed(t)
	good := shows(doc)
	after := func(old, by string) scene { return shows(replace(t, doc, old, by)) }
	before := func(pairs ...string) scene {
		unsigned := w.sliceCredential().Unsigned()
		return shows(pki.Forgery{}.Signed(t, strings.NewReplacer(pairs...).Replace(unsigned), "ref0", w.sa))
	}
	signature := func(old, by string) scene {
		return shows(pki.Forgery{Edit: func(s string) string { return replace(t, s, old, by) }}.Signed(t, w.sliceCredential().Unsigned(), "ref0", w.sa))
	}
	const dsig = ` xmlns="http://www.w3.org/2000/09/xmldsig#"`
	parent := pki.Nest(w.handedOn(w.bob)...).Unsigned()
	prefixed := strings.NewReplacer("<parent>", `<x:parent xmlns:x="urn:x">`, "</parent>", "</x:parent>").Replace(parent)
	return []attack{
		{26, "prefixed credential", rule.Names, before("<credential ", `<x:credential xmlns:x="urn:x" `, "</credential>", "</x:credential>"), before("<credential ", `<credential xmlns:x="urn:x" `)},
		{26, "default namespace on the root", rule.Names, before("<signed-credential ", `<signed-credential xmlns="urn:x" `), good},
		{26, "prefixed root", rule.Names, before("<signed-credential ", `<x:signed-credential xmlns:x="urn:x" `, "</signed-credential>", "</x:signed-credential>"), good},
		{26, "signatures of another namespace", rule.Names, before("<signatures/>", `<signatures xmlns="urn:x"></signatures>`), good},
		{26, "prefixed parent", rule.Names, shows(pki.Sign(t, pki.Sign(t, prefixed, "ref0", false, w.sa), "ref1", false, w.alice, w.sa)).by(w.bob), shows(pki.Delegated(t, w.handedOn(w.bob)...)).by(w.bob)},
		{26, "Signature of another namespace", rule.Names, signature(dsig, ` xmlns="urn:x"`), good},
		{26, "Signature of no namespace", rule.Names, signature(dsig, ""), good},
		{26, "SignedInfo of another namespace", rule.Names, signature("<SignedInfo>", `<SignedInfo xmlns="urn:x">`), good},
		{26, "KeyInfo of another namespace", rule.Names, signature("<KeyInfo>", `<KeyInfo xmlns="urn:x">`), good},
		{26, "xmlns:xsi altered", rule.Digest, after("XMLSchema-instance", "XMLSchema-instancX"), before("XMLSchema-instance", "XMLSchema-instancX")},
		{26, "xmlns:xsi taken away", rule.Digest, shows(strings.NewReplacer(` xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"`, "", `xsi:noNamespaceSchemaLocation="http://www.planet-lab.org/resources/sfa/credential.xsd"`, "").Replace(doc)), good},
		{26, "namespace added to the root", rule.Digest, after("<signed-credential ", `<signed-credential xmlns:q="urn:q" `), before("<signed-credential ", `<signed-credential xmlns:q="urn:q" `)},
		{26, "xml:lang added to the root", rule.Digest, after("<signed-credential ", `<signed-credential xml:lang="en" `), before("<signed-credential ", `<signed-credential xml:lang="en" `)},
	}
}

// expiries are times in the past, or no times.
func expiries(t *testing.T, w *world) []attack {
	at := func(text string) scene {
		c := w.sliceCredential()
		c.Expires = text
		return shows(c.Signed(t))
	}
	good := at("2026-11-22T12:00:00Z")
	return []attack{
		{15, "expired yesterday", rule.CredentialExpired, at("2026-11-20T12:00:00Z"), good},
		{15, "expires this very second", rule.CredentialExpired, at("2026-11-21T12:00:00Z"), at("2026-11-21T12:00:01Z")},
		{15, "expires within this second", rule.CredentialExpired, at("2026-11-21T12:00:00.9Z"), at("2026-11-21T12:00:01.9Z")},
		{15, "expired, with no offset", rule.CredentialExpired, at("2026-11-21T11:59:59"), at("2026-11-21T12:00:01")},
		{15, "expired, with an offset ahead", rule.CredentialExpired, at("2026-11-21T13:59:59+02:00"), at("2026-11-21T14:00:01+02:00")},
		{15, "expired, with an offset behind", rule.CredentialExpired, at("2026-11-21T06:59:59-05:00"), at("2026-11-21T07:00:01-05:00")},
		{15, "expired when time began", rule.CredentialExpired, at("1970-01-01T00:00:00Z"), at("9999-12-31T23:59:59Z")},
		{15, "an offset of 23 hours", rule.ExpiryOffset, at("2026-11-22T12:00:00-23:00"), at("2026-11-22T12:00:00-14:00")},
		{15, "an offset of 99 hours", rule.Readable, at("2027-11-22T12:00:00+99:00"), good},
		{15, "the year 0, day 0", rule.Readable, at("0000-00-00T00:00:00Z"), good},
		{15, "30 February", rule.Readable, at("2027-02-30T00:00:00Z"), at("2027-02-28T00:00:00Z")},
		{15, "a leap second", rule.Readable, at("2026-12-31T23:59:60Z"), at("2026-12-31T23:59:59Z")},
		{15, "the year 12026", rule.Readable, at("12026-11-22T12:00:00Z"), good},
		{15, "the year -2026", rule.Readable, at("-2026-11-22T12:00:00Z"), good},
		{15, "a day without a time", rule.Readable, at("2027-11-22"), good},
		{15, "a blank instead of T", rule.Readable, at("2027-11-22 12:00:00"), good},
		{15, "a word", rule.Readable, at("tomorrow"), at(" 2026-11-22T12:00:00Z\n")},
	}
}
