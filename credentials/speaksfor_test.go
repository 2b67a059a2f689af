package credentials_test

import (
	"crypto/x509/pkix"
	"errors"
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

// speaksFor is alice's word that the tool may act for her, in ABAC.
func (w *world) speaksFor() pki.SpeaksFor {
	return pki.SpeaksFor{Signer: []*pki.Entity{w.alice, w.sa}, Tool: w.tool}
}

// oldSpeaksFor is the same in Emulab's older form.
func (w *world) oldSpeaksFor() pki.Credential {
	return pki.Credential{
		Type: "speaksfor", Owner: []*pki.Entity{w.tool, w.sa}, Target: []*pki.Entity{w.alice, w.sa}, Signer: []*pki.Entity{w.alice, w.sa},
		Privileges: []string{"*"},
	}
}

// speak authorizes a caller that speaks for a user.
func (w *world) speak(t testing.TB, caller *pki.Entity, option string, docs ...string) (credentials.Grant, error) {
	t.Helper()
	return w.z.Authorize(w.caller(t, caller), sfa(docs...), option, credentials.RightAllocate, now)
}

// TestSpeaksFor are ways to give one's word in ABAC; what must not be done is among
// the attacks.
func TestSpeaksFor(t *testing.T) {
	w := newWorld(t)
	slice := w.sliceCredential().Signed(t)
	sameKey := pki.User(t, w.sa, "urn:publicid:IDN+example.org+tool+third", "rsa6")
	claims := pki.Issue(t, w.sa, pki.Subject{URIs: []string{aliceURN}, Key: "rsa5", Extra: []pkix.Extension{pki.ClaimKey(t, w.bob)}})
	type change = func(s *pki.SpeaksFor)
	edit := func(old, by string) change {
		return func(s *pki.SpeaksFor) {
			s.Edit = func(doc string) string { return replace(t, doc, old, by) }
		}
	}
	for _, tt := range []struct {
		rule   string
		change change
		caller *pki.Entity // the tool unless given
		option string      // alice unless given
	}{
		{rule: "alice lets the tool speak"},
		{rule: "option in another case", option: strings.Replace(aliceURN, "alice", "ALICE", 1)},
		{rule: "to an authority", change: func(s *pki.SpeaksFor) { s.Tool = w.sa }, caller: w.sa},
		{rule: "no mnemonic", change: edit("<mnemonic>tool</mnemonic>", "")},
		{rule: "key ids in upper case", change: func(s *pki.SpeaksFor) {
			s.Head, s.Role = strings.ToUpper(pki.KeyID(t, w.alice)), "speaks_for_"+strings.ToUpper(pki.KeyID(t, w.alice))
		}},
		{rule: "without empty elements", change: edit("<serial/><owner_gid/><target_gid/><uuid/>", "")},
		{rule: "the tool's certificate was renewed", caller: sameKey},
		{rule: "a certificate that claims another key, named by its own", change: func(s *pki.SpeaksFor) { s.Signer = []*pki.Entity{claims, w.sa} }},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s := w.speaksFor()
			if tt.change != nil {
				tt.change(&s)
			}
			caller, option := tt.caller, tt.option
			if caller == nil {
				caller = w.tool
			}
			if option == "" {
				option = aliceURN
			}
			doc := s.Signed(t)
			for range 2 { // new, and remembered
				g, err := w.speak(t, caller, option, doc, slice)
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				until, err := g.Over(w.slice.URN)
				if err != nil || !until.Equal(now.Add(24*time.Hour)) || g.Caller() != w.alice.URN || g.Speaker() != caller.URN || len(g.Fingerprints()) != 2 {
					t.Errorf("%s by %s until %v, %v", g.Caller(), g.Speaker(), until, err)
				}
			}
		})
	}
}

// TestOldSpeaksFor is the same for the form that has no ABAC. Whatever it says of
// privileges, it gives none.
func TestOldSpeaksFor(t *testing.T) {
	w := newWorld(t)
	slice := w.sliceCredential().Signed(t)
	for _, privileges := range [][]string{{"*"}, nil} {
		c := w.oldSpeaksFor()
		c.Privileges = privileges
		doc := c.Signed(t)
		for range 2 { // new, and remembered
			g, err := w.speak(t, w.tool, aliceURN, doc, slice)
			if err != nil || g.Caller() != w.alice.URN || g.Speaker() != w.tool.URN {
				t.Fatalf("%s by %s, %v", g.Caller(), g.Speaker(), err)
			}
		}
		if _, err := w.over(t, credentials.RightStatus, doc); err == nil {
			t.Error("it is taken for a credential of privileges")
		}
	}
	turned := w.oldSpeaksFor()
	turned.Owner, turned.Target = turned.Target, turned.Owner
	if _, err := w.speak(t, w.tool, aliceURN, turned.Signed(t), slice); err == nil {
		t.Error("alice may speak for the tool, and so the tool for alice")
	}
}

