package credentials_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

// TestOddButGoodCredentials checks unusual but valid forms that deployed software uses.
func TestOddButGoodCredentials(t *testing.T) {
	w := newWorld(t)
	delegated := pki.Delegated(t, w.handedOn(w.bob)...)
	torn := replace(t, delegated, intermediates(delegated, `<credential xml:id="ref1">`, "</parent></credential>"), intermediates(delegated, `<credential xml:id="ref0">`, "</credential>"))
	for name, s := range map[string]scene{
		"nothing wrong": w.signed(t, w.sa),
		"white space and a byte order mark around": shows(" \r\n\ufeff\n" + w.sliceCredential().Signed(t) + "\n\n"),
		"the parent of a delegated one, alone":     shows(torn),
		"another credential among its extensions":  w.edited(t, "</credential>", `<extensions><credential><target_urn>x</target_urn></credential></extensions></credential>`),
		"chain of the signer in any order":         w.signed(t, pki.Authority(t, w.sa, saURN, "rsa5"), w.alice, w.sa),
		"signed by an authority named ROOT":        w.signed(t, pki.Authority(t, w.sa, "urn:publicid:IDN+example.org+authority+ROOT", "rsa5"), w.sa),
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

// TestCertificatesWithTheOddAIAAreAccepted has the extension in the certificates of user,
// slice, intermediate and anchor.
func TestCertificatesWithTheOddAIAAreAccepted(t *testing.T) {
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
	for form, c := range map[string]struct {
		caller *pki.Entity
		doc    string
	}{"slice": {w.alice, w.sliceCredential().Signed(b)}, "delegated": {w.bob, pki.Delegated(b, w.handedOn(w.bob)...)}} {
		// Alternating generations of anchors prevent the use of the cache.
		for name, generations := range map[string][]*cert.Anchors{"new": {pki.Anchors(w.sa), pki.Anchors(w.sa, w.tool)}, "remembered": {pki.Anchors(w.sa)}} {
			b.Run(form+"/"+name, func(b *testing.B) {
				w.z.SetAnchors(generations[0])
				caller := w.caller(b, c.caller)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if len(generations) > 1 {
						w.z.SetAnchors(cert.NewAnchors(generations[i%2].List()...))
					}
					g, err := w.z.Authorize(caller, sfa(c.doc), "", credentials.RightAllocate, now)
					if err == nil {
						_, err = g.Over(w.slice.URN)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
