package credentials_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

// handedOn is alice's credential for the slice s1, delegated to somebody.
func (w *world) handedOn(to *pki.Entity) []pki.Credential {
	outer := w.sliceCredential()
	outer.Owner, outer.Signer, outer.CanDelegate = []*pki.Entity{to, w.sa}, []*pki.Entity{w.alice, w.sa}, "false"
	return []pki.Credential{outer, w.sliceCredential()}
}

// TestDelegation are ways to hand a credential on; what must not be done is among
// the attacks.
func TestDelegation(t *testing.T) {
	w := newWorld(t)
	carol := pki.User(t, w.sa, "urn:publicid:IDN+example.org+user+carol", "rsa5")
	lab := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org:lab+authority+sa", "rsa5")
	type (
		list  = []*pki.Entity
		chain = []pki.Credential // outermost first
	)
	third := func(c chain) chain { // carol's, from bob's
		c[0].CanDelegate = "true"
		outer := w.sliceCredential()
		outer.Owner, outer.Signer = list{carol, w.sa}, list{w.bob, w.sa}
		return slices.Insert(c, 0, outer)
	}
	for _, tt := range []struct {
		rule   string
		change func(c chain) chain
		caller *pki.Entity
	}{
		{rule: "bob's, from alice's", caller: w.bob},
		{rule: "three levels", caller: carol, change: third},
		{rule: "a tool's", caller: w.tool, change: func(c chain) chain { c[0].Owner = list{w.tool}; return c }},
		{rule: "fewer privileges", caller: w.bob, change: func(c chain) chain { c[0].Privileges = []string{"CONTROL"}; return c }},
		{rule: "any privilege from *", caller: w.bob, change: func(c chain) chain { c[1].Privileges = []string{"*"}; return c }},
		{rule: "* from *", caller: w.bob, change: func(c chain) chain { c[0].Privileges, c[1].Privileges = []string{"*"}, []string{"*"}; return c }},
		{rule: "to be delegated further", caller: w.bob, change: func(c chain) chain { c[0].CanDelegate = "1"; return c }},
		{rule: "back to its owner", caller: w.alice, change: func(c chain) chain {
			c[0].CanDelegate = "true"
			outer := w.sliceCredential()
			outer.Signer = list{w.bob, w.sa}
			return slices.Insert(c, 0, outer)
		}},
		{rule: "expires with its parent", caller: w.bob, change: func(c chain) chain { c[0].Expires = "2026-11-22T12:00:00Z"; return c }},
		{rule: "renewed certificate of the same key", caller: w.bob, change: func(c chain) chain { c[0].Signer = list{pki.User(t, w.sa, aliceURN, "rsa2")}; return c }},
		{rule: "five levels", caller: w.alice, change: func(chain) chain { return w.loop(5) }},
		{rule: "all of it the sub-authority's user", caller: w.bob, change: func(c chain) chain {
			a := pki.User(t, lab, labAlice, "rsa2")
			c[1].Owner, c[0].Signer = list{a, lab}, list{a, lab}
			return c
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			levels := w.handedOn(w.bob)
			if tt.change != nil {
				levels = tt.change(levels)
			}
			doc := pki.Delegated(t, levels...)
			for range 2 { // new, and remembered
				g, err := w.z.Authorize(w.caller(t, tt.caller), sfa(doc), "", credentials.RightAllocate, now)
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				if until, err := g.Over(w.slice.URN); err != nil || !until.Equal(now.Add(24*time.Hour)) || g.Caller() != tt.caller.URN || !g.Speaker().IsZero() {
					t.Errorf("%s until %v, %v", g.Caller(), until, err)
				}
				if _, err := g.Over(w.other.URN); err == nil {
					t.Error("a right over another slice")
				}
			}
		})
	}
}