// TestWhoeverSpeaks is about the option, and who may use it.
func TestWhoeverSpeaks(t *testing.T) {
	w := newWorld(t)
	slice, abac := w.sliceCredential().Signed(t), w.speaksFor().Signed(t)
	toTool := w.handedOn(w.tool)
	delegated := pki.Delegated(t, toTool...)
	bobs := w.sliceCredential()
	bobs.Owner = []*pki.Entity{w.bob}
	toolOwn := w.sliceCredential()
	toolOwn.Owner = []*pki.Entity{w.tool}
	authorityOwn := w.sliceCredential()
	authorityOwn.Owner = []*pki.Entity{w.sa}
	for _, tt := range []struct {
		rule   string
		caller *pki.Entity
		option string
		docs   []string
		as     string // who then holds the right
		want   string
	}{
		{rule: "option names the caller", caller: w.alice, option: aliceURN, docs: []string{slice}, as: aliceURN},
		{rule: "option names the caller, speaks-for beside", caller: w.alice, option: aliceURN, docs: []string{abac, slice}, as: aliceURN},
		{rule: "speaks-for without the option is passed over", caller: w.alice, docs: []string{abac, slice}, as: aliceURN},
		{rule: "a tool by its own delegated credential", caller: w.tool, docs: []string{delegated}, as: toolURN},
		{rule: "a tool by its own credential", caller: w.tool, docs: []string{toolOwn.Signed(t)}, as: toolURN},
		{rule: "a tool that names itself", caller: w.tool, option: toolURN, docs: []string{delegated}, as: toolURN},
		{rule: "a tool, speaks-for and privileges", caller: w.tool, option: aliceURN, docs: []string{abac, slice}, as: aliceURN},
		{rule: "a tool, privileges first", caller: w.tool, option: aliceURN, docs: []string{slice, abac}, as: aliceURN},

		{rule: "a tool without the option", caller: w.tool, docs: []string{abac, slice}, want: "have it delegated to the tool, or name a user in geni_speaking_for"},
		{rule: "a tool without speaks-for", caller: w.tool, option: aliceURN, docs: []string{slice}, want: "no good speaks-for credential of that user"},
		{rule: "a tool with speaks-for alone", caller: w.tool, option: aliceURN, docs: []string{abac}, want: "present that user's credential too"},
		{rule: "a tool with speaks-for alone and no option", caller: w.tool, docs: []string{abac}, want: "the option geni_speaking_for does not name that user"},
		{rule: "the tool's own credential while it speaks for a user", caller: w.tool, option: aliceURN, docs: []string{abac, delegated}, want: "it belongs to " + toolURN + ", but geni_speaking_for names " + aliceURN},
		{rule: "a third one's credential", caller: w.tool, option: aliceURN, docs: []string{abac, bobs.Signed(t)}, want: "it belongs to " + bobURN},
		{rule: "an authority by itself", caller: w.sa, docs: []string{authorityOwn.Signed(t)}, want: "no rights of its own"},
		{rule: "an authority that names itself", caller: w.sa, option: saURN, docs: []string{authorityOwn.Signed(t)}, want: "no rights of its own"},
		{rule: "a user for another", caller: w.bob, option: aliceURN, docs: []string{abac, slice}, want: "is neither a tool nor an authority"},
		{rule: "no credential at all", caller: w.tool, option: aliceURN, want: "no credential was presented"},
	} {
		g, err := w.speak(t, tt.caller, tt.option, tt.docs...)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v; want %q", tt.rule, err, tt.want)
			}
			continue
		}
		if err != nil || g.Caller().String() != tt.as {
			t.Errorf("%s: as %s, %v", tt.rule, g.Caller(), err)
			continue
		}
		if speaks := g.Speaker() == w.tool.URN; speaks != (tt.as == aliceURN && tt.caller == w.tool) {
			t.Errorf("%s: %s speaks", tt.rule, g.Speaker())
		}
	}
}

