package credentials_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
	"patchbay/credentials/testdata/pki"
)

// recorded are credentials that clients really sent; none without the corpus.
func recorded(f *testing.F) (docs []string) {
	dir := os.Getenv("PATCHBAY_CORPUS")
	if dir == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "captures", "*", "*.request.xml"))
	if err != nil {
		f.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		for _, doc := range captured(f, file) {
			if !seen[doc] {
				seen[doc] = true
				docs = append(docs, doc)
			}
		}
	}
	return docs
}

// inner is the content of the outermost credential without its parent.
func inner(doc string) string {
	_, doc, _ = strings.Cut(doc, "<credential ")
	_, doc, _ = strings.Cut(doc, ">")
	doc, _, _ = strings.Cut(doc, "</credential>")
	doc, _, _ = strings.Cut(doc, "<parent>")
	return doc
}

// signs returns any document signed with a valid key; "" if it cannot be signed.
func signs(doc, id string, by *pki.Entity) string {
	signed, err := dsig.Sign([]byte(doc), id, by.Key, []*cert.Certificate{by.Certificate}, dsig.SignOptions{})
	if err != nil {
		return ""
	}
	return string(signed)
}

// FuzzDelegate has alice sign any content as a delegation. She may delegate bind until noon of
// tomorrow, for one slice. No delegation gives more.
func FuzzDelegate(f *testing.F) {
	w := newWorld(f)
	w.alice = pki.User(f, w.sa, aliceURN, "p256")
	parent := w.sliceCredential()
	parent.Privileges = []string{"bind", "control"}
	parent.Edit = func(doc string) string {
		return replace(f, doc, "<name>control</name><can_delegate>true", "<name>control</name><can_delegate>false")
	}
	good := parent.Signed(f)
	element, signature := intermediates(good, "<credential ", "</credential>"), intermediates(good, "<Signature ", "</Signature>")
	callers := []credentials.Caller{w.caller(f, w.bob), w.caller(f, w.tool)}
	for _, who := range []*pki.Entity{w.bob, w.tool} {
		for _, privileges := range [][]string{{"bind"}, {"*"}, {"control"}, {"bind", "sa"}} {
			c := w.sliceCredential()
			c.Owner, c.Privileges = []*pki.Entity{who}, privileges
			f.Add(inner(c.Unsigned()))
		}
	}
	for _, doc := range recorded(f) {
		f.Add(inner(doc))
	}
	delegated := func(content string) string {
		return signs(`<signed-credential xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="http://www.planet-lab.org/resources/sfa/credential.xsd"><credential xml:id="ref1">`+
			content+`<parent>`+element+`</parent></credential><signatures>`+signature+`</signatures></signed-credential>`, "ref1", w.alice)
	}
	bobs := w.sliceCredential()
	bobs.Owner, bobs.Privileges = []*pki.Entity{w.bob}, []string{"bind"}
	if _, err := w.z.Authorize(callers[0], sfa(delegated(inner(bobs.Unsigned()))), "", credentials.RightAllocate, now); err != nil {
		f.Fatalf("what may be delegated is refused: %v", err)
	}
	ends := now.Add(24 * time.Hour)
	f.Fuzz(func(t *testing.T, content string) {
		doc := delegated(content)
		if doc == "" {
			return
		}
		for _, c := range callers {
			for _, right := range []credentials.Right{credentials.RightAllocate, credentials.RightShutdown, credentials.RightDescribe} {
				g, err := w.z.Authorize(c, sfa(doc), "", right, now)
				if err != nil {
					continue
				}
				if g.Caller() != c.URN || right != credentials.RightAllocate {
					t.Fatalf("%s has the right to %s, as %s", c.URN, right, g.Caller())
				}
				if until, err := g.Over(w.other.URN); err == nil {
					t.Fatalf("a right over another slice until %v", until)
				}
				if until, err := g.Over(w.slice.URN); err == nil && until.After(ends) {
					t.Fatalf("a right until %v", until)
				}
			}
		}
	})
}

// FuzzSpeech has bob sign any content as a speaks-for credential. None lets a tool speak for
// alice.
func FuzzSpeech(f *testing.F) {
	w := newWorld(f)
	w.bob = pki.User(f, w.sa, bobURN, "p256")
	of := func(e *pki.Entity) string {
		c := w.sliceCredential()
		c.Owner = []*pki.Entity{e}
		return c.Signed(f)
	}
	alices, bobs := of(w.alice), of(w.bob)
	for _, signer := range []*pki.Entity{w.alice, w.bob} {
		s := w.speaksFor()
		s.Signer = []*pki.Entity{signer}
		f.Add(inner(s.Unsigned(f)))
		s.Head = pki.KeyID(f, w.alice)
		f.Add(inner(s.Unsigned(f)))
		old := w.oldSpeaksFor()
		old.Target = []*pki.Entity{signer}
		f.Add(inner(old.Unsigned()))
	}
	for _, doc := range recorded(f) {
		f.Add(inner(doc))
	}
	callers := []credentials.Caller{w.caller(f, w.tool), w.caller(f, w.sa), w.caller(f, w.bob)}
	word := func(content string) string {
		return signs(`<signed-credential><credential xml:id="ref0">`+content+`</credential><signatures/></signed-credential>`, "ref0", w.bob)
	}
	own := w.speaksFor()
	own.Signer = []*pki.Entity{w.bob}
	if _, err := w.z.Authorize(callers[0], sfa(word(inner(own.Unsigned(f))), bobs), bobURN, credentials.RightAllocate, now); err != nil {
		f.Fatalf("bob's own word is refused: %v", err)
	}
	f.Fuzz(func(t *testing.T, content string) {
		doc := word(content)
		if doc == "" {
			return
		}
		for _, c := range callers {
			if g, err := w.z.Authorize(c, sfa(doc, alices), aliceURN, credentials.RightAllocate, now); err == nil {
				t.Fatalf("%s speaks for alice, as %s", c.URN, g.Caller())
			}
			if g, err := w.z.Authorize(c, sfa(doc, alices, bobs), bobURN, credentials.RightAllocate, now); err == nil && g.Caller() != w.bob.URN {
				t.Fatalf("%s has the right of %s", c.URN, g.Caller())
			}
		}
	})
}