// An ABAC credential holds no owner and no target that could be compared. Its
// maker need not be trusted: the kinds are looked at before any certificate.
func TestParentOfTheTypeABAC(t *testing.T) {
	w := newWorld(t)
	eve := pki.User(t, pki.Authority(t, nil, "urn:publicid:IDN+example.com+authority+sa", "rsa5"), aliceURN, "rsa4")
	own := []*pki.Entity{eve}
	level := func(id, parent string) string {
		c := pki.Credential{Owner: own, Target: own, Signer: own, Privileges: []string{"*"}, Parent: parent}
		return strings.Replace(c.Unsigned(), `"ref0"`, `"`+id+`"`, 1)
	}
	inner := func(doc, id string) string {
		return strings.Replace(between(doc, "<credential ", "</credential>"), `"ref0"`, `"`+id+`"`, 1)
	}
	abac := pki.SpeaksFor{Signer: own, Tool: eve}.Unsigned(t)
	middle := level("ref1", inner(abac, "ref2"))
	middle = middle[strings.Index(middle, "<credential "):strings.LastIndex(middle, "<signatures")]
	for want, doc := range map[string]string{
		"it is of the type privilege, but its parent of the type abac":             pki.Sign(t, pki.Sign(t, level("ref0", inner(abac, "ref1")), "ref0", false, eve), "ref1", false, eve),
		"its parent: it is of the type privilege, but its parent of the type abac": pki.Sign(t, pki.Sign(t, pki.Sign(t, level("ref0", middle), "ref0", false, eve), "ref1", false, eve), "ref2", false, eve),
	} {
		if _, err := w.z.Authorize(w.caller(t, w.bob), sfa(doc), "", credentials.RightAllocate, now); err == nil || !strings.Contains(err.Error(), "credential 1: "+want) {
			t.Errorf("%v; want %q", err, want)
		}
		if _, err := w.z.Authorize(w.z.Identify(pki.Raw(eve), now), sfa(doc), "", credentials.RightAllocate, now); err == nil {
			t.Error("a stranger is let in")
		}
	}
}

// loop is a credential of n levels that goes to and fro between alice and bob
// and ends with alice.
func (w *world) loop(n int) []pki.Credential {
	levels := make([]pki.Credential, n)
	who := []*pki.Entity{w.alice, w.bob}
	for i := range levels {
		c := w.sliceCredential()
		c.Owner, c.Signer = []*pki.Entity{who[i%2]}, []*pki.Entity{who[(i+1)%2], w.sa}
		if i == n-1 {
			c.Signer = []*pki.Entity{w.sa}
		}
		levels[i] = c
	}
	return levels
}

// TestDelegationSignatures is #6 and #34: every level must be signed, and what
// was signed must be what stands there.
func TestDelegationSignatures(t *testing.T) {
	w := newWorld(t)
	levels := w.handedOn(w.bob)
	unsigned := pki.Nest(levels...).Unsigned()
	doc := pki.Delegated(t, levels...)
	bob := w.caller(t, w.bob)
	elsewhere := w.handedOn(w.bob)
	elsewhere[0].Target, elsewhere[1].Target = []*pki.Entity{w.other, w.sa}, []*pki.Entity{w.other, w.sa}
	other := pki.Delegated(t, elsewhere...)
	inner := between(other, "<parent>", "</parent>")
	for _, tt := range []struct{ rule, doc, want string }{
		{"neighbour", doc, ""},
		{"6 outer one unsigned", pki.Sign(t, unsigned, "ref0", false, w.sa), "is not signed"},
		{"34 inner one unsigned", pki.Sign(t, unsigned, "ref1", false, w.alice, w.sa), "is not signed"},
		{"34 inner one changed", strings.Replace(doc, "<serial>8</serial><owner_gid>", "<serial>9</serial><owner_gid>", 2), "changed after it was signed"},
		{"34 inner signature of another document", replace(t, doc, between(doc, "<parent>", "</parent>"), inner), "changed after it was signed"},
		{"34 inner signature broken, the outer one made over it", pki.Sign(t, replace(t, pki.Sign(t, unsigned, "ref0", false, w.sa), "<SignatureValue>", "<SignatureValue>AAAA"), "ref1", false, w.alice, w.sa), "signature"},
		{"19 a hundred levels", replace(t, doc, "<parent>", "<parent>"+strings.Repeat("<credential>", 100)+strings.Repeat("</credential>", 100)), "cannot be read"},
		{"19 parent is a reference to the child", replace(t, doc, between(doc, "<parent>", "</parent>"), `<parent><credential xml:id="ref1"/></parent>`), "occurs twice"},
		{"19 two parents", replace(t, doc, "</parent>", "</parent><parent/>"), "repeated <parent>"},
		{"3 the parent alone, torn out", strings.Replace(doc, between(doc, `<credential xml:id="ref1">`, "<parent>"), "<x>", 1), "cannot be read"},
	} {
		_, err := w.z.Authorize(bob, sfa(tt.doc), "", credentials.RightAllocate, now)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v; want %q", tt.rule, err, tt.want)
		}
	}
	// The parent by itself is alice's good credential, and no more.
	parent := between(doc, `<credential xml:id="ref0">`, "</credential>")
	torn := replace(t, doc, between(doc, `<credential xml:id="ref1">`, "</parent></credential>"), parent)
	if _, err := w.over(t, credentials.RightAllocate, torn); err != nil {
		t.Errorf("the parent torn out, for its owner: %v", err)
	}
	if _, err := w.z.Authorize(bob, sfa(torn), "", credentials.RightAllocate, now); detail(t, err) != am.CredentialMismatch {
		t.Errorf("the parent torn out, for another: %v", err)
	}
}