// TestOperatorListsSpeakers is the list that narrows, or for users widens, who
// may speak.
func TestOperatorListsSpeakers(t *testing.T) {
	w := newWorld(t)
	slice := w.sliceCredential().Signed(t)
	to := func(e *pki.Entity) string {
		s := w.speaksFor()
		s.Tool = e
		return s.Signed(t)
	}
	listed := "is not among those"
	for _, tt := range []struct {
		speakers []string
		caller   *pki.Entity
		want     string
	}{
		{nil, w.tool, ""},
		{nil, w.sa, ""},
		{nil, w.bob, "neither a tool nor an authority"},
		{[]string{toolURN}, w.tool, ""},
		{[]string{"URN:publicid:IDN+EXAMPLE.org+tool+portal"}, w.tool, ""},
		{[]string{toolURN}, w.sa, listed},
		{[]string{toolURN}, w.bob, listed},
		{[]string{toolURN, bobURN}, w.bob, ""},
		{[]string{"junk"}, w.tool, listed},
	} {
		w.z = credentials.New(pki.Anchors(w.sa), credentials.Config{Speakers: tt.speakers})
		_, err := w.speak(t, tt.caller, aliceURN, to(tt.caller), slice)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v, %s calls: %v; want %q", tt.speakers, tt.caller.URN, err, tt.want)
		}
	}
	for name, good := range map[string]bool{toolURN: true, saURN: true, bobURN: true, sliceURN: false, "portal": false, "": false} {
		if err := (credentials.Config{Speakers: []string{name}}).Validate(); (err == nil) != good {
			t.Errorf("%q as speaker: %v", name, err)
		}
	}
}

// TestSignedTypeDecidesAndNotTheLabel gives every credential every label that
// clients write, right or wrong, and one that nobody writes.
func TestSignedTypeDecidesAndNotTheLabel(t *testing.T) {
	w := newWorld(t)
	slice := sfa(w.sliceCredential().Signed(t))[0]
	for _, tt := range []struct {
		form   string
		caller *pki.Entity
		option string
		doc    string
	}{
		{"delegated", w.bob, "", pki.Delegated(t, w.handedOn(w.bob)...)},
		{"abac", w.tool, aliceURN, w.speaksFor().Signed(t)},
		{"speaksfor", w.tool, aliceURN, w.oldSpeaksFor().Signed(t)},
	} {
		for label, want := range map[[2]string]bool{
			{"geni_sfa", "3"}: true, {"geni_sfa", "2"}: true, {"SFA", ""}: true, {"", ""}: true, {"geni_abac", "1"}: true, {"Geni_ABAC", "1"}: true,
			{"abac", "1"}: true, {"speaksfor", "1"}: true, {"geni_unknown", "0"}: true, {"GENI_UNKNOWN", "0"}: true,
			{"geni_foo", "3"}: false, {"geni_abacBROKEN", "1"}: false, {"geni_unknownBROKEN", "0"}: false, {"geni_sfa", "4"}: false, {"geni_sfa", "03"}: false,
		} {
			p := []credentials.Presented{{Type: label[0], Version: label[1], Text: tt.doc}, slice}
			_, err := w.z.Authorize(w.caller(t, tt.caller), p, tt.option, credentials.RightAllocate, now)
			if (err == nil) != want {
				t.Errorf("%s labelled %q: %v, want success %v", tt.form, label, err, want)
			}
			if err != nil && !strings.Contains(err.Error(), "credential 1: ") {
				t.Errorf("%s labelled %q: no reason given: %v", tt.form, label, err)
			}
		}
	}
}

