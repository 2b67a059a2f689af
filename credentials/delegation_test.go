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

// TestDelegation holds each clause of the rule for delegated credentials
// against one that breaks it and no other; numbers are those of the
// specification's attacks. An empty want is a neighbour that must be accepted.
func TestDelegation(t *testing.T) {
	w := newWorld(t)
	stranger := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+sa", "rsa5")
	eve := pki.User(t, stranger, "urn:publicid:IDN+example.net+user+eve", "rsa5")
	expired := func(uri, key string) *pki.Entity {
		return pki.Issue(t, w.sa, pki.Subject{URIs: []string{uri}, Key: key, From: now.Add(-2 * time.Hour), To: now.Add(-time.Minute)})
	}
	lab := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org:lab+authority+sa", "rsa5")
	carol := pki.User(t, w.sa, "urn:publicid:IDN+example.org+user+carol", "rsa5")
	sliceAgain := pki.User(t, w.sa, sliceURN, "rsa3")
	operator := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org+authority+ma", "rsa5")
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
		want   string // part of the refusal; empty: accepted
		detail am.Detail
	}{
		{rule: "neighbour: bob's, from alice's", caller: w.bob},
		{rule: "neighbour: the right is bob's and not alice's", caller: w.alice, want: "it belongs to " + bobURN, detail: am.CredentialMismatch},
		{rule: "neighbour: three levels", caller: carol, change: third},
		{rule: "neighbour: a tool's", caller: w.tool, change: func(c chain) chain { c[0].Owner = list{w.tool}; return c }},
		{rule: "neighbour: fewer privileges", caller: w.bob, change: func(c chain) chain { c[0].Privileges = []string{"CONTROL"}; return c }},
		{rule: "neighbour: any privilege from *", caller: w.bob, change: func(c chain) chain { c[1].Privileges = []string{"*"}; return c }},
		{rule: "neighbour: * from *", caller: w.bob, change: func(c chain) chain { c[0].Privileges, c[1].Privileges = []string{"*"}, []string{"*"}; return c }},
		{rule: "neighbour: to be delegated further", caller: w.bob, change: func(c chain) chain { c[0].CanDelegate = "1"; return c }},
		{rule: "neighbour: back to its owner", caller: w.alice, change: func(c chain) chain {
			c[0].CanDelegate = "true"
			outer := w.sliceCredential()
			outer.Signer = list{w.bob, w.sa}
			return slices.Insert(c, 0, outer)
		}},
		{rule: "neighbour: expires with its parent", caller: w.bob, change: func(c chain) chain { c[0].Expires = "2026-11-22T12:00:00Z"; return c }},
		{rule: "neighbour: renewed certificate of the same key", caller: w.bob, change: func(c chain) chain { c[0].Signer = list{pki.User(t, w.sa, aliceURN, "rsa2")}; return c }},
		{rule: "neighbour: five levels", caller: w.alice, change: func(chain) chain { return w.loop(5) }},

		{rule: "19 six levels", caller: w.alice, change: func(chain) chain { return w.loop(6) }, want: "more than 5 credentials inside each other", detail: am.CredentialInvalid},
		{rule: "19 parent not to be delegated", caller: w.bob, change: func(c chain) chain { c[1].CanDelegate = "false"; return c }, want: `the privilege "refresh", which its parent does not let`, detail: am.CredentialUntrusted},
		{rule: "19 middle not to be delegated", caller: carol, change: func(c chain) chain { c = third(c); c[1].CanDelegate = "0"; return c }, want: "does not let " + bobURN, detail: am.CredentialUntrusted},
		{rule: "19 * not to be delegated", caller: w.bob, change: func(c chain) chain {
			c[1].Privileges, c[1].CanDelegate = []string{"*"}, "false"
			return c
		}, want: "which its parent does not let", detail: am.CredentialUntrusted},
		{rule: "19 one privilege more", caller: w.bob, change: func(c chain) chain { c[0].Privileges = append(c[0].Privileges, "sa"); return c }, want: `the privilege "sa"`, detail: am.CredentialUntrusted},
		{rule: "19 widened to *", caller: w.bob, change: func(c chain) chain { c[0].Privileges = []string{"*"}; return c }, want: `the privilege "*"`, detail: am.CredentialUntrusted},
		{rule: "19 widened in the middle", caller: carol, change: func(c chain) chain { c = third(c); c[1].Privileges = []string{"*"}; return c }, want: `its parent: it gives the privilege "*"`, detail: am.CredentialUntrusted},
		{rule: "19 can_delegate one level above", caller: w.bob, change: func(c chain) chain {
			c[1].Privileges, c[0].Privileges = []string{"info"}, []string{"info"}
			c[1].CanDelegate, c[0].CanDelegate = "false", "true"
			return c
		}, want: `the privilege "info"`, detail: am.CredentialUntrusted},
		{rule: "19 another slice", caller: w.bob, change: func(c chain) chain { c[1].Target = list{w.other, w.sa}; return c }, want: "its target is " + sliceURN, detail: am.CredentialMismatch},
		{rule: "19 another certificate of the slice", caller: w.bob, change: func(c chain) chain { c[1].Target = list{sliceAgain, w.sa}; return c }, want: "different certificates", detail: am.CredentialMismatch},
		{rule: "19 a second longer", caller: w.bob, change: func(c chain) chain { c[0].Expires = "2026-11-22T12:00:01Z"; return c }, want: "longer than its parent", detail: am.CredentialUntrusted},
		{rule: "19 signed by its new owner", caller: w.bob, change: func(c chain) chain { c[0].Signer = list{w.bob, w.sa}; return c }, want: "is signed by " + bobURN, detail: am.CredentialUntrusted},
		{rule: "19 signed by the authority", caller: w.bob, change: func(c chain) chain { c[0].Signer = list{w.sa}; return c }, want: "who alone can delegate it", detail: am.CredentialUntrusted},
		{rule: "13 signed by the same name of a sub-authority", caller: w.bob, change: func(c chain) chain { c[0].Signer = list{pki.User(t, lab, labAlice, "rsa2"), lab}; return c }, want: "is signed by " + labAlice, detail: am.CredentialUntrusted},
		{rule: "neighbour: all of it the sub-authority's user", caller: w.bob, change: func(c chain) chain {
			a := pki.User(t, lab, labAlice, "rsa2")
			c[1].Owner, c[0].Signer = list{a, lab}, list{a, lab}
			return c
		}},
		{rule: "19 signed with another key of the owner", caller: w.bob, change: func(c chain) chain { c[0].Signer = list{pki.User(t, w.sa, aliceURN, "rsa5")}; return c }, want: "another key", detail: am.CredentialUntrusted},
		{rule: "19 signed with the owner's key as somebody else", caller: w.bob, change: func(c chain) chain {
			c[0].Signer = list{pki.User(t, w.sa, "urn:publicid:IDN+example.org+user+mallory", "rsa2")}
			return c
		}, want: "is signed by urn:publicid:IDN+example.org+user+mallory", detail: am.CredentialUntrusted},
		{rule: "19 signer's certificate self-made over the owner's key", caller: w.bob, change: func(c chain) chain { c[0].Signer = list{pki.User(t, nil, aliceURN, "rsa2")}; return c }, want: "its signer is not accepted", detail: am.CredentialUntrusted},
		{rule: "19 root signed by a user", caller: w.bob, change: func(c chain) chain { c[1].Signer = list{w.alice, w.sa}; return c }, want: "its parent: it is signed by " + aliceURN + ", which is no authority", detail: am.CredentialUntrusted},
		{rule: "19 root signed by a stranger", caller: w.bob, change: func(c chain) chain { c[1].Signer = list{stranger}; return c }, want: "does not speak for", detail: am.CredentialUntrusted},
		{rule: "19 parent's owner of an unknown authority", caller: w.bob, change: func(c chain) chain {
			c[1].Owner, c[0].Signer = list{eve, stranger}, list{eve, stranger}
			return c
		}, want: "its signer is not accepted", detail: am.CredentialUntrusted},
		{rule: "19 parent belongs to a slice", caller: w.bob, change: func(c chain) chain {
			c[1].Owner, c[0].Signer = list{w.slice}, list{w.slice, w.sa}
			return c
		}, want: "only users and tools", detail: am.CredentialUntrusted},
		{rule: "19 parent belongs to an authority", caller: w.bob, change: func(c chain) chain {
			c[1].Owner, c[0].Signer = list{operator}, list{operator, w.sa}
			return c
		}, want: "only users and tools", detail: am.CredentialUntrusted},
		{rule: "19 parent of another type", caller: w.bob, change: func(c chain) chain { c[1].Type = "capability"; return c }, want: `its parent: credentials of the type "capability"`, detail: am.CredentialInvalid},
		{rule: "19 a speaks-for credential as parent", caller: w.bob, change: func(c chain) chain { c[1].Type = "speaksfor"; return c }, want: "of the type privilege, but its parent of the type speaksfor", detail: am.CredentialInvalid},
		{rule: "19 speaks-for with a parent", caller: w.bob, change: func(c chain) chain { c[0].Type = "speaksfor"; return c }, want: "only privileges can be delegated", detail: am.CredentialInvalid},
		{rule: "17 parent's owner_urn of another", caller: w.bob, change: func(c chain) chain { c[1].OwnerURN = bobURN; return c }, want: "its parent: its owner_urn", detail: am.CredentialMismatch},
		{rule: "14 parent's owner expired, child signed with the renewed one", caller: w.bob, change: func(c chain) chain { c[1].Owner = list{expired(aliceURN, "rsa2")}; return c }, want: "its parent: its owner", detail: am.CredentialExpired},
		{rule: "14 delegating signer expired", caller: w.bob, change: func(c chain) chain { c[0].Signer = list{expired(aliceURN, "rsa2")}; return c }, want: "its signer", detail: am.CredentialExpired},
		{rule: "14 new owner expired", caller: w.bob, change: func(c chain) chain { c[0].Owner = list{expired(bobURN, "rsa4")}; return c }, want: "its owner", detail: am.CredentialExpired},
		{rule: "15 parent expired", caller: w.bob, change: func(c chain) chain {
			c[1].Expires, c[0].Expires = "2026-11-21T11:00:00Z", "2026-11-21T11:00:00Z"
			return c
		}, want: "expired 2026-11-21T11:00:00Z; have it delegated again", detail: am.CredentialExpired},
		{rule: "15 only the parent expired", caller: w.bob, change: func(c chain) chain { c[1].Expires = "2026-11-21T11:00:00Z"; return c }, want: "its parent: expired 2026-11-21T11:00:00Z; get a fresh one from its authority", detail: am.CredentialExpired},
		{rule: "24 element in the parent's name", caller: w.bob, change: func(c chain) chain {
			c[0].Edit = func(doc string) string {
				return replace(t, doc, "+user+alice</owner_urn>", "+user+al<b/>ice</owner_urn>")
			}
			return c
		}, want: "its parent: its owner_urn may hold only text", detail: am.CredentialInvalid},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			levels := w.handedOn(w.bob)
			if tt.change != nil {
				levels = tt.change(levels)
			}
			doc := pki.Delegated(t, levels...)
			for range 2 { // new, and remembered
				g, err := w.z.Authorize(w.caller(t, tt.caller), sfa(doc), "", credentials.RightAllocate, now)
				if tt.want != "" {
					if err == nil || detail(t, err) != tt.detail || !strings.Contains(err.Error(), tt.want) {
						t.Fatalf("%v; want %q", err, tt.want)
					}
					continue
				}
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