// TestDelegatedRightEndsWithTheFirstLevel shortens one certificate or
// credential after the other.
func TestDelegatedRightEndsWithTheFirstLevel(t *testing.T) {
	w := newWorld(t)
	soon := now.Add(2 * time.Hour)
	short := func(uri, key string, ca bool) *pki.Entity {
		return pki.Issue(t, w.sa, pki.Subject{URIs: []string{uri}, Key: key, CA: ca, To: soon})
	}
	for part, change := range map[string]func(c []pki.Credential){
		"child":          func(c []pki.Credential) { c[0].Expires = "2026-11-21T14:00:00Z" },
		"child's owner":  func(c []pki.Credential) { c[0].Owner = []*pki.Entity{short(bobURN, "rsa4", false)} },
		"child's signer": func(c []pki.Credential) { c[0].Signer = []*pki.Entity{short(aliceURN, "rsa2", false)} },
		"parent's owner": func(c []pki.Credential) { c[1].Owner = []*pki.Entity{short(aliceURN, "rsa2", false)} },
		"root's signer":  func(c []pki.Credential) { c[1].Signer = []*pki.Entity{short(saURN, "rsa5", true), w.sa} },
		"target": func(c []pki.Credential) {
			s := short(sliceURN, "rsa3", false)
			c[0].Target, c[1].Target = []*pki.Entity{s}, []*pki.Entity{s, w.sa}
		},
	} {
		levels := w.handedOn(w.bob)
		change(levels)
		doc := sfa(pki.Delegated(t, levels...))
		for range 2 {
			g, err := w.z.Authorize(w.caller(t, w.bob), doc, "", credentials.RightAllocate, now)
			if err != nil {
				t.Fatalf("%s: %v", part, err)
			}
			if until, err := g.Over(w.slice.URN); err != nil || !until.Equal(soon) {
				t.Errorf("%s ends %v, but the right %v, %v", part, soon, until, err)
			}
		}
		if _, err := w.z.Authorize(w.caller(t, w.bob), doc, "", credentials.RightAllocate, soon.Add(time.Second)); detail(t, err) != am.CredentialExpired {
			t.Errorf("%s, remembered and expired: %v", part, err)
		}
	}
}