// TestSpeaksForInAnyPlace is the iteration: junk, expired and foreign
// credentials before, between and after; the first good one is taken.
func TestSpeaksForInAnyPlace(t *testing.T) {
	w := newWorld(t)
	slice, good := w.sliceCredential().Signed(t), w.speaksFor().Signed(t)
	stale, bobs, friend := w.speaksFor(), w.speaksFor(), w.speaksFor()
	stale.Expires, bobs.Signer, friend.Role = "2026-11-21T11:00:00Z", []*pki.Entity{w.bob, w.sa}, "friend"
	expired := w.sliceCredential()
	expired.Expires = "2026-11-21T11:00:00Z"
	bad := []string{"junk", stale.Signed(t), bobs.Signed(t), friend.Signed(t), expired.Signed(t)}
	for i := range 6 {
		docs := slices.Insert(slices.Clone(bad), i%6, good)
		docs = slices.Insert(docs, (i*5)%7, slice)
		g, err := w.speak(t, w.tool, aliceURN, docs...)
		if err != nil || g.Caller() != w.alice.URN {
			t.Errorf("%d: %v", i, err)
		}
	}
	_, err := w.speak(t, w.tool, aliceURN, append(bad, slice)...)
	e, ok := errors.AsType[*credentials.DeniedError](err)
	if !ok {
		t.Fatal(err)
	}
	var numbers []int
	for _, r := range e.Reasons {
		numbers = append(numbers, r.Credential)
	}
	if !slices.Equal(numbers, []int{0, 1, 2, 3, 4, 5}) || !strings.Contains(err.Error(), "credential 3: it lets a tool speak for "+bobURN) {
		t.Errorf("reasons for %v: %v", numbers, err)
	}
	// The good speaks-for credential needs no reason, all others get one.
	_, err = w.speak(t, w.tool, aliceURN, append(bad, good)...)
	if e, ok = errors.AsType[*credentials.DeniedError](err); !ok || len(e.Reasons) != 4 {
		t.Errorf("%v", err)
	}
}

// TestSpokenRightEndsFirst shortens everything that bounds a spoken right.
func TestSpokenRightEndsFirst(t *testing.T) {
	w := newWorld(t)
	soon := now.Add(2 * time.Hour)
	short := func(uri, key string) *pki.Entity {
		return pki.Issue(t, w.sa, pki.Subject{URIs: []string{uri}, Key: key, To: soon})
	}
	for part, change := range map[string]func(s *pki.SpeaksFor, old, c *pki.Credential, caller **pki.Entity){
		"speaks-for credential": func(s *pki.SpeaksFor, old, _ *pki.Credential, _ **pki.Entity) {
			s.Expires, old.Expires = "2026-11-21T14:00:00Z", "2026-11-21T14:00:00Z"
		},
		"its signer": func(s *pki.SpeaksFor, old, _ *pki.Credential, _ **pki.Entity) {
			a := []*pki.Entity{short(aliceURN, "rsa2"), w.sa}
			s.Signer, old.Signer = a, a
		},
		"the tool": func(_ *pki.SpeaksFor, _, _ *pki.Credential, caller **pki.Entity) {
			*caller = short(toolURN, "rsa6")
		},
		"the slice credential": func(_ *pki.SpeaksFor, _, c *pki.Credential, _ **pki.Entity) { c.Expires = "2026-11-21T14:00:00Z" },
	} {
		s, old, c, caller := w.speaksFor(), w.oldSpeaksFor(), w.sliceCredential(), w.tool
		change(&s, &old, &c, &caller)
		for form, doc := range map[string]string{"abac": s.Signed(t), "old": old.Signed(t)} {
			docs := sfa(doc, c.Signed(t))
			for range 2 {
				g, err := w.z.Authorize(w.caller(t, caller), docs, aliceURN, credentials.RightAllocate, now)
				if err != nil {
					t.Fatalf("%s, %s: %v", part, form, err)
				}
				if until, err := g.Over(w.slice.URN); err != nil || !until.Equal(soon) {
					t.Errorf("%s, %s ends %v, but the right %v, %v", part, form, soon, until, err)
				}
			}
			if _, err := w.z.Authorize(w.caller(t, caller), docs, aliceURN, credentials.RightAllocate, soon.Add(time.Second)); detail(t, err) != am.CredentialExpired {
				t.Errorf("%s, %s, remembered and expired: %v", part, form, err)
			}
		}
	}
}

