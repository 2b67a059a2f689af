package credentials_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/credentials/dsig"
	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
)

// outsideAttacks are attacks of each theme with documents signed by another program.
func outsideAttacks(t *testing.T, w *world) []attack {
	xmlsec1 := require.Tool(t, "xmlsec1")
	profile := algorithms[0]
	signed := func(c pki.Credential, template string) string { // by the sa
		return signedByXmlsec1(t, xmlsec1, c.Unsigned(), "ref0", "rsa1", template, w.sa)
	}
	own := w.sliceCredential()
	doc := signed(own, profile.template("ref0"))
	good := shows(doc)
	edit := func(old, by string) scene { return shows(replace(t, doc, old, by)) }
	with := func(change func(*pki.Credential)) scene {
		c := w.sliceCredential()
		change(&c)
		return shows(signed(c, profile.template("ref0")))
	}
	inside := func(extension string) scene {
		return with(func(c *pki.Credential) {
			c.Edit = func(doc string) string {
				return replace(t, doc, "</credential>", "<extensions>"+extension+"</extensions></credential>")
			}
		})
	}
	templated := func(old, by string) scene { return shows(signed(own, replace(t, profile.template("ref0"), old, by))) }

	others := with(func(c *pki.Credential) { c.Target = []*pki.Entity{w.other, w.sa} }).documents[0].Text
	forged := w.sliceCredential()
	forged.ID = "ref9"
	cred := intermediates(others, "<credential ", "</credential>")
	delegated := signedByXmlsec1(t, xmlsec1, signedByXmlsec1(t, xmlsec1, pki.Nest(w.handedOn(w.bob)...).Unsigned(), "ref0", "rsa1", profile.template("ref0"), w.sa), "ref1", "rsa2", profile.template("ref1"), w.alice)
	honest := shows(delegated).by(w.bob)
	outer := intermediates(delegated[strings.LastIndex(delegated, "<Signature "):], "<Signature ", "</Signature>")
	fake := pki.Issue(t, nil, pki.Subject{URIs: []string{saURN}, CN: "another name of the sa", Key: "rsa5", CA: true})
	byFake := signedByXmlsec1(t, xmlsec1, own.Unsigned(), "ref0", "rsa5", profile.template("ref0"), fake)
	shown := func(certificates ...*pki.Entity) string {
		data := "<X509Data>"
		for _, c := range certificates {
			data += "<X509Certificate>" + base64.StdEncoding.EncodeToString(c.Raw) + "</X509Certificate>"
		}
		return data + "</X509Data>"
	}
	xpath := `<Transform Algorithm="http://www.w3.org/TR/1999/REC-xpath-19991116"><XPath>true()</XPath></Transform>`
	transform := `<Transform Algorithm="` + enveloped + `"/>`
	return slices.Concat(outsideMeaning(t, w, xmlsec1), []attack{
		{1, "slice changed", rule.Digest, shows(strings.NewReplacer(pki.PEM(w.other), pki.PEM(w.slice), "slice+s2</target_urn>", "slice+s1</target_urn>").Replace(others)), good},
		{1, "SignedInfo changed", rule.Signature, edit(transform, ""), good},
		{2, "signature removed", rule.Signed, shows(replace(t, doc, intermediates(doc, "<Signature ", "</Signature>"), "")), good},
		{3, "signed one in extensions of the forged", rule.Signed, shows(replace(t, others, cred, replace(t, forged.Element(), "</credential>", "<extensions>"+cred+"</extensions></credential>"))), good},
		{3, "signed one behind the forged", rule.Cardinality, shows(replace(t, others, cred, forged.Element()+cred)), good},
		{4, "xml:id twice", rule.OneID, inside(`<x Id="ref0"/>`), inside(`<x Id="ref1"/>`)},
		{5, "by xpointer", rule.Signed, shows(templated(`URI="#ref0"`, `URI="#xpointer(id('ref0'))"`).documents[0].Text), good},
		{6, "outer signature removed", rule.Signed, shows(replace(t, delegated, outer, "")).by(w.bob), honest},
		{7, "self-made key", rule.Anchored, shows(byFake), good},
		{8, "trusted certificate beside a forged key", rule.Signature, shows(replace(t, byFake, intermediates(byFake, "<X509Data>", "</X509Data>"), keyValue(t, fake)+shown(w.sa))), good},
		{9, "trusted certificate first, forged key second", rule.Anchored, shows(replace(t, byFake, intermediates(byFake, "<X509Data>", "</X509Data>"), shown(w.sa, fake))), edit(intermediates(doc, "<X509Data>", "</X509Data>"), shown(fake, w.sa))},
		{15, "expired", rule.CredentialExpired, with(func(c *pki.Credential) { c.Expires = "2026-11-21T12:00:00Z" }), with(func(c *pki.Credential) { c.Expires = "2026-11-21T12:00:01Z" })},
		{20, "HMAC with the public key as secret", rule.Algorithm, shows(hmacByXmlsec1(t, xmlsec1, own.Unsigned(), profile, w.sa)), good},
		{21, "XPath", rule.Parameters, templated(transform, transform+xpath), good},
		{22, "DOCTYPE", rule.Doctype, edit("<signed-credential ", "<!DOCTYPE signed-credential><signed-credential "), good},
		{23, "deep nesting", rule.Depth, inside(strings.Repeat("<x>", dsig.DefaultLimits.Depth) + strings.Repeat("</x>", dsig.DefaultLimits.Depth)), good},
		{24, "comment in a name, the signature stays good", rule.TextOnly, edit("+slice+s1</target_urn>", "+slice+s<!-- x -->1</target_urn>"), edit("<uuid/>", "<!-- x --><uuid/>")},
		{26, "prefixed credential", rule.Names, with(func(c *pki.Credential) {
			c.Edit = strings.NewReplacer("<credential ", `<x:credential xmlns:x="urn:x" `, "</credential>", "</x:credential>").Replace
		}), good},
		{27, "UTF-16 declared", rule.Encoding, edit("utf-8", "UTF-16"), good},
		{28, "second root", rule.OneRoot, shows(doc + "<x/>"), good},
		{34, "parent's signature broken", rule.Signature, shows(brokenValue(delegated)).by(w.bob), honest},
	})
}

// brokenValue is a document with one letter of its first signature changed.
func brokenValue(doc string) string {
	i := strings.Index(doc, "<SignatureValue>") + len("<SignatureValue>")
	return doc[:i] + string(rune('A'+(doc[i]-'A'+1)%26)) + doc[i+1:]
}

// hmacByXmlsec1 has another program sign with HMAC, using the public key of an entity as the
// secret, and adds the certificate.
func hmacByXmlsec1(t testing.TB, xmlsec1, doc string, a algorithm, e *pki.Entity) string {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, e.RawSubjectPublicKeyInfo, 0o600); err != nil {
		t.Fatal(err)
	}
	template := replace(t, a.template("ref0"), a.method, "http://www.w3.org/2000/09/xmldsig#hmac-sha1")
	keys := intermediates(template, "<KeyInfo>", "</KeyInfo>")
	signed := filledByXmlsec1(t, xmlsec1, doc, "ref0", replace(t, template, keys, ""), "--hmackey", secret)
	return replace(t, signed, "</Signature>", "<KeyInfo><X509Data><X509Certificate>"+base64.StdEncoding.EncodeToString(e.Raw)+"</X509Certificate></X509Data></KeyInfo></Signature>")
}
