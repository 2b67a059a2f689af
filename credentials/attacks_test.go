package credentials_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

// TestOddButGoodCredentials are forms that are met, and that are no attack.
func TestOddButGoodCredentials(t *testing.T) {
	w := newWorld(t)
	for name, s := range map[string]scene{
		"nothing wrong": w.signed(t, w.sa),
		"another credential among its extensions": w.edited(t, "</credential>", `<extensions><credential><target_urn>x</target_urn></credential></extensions></credential>`),
		"chain of the signer in any order":        w.signed(t, pki.Authority(t, w.sa, saURN, "rsa5"), w.alice, w.sa),
		"signed by an authority named ROOT":       w.signed(t, pki.Authority(t, w.sa, "urn:publicid:IDN+example.org+authority+ROOT", "rsa5"), w.sa),
		"without names": w.one(t, func(c *pki.Credential) {
			c.Edit = func(doc string) string {
				return replace(t, replace(t, doc, "<owner_urn>"+aliceURN+"</owner_urn>", ""), "<target_urn>"+sliceURN+"</target_urn>", "")
			}
		}),
		"a reference in a name": w.edited(t, "+slice+s1</target_urn>", "+slice+s&#49;</target_urn>"),
	} {
		if err := s.try(w); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOperatorListsFurtherSigners(t *testing.T) {
	w := newWorld(t)
	credential := w.sliceCredential()
	credential.Signer = []*pki.Entity{pki.Authority(t, w.sa, "urn:publicid:IDN+example.org+authority+Portal", "rsa5"), w.sa}
	doc := sfa(credential.Signed(t))
	if _, err := w.z.Authorize(w.caller(t, w.alice), doc, "", credentials.RightAllocate, now); detail(t, err) != am.CredentialUntrusted {
		t.Errorf("not listed: %v", err)
	}
	z := credentials.New(pki.Anchors(w.sa), credentials.Config{Signers: []string{"portal"}})
	if _, err := z.Authorize(w.caller(t, w.alice), doc, "", credentials.RightAllocate, now); err != nil {
		t.Errorf("listed: %v", err)
	}
}

// TestCredentialWhoseCertificatesCarryTheOddAIA has it on user, slice,
// intermediate and anchor.
func TestCredentialWhoseCertificatesCarryTheOddAIA(t *testing.T) {
	odd := func(issuer *pki.Entity, uri, key string, ca bool) *pki.Entity {
		s := pki.Subject{URIs: []string{uri}, Key: key, CA: ca}
		s.Extra = append(s.Extra, pki.OddAIA(false))
		return pki.Issue(t, issuer, s)
	}
	root := odd(nil, "urn:publicid:IDN+example.org+authority+root", "rsa1", true)
	sa := odd(root, saURN, "rsa5", true)
	alice, slice := odd(sa, aliceURN, "rsa2", false), odd(sa, sliceURN, "rsa3", false)
	z := credentials.New(pki.Anchors(root), credentials.Config{})
	c := z.Identify(pki.Raw(alice, sa), now)
	doc := pki.Credential{Owner: []*pki.Entity{alice}, Target: []*pki.Entity{slice, sa}, Signer: []*pki.Entity{sa}, Privileges: []string{"*"}}.Signed(t)
	g, err := z.Authorize(c, sfa(doc), "", credentials.RightAllocate, now)
	if err != nil {
		t.Fatalf("%v, caller %v", err, c.Err)
	}
	if _, err := g.Over(slice.URN); err != nil {
		t.Error(err)
	}
}

func TestExpiresForms(t *testing.T) {
	w := newWorld(t)
	day := now.Add(24 * time.Hour)
	for text, want := range map[string]time.Time{
		"2026-11-22T12:00:00Z":        day,
		"2026-11-22T12:00:00":         day,
		"2026-11-22T12:00:00+00:00":   day,
		"2026-11-22T14:00:00+02:00":   day,
		"2026-11-22T07:00:00-05:00":   day,
		"2026-11-22T12:00:00.999999Z": day,
		"2026-11-22T12:00:00.5":       day,
		" 2026-11-22T12:00:00Z\n":     day,
		"9999-12-31T23:59:59Z":        now.AddDate(1, 0, 0), // the certificates end first
	} {
		credential := w.sliceCredential()
		credential.Expires = text
		if until, err := w.over(t, credentials.RightAllocate, credential.Signed(t)); err != nil || !until.Equal(want) {
			t.Errorf("%q: until %v, %v; want %v", text, until, err, want)
		}
	}
}

func FuzzAuthorize(f *testing.F) {
	w := newWorld(f)
	callers := []credentials.Caller{w.caller(f, w.alice), w.caller(f, w.bob), w.caller(f, w.tool), w.caller(f, w.sa)}
	slice := credentials.Presented{Type: "geni_sfa", Version: "3", Text: w.sliceCredential().Signed(f)}
	f.Add("geni_sfa", "3", slice.Text, "")
	f.Add("", "", w.userCredential().Signed(f), aliceURN)
	f.Add("geni_abac", "1", "<signed-credential/>", bobURN)
	f.Add("geni_unknown", "0", pki.Delegated(f, w.handedOn(w.bob)...), "")
	f.Add("geni_abac", "1", w.speaksFor().Signed(f), aliceURN)
	f.Add("speaksfor", "1", w.oldSpeaksFor().Signed(f), aliceURN)
	for _, doc := range recorded(f) {
		f.Add("geni_sfa", "3", doc, "")
	}
	f.Fuzz(func(t *testing.T, kind, version, text, speakingFor string) {
		for _, c := range callers {
			g, err := w.z.Authorize(c, []credentials.Presented{{Type: kind, Version: version, Text: text}, slice}, speakingFor, credentials.RightAllocate, now)
			if err != nil {
				if e, ok := errors.AsType[*credentials.DeniedError](err); !ok || len(e.Reasons) == 0 || strings.ContainsAny(e.Error(), "\r\n") {
					t.Fatalf("not a readable denial: %q", err)
				}
				continue
			}
			if until, err := g.Over(w.other.URN); err == nil {
				t.Fatalf("a right over another slice until %v", until)
			}
			if until, err := g.Over(w.slice.URN); err == nil && until.After(now.Add(24*time.Hour)) {
				t.Fatalf("a right until %v", until)
			}
			if speaks := !g.Speaker().IsZero(); speaks != (g.Caller() != c.URN) || speaks && (g.Caller() != w.alice.URN || c.URN != w.tool.URN) {
				t.Fatalf("%s is authorized as %s", c.URN, g.Caller())
			}
		}
	})
}

func BenchmarkAuthorize(b *testing.B) {
	w := newWorld(b)
	caller := w.caller(b, w.alice)
	doc := sfa(w.sliceCredential().Signed(b))
	run := func(z *credentials.Authorizer) {
		g, err := z.Authorize(caller, doc, "", credentials.RightAllocate, now)
		if err == nil {
			_, err = g.Over(w.slice.URN)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("new", func(b *testing.B) {
		// Two generations in turn, so that nothing is remembered.
		two := []*cert.Anchors{pki.Anchors(w.sa), pki.Anchors(w.sa, w.bob)}
		for i := 0; b.Loop(); i++ {
			w.z.SetAnchors(cert.NewAnchors(two[i%2].List()...))
			run(w.z)
		}
	})
	b.Run("remembered", func(b *testing.B) {
		caller = w.caller(b, w.alice) // under the anchors of now
		b.ReportAllocs()
		for b.Loop() {
			run(w.z)
		}
	})
	b.Run("user known, slice new", func(b *testing.B) {
		var docs [][]credentials.Presented
		for i := range 64 {
			c := w.sliceCredential()
			c.Expires = fmt.Sprintf("2026-11-22T12:00:%02dZ", i%60)
			docs = append(docs, sfa(c.Signed(b)))
		}
		z := credentials.New(pki.Anchors(w.sa), credentials.Config{CacheSize: 1})
		for i := 0; b.Loop(); i++ {
			if _, err := z.Authorize(caller, docs[i%64], "", credentials.RightAllocate, now); err != nil {
				b.Fatal(err)
			}
		}
	})
}