// TestRememberedSpeaksForIsForOneToolOnly shows the same bytes after they were
// remembered: by another tool, for another user, without the option, and under
// other anchors.
func TestRememberedSpeaksForIsForOneToolOnly(t *testing.T) {
	w := newWorld(t)
	docs := []string{w.speaksFor().Signed(t), w.sliceCredential().Signed(t)}
	second := pki.User(t, w.sa, "urn:publicid:IDN+example.org+tool+second", "rsa5")
	for range 2 {
		if _, err := w.speak(t, w.tool, aliceURN, docs...); err != nil {
			t.Fatal(err)
		}
		for rule, err := range map[string]error{
			"another tool":            func() error { _, err := w.speak(t, second, aliceURN, docs...); return err }(),
			"another user":            func() error { _, err := w.speak(t, w.tool, bobURN, docs...); return err }(),
			"no option":               func() error { _, err := w.speak(t, w.tool, "", docs...); return err }(),
			"an authority":            func() error { _, err := w.speak(t, w.sa, aliceURN, docs...); return err }(),
			"another user's own call": func() error { _, err := w.speak(t, w.bob, "", docs...); return err }(),
		} {
			if err == nil {
				t.Errorf("%s: granted", rule)
			}
		}
	}
	caller := w.caller(t, w.tool)
	w.z.SetAnchors(pki.Anchors(pki.Authority(t, nil, saURN, "rsa5")))
	if _, err := w.z.Authorize(caller, sfa(docs...), aliceURN, credentials.RightAllocate, now); err == nil {
		t.Error("granted after the anchor went")
	}
}

// TestUsersIssuerMayComeWithSpeaksFor has a tool call whose slice credential
// holds only the user's own certificate: what lies above came with the
// signature of the speaks-for credential, in whatever order.
func TestUsersIssuerMayComeWithSpeaksFor(t *testing.T) {
	w := newDeepWorld(t)
	tool := pki.User(t, w.ma, toolURN, "rsa4")
	slice := pki.Credential{Owner: []*pki.Entity{w.alice}, Target: []*pki.Entity{w.slice, w.sa}, Signer: []*pki.Entity{w.sa}, Privileges: []string{"*"}}.Signed(t)
	abac := pki.SpeaksFor{Signer: []*pki.Entity{w.alice, w.ma}, Tool: tool}.Signed(t)
	other := pki.User(t, w.sa, toolURN, "rsa4")
	for _, docs := range [][]string{{abac, slice}, {slice, abac}} {
		w.z = credentials.New(pki.Anchors(w.root), credentials.Config{}) // that remembers nothing
		g, err := w.z.Authorize(w.z.Identify(pki.Raw(other, w.sa), now), sfa(docs...), aliceURN, credentials.RightAllocate, now)
		if err != nil || g.Caller() != w.alice.URN {
			t.Errorf("%v", err)
		}
	}
}

func TestSHA1SpeaksForNeedsTheSwitch(t *testing.T) {
	w := newWorld(t)
	s := w.speaksFor()
	s.SHA1 = true
	docs := []string{s.Signed(t), w.sliceCredential().Signed(t)}
	if _, err := w.speak(t, w.tool, aliceURN, docs...); err == nil {
		t.Error("accepted without the switch")
	}
	w.z = credentials.New(pki.Anchors(w.sa), credentials.Config{SHA1Signatures: true})
	if g, err := w.speak(t, w.tool, aliceURN, docs...); err != nil || !g.SHA1() {
		t.Errorf("%v, SHA-1 seen %v", err, g.SHA1())
	}
}

func BenchmarkAuthorizeSpeaksFor(b *testing.B) {
	w := newWorld(b)
	caller := w.caller(b, w.tool)
	docs := sfa(w.speaksFor().Signed(b), w.sliceCredential().Signed(b))
	run := func() {
		if _, err := w.z.Authorize(caller, docs, aliceURN, credentials.RightAllocate, now); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("new", func(b *testing.B) {
		two := []*cert.Anchors{pki.Anchors(w.sa), pki.Anchors(w.sa, w.bob)}
		for i := 0; b.Loop(); i++ {
			w.z.SetAnchors(cert.NewAnchors(two[i%2].List()...))
			run()
		}
	})
	b.Run("remembered", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			run()
		}
	})
	b.Run("users known, documents new", func(b *testing.B) {
		var list [][]credentials.Presented
		for i := range 32 {
			s, c := w.speaksFor(), w.sliceCredential()
			s.Expires = fmt.Sprintf("2026-11-22T11:00:%02dZ", i)
			c.Expires = s.Expires
			list = append(list, sfa(s.Signed(b), c.Signed(b)))
		}
		z := credentials.New(pki.Anchors(w.sa), credentials.Config{CacheSize: 1})
		for i := 0; b.Loop(); i++ {
			if _, err := z.Authorize(caller, list[i%32], aliceURN, credentials.RightAllocate, now); err != nil {
				b.Fatal(err)
			}
		}
	})
}