// TestIssuersOfADelegationMayComeFromAnyLevel has the member authority's
// certificate in one place after the other.
func TestIssuersOfADelegationMayComeFromAnyLevel(t *testing.T) {
	type list = []*pki.Entity
	for i := range 12 {
		w := newDeepWorld(t)
		bob := pki.User(t, w.ma, []string{bobURN, toolURN}[i/6], "rsa4")
		inner := pki.Credential{Owner: list{w.alice}, Target: list{w.slice}, Signer: list{w.sa}, Privileges: []string{"*"}}
		outer := pki.Credential{Owner: list{bob}, Target: list{w.slice}, Signer: list{w.alice}, Privileges: []string{"*"}}
		caller := list{bob}
		place := []*list{&inner.Owner, &outer.Owner, &outer.Signer, &inner.Signer, &caller, new(list)}[i%6]
		*place = append(*place, w.ma)
		doc := pki.Delegated(t, outer, inner)
		_, err := w.z.Authorize(w.z.Identify(pki.Raw(caller...), now), sfa(doc), "", credentials.RightAllocate, now)
		if nowhere := i%6 == 5; nowhere != (err != nil) {
			t.Errorf("place %d: %v", i, err)
		}
	}
}

func BenchmarkAuthorizeDelegated(b *testing.B) {
	w := newWorld(b)
	caller := w.caller(b, w.bob)
	doc := sfa(pki.Delegated(b, w.handedOn(w.bob)...))
	run := func(doc []credentials.Presented) {
		if _, err := w.z.Authorize(caller, doc, "", credentials.RightAllocate, now); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("new", func(b *testing.B) {
		two := []*cert.Anchors{pki.Anchors(w.sa), pki.Anchors(w.sa, w.alice)}
		for i := 0; b.Loop(); i++ {
			w.z.SetAnchors(cert.NewAnchors(two[i%2].List()...))
			run(doc)
		}
	})
	b.Run("remembered", func(b *testing.B) {
		caller = w.caller(b, w.bob) // under the anchors of now
		b.ReportAllocs()
		for b.Loop() {
			run(doc)
		}
	})
	b.Run("users known, slice new", func(b *testing.B) {
		var docs [][]credentials.Presented
		for i := range 32 {
			levels := w.handedOn(w.bob)
			levels[0].Expires = fmt.Sprintf("2026-11-22T11:00:%02dZ", i)
			docs = append(docs, sfa(pki.Delegated(b, levels...)))
		}
		z := credentials.New(pki.Anchors(w.sa), credentials.Config{CacheSize: 1})
		for i := 0; b.Loop(); i++ {
			if _, err := z.Authorize(caller, docs[i%32], "", credentials.RightAllocate, now); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A stranger's credential is read before its certificates are judged, so what
// it may hold is bounded, and only ASCII has one way to fold case.
func TestPrivilegesAreFewShortAndASCII(t *testing.T) {
	w := newWorld(t)
	many := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint("info", i))
		}
		return list
	}
	for _, tt := range []struct {
		rule        string
		here, above []string
		want        string
	}{
		{"as many as are read, in another order and case", many(100), func() []string {
			list := many(100)
			slices.Reverse(list)
			return strings.Fields(strings.ToUpper(strings.Join(list, " ")))
		}(), "do not allow"},
		{"one more", many(101), []string{"*"}, "it holds more than 100 privileges"},
		{"one more above", []string{"info"}, append(many(100), "info"), "its parent: it holds more than 100 privileges"},
		{"the longest name", []string{strings.Repeat("a", 64), "sa"}, []string{strings.Repeat("A", 64), "SA"}, ""},
		{"a longer name", []string{strings.Repeat("a", 65), "sa"}, []string{"*"}, "of 1 to 64 visible characters"},
		{"sa out of ſa, which grants nothing", []string{"sa"}, []string{"ſa"}, "visible characters of ASCII"},
		{"a name with a letter like k", []string{"sa", "\u212a"}, []string{"*"}, "visible characters of ASCII"},
		{"a name of two words", []string{"sa info"}, []string{"*"}, "visible characters of ASCII"},
	} {
		levels := w.handedOn(w.bob)
		levels[0].Privileges, levels[1].Privileges = tt.here, tt.above
		_, err := w.z.Authorize(w.caller(t, w.bob), sfa(pki.Delegated(t, levels...)), "", credentials.RightAllocate, now)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.rule, err, tt.want)
		}
	}
}
