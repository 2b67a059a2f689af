package credentials_test

import (
	"crypto/x509/pkix"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/credentials"
	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
)

// speaksFor is alice's speaks-for credential for the tool, in ABAC.
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

// TestSpeaksFor checks valid speaks-for credentials in ABAC. The attacks have the invalid ones.
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

// TestCallersWithTheSpeakingForOption has callers with and without the option. The attacks have the callers who are
// refused.
func TestCallersWithTheSpeakingForOption(t *testing.T) {
	w := newWorld(t)
	own := func(e *pki.Entity) string { return w.owned(t, e) }
	slice, abac, delegated := own(w.alice), w.speaksFor().Signed(t), pki.Delegated(t, w.handedOn(w.tool)...)
	for _, tt := range []struct {
		rule   string
		caller *pki.Entity
		option string
		docs   []string
		as     string // the user with the right; "" for none
	}{
		{"option names the caller", w.alice, aliceURN, []string{slice}, aliceURN},
		{"option names the caller, speaks-for beside", w.alice, aliceURN, []string{abac, slice}, aliceURN},
		{"speaks-for without the option is passed over", w.alice, "", []string{abac, slice}, aliceURN},
		{"a tool by its own delegated credential", w.tool, "", []string{delegated}, toolURN},
		{"a tool by its own credential", w.tool, "", []string{own(w.tool)}, toolURN},
		{"a tool that names itself", w.tool, toolURN, []string{delegated}, toolURN},
		{"a tool, privileges first", w.tool, aliceURN, []string{slice, abac}, aliceURN},
		{"an authority that names itself", w.sa, saURN, []string{own(w.sa)}, ""},
		{"no credential at all", w.tool, aliceURN, nil, ""},
	} {
		g, err := w.speak(t, tt.caller, tt.option, tt.docs...)
		if (err == nil) != (tt.as != "") || err == nil && g.Caller().String() != tt.as {
			t.Errorf("%s: as %s, %v", tt.rule, g.Caller(), err)
		}
		if speaks := g.Speaker() == w.tool.URN; speaks != (tt.as == aliceURN && tt.caller == w.tool) {
			t.Errorf("%s: %s speaks", tt.rule, g.Speaker())
		}
	}
}

// TestOperatorListsSpeakers checks the operator's list, which restricts the tools that may speak,
// or permits users to speak.
func TestOperatorListsSpeakers(t *testing.T) {
	w := newWorld(t)
	slice := w.sliceCredential().Signed(t)
	to := func(e *pki.Entity) string {
		s := w.speaksFor()
		s.Tool = e
		return s.Signed(t)
	}
	listed := "is not listed as a speaker"
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

// TestSignedTypeDecidesAndNotTheLabel gives every credential every label that clients write, right
// or wrong, and an unknown one.
func TestSignedTypeDecidesAndNotTheLabel(t *testing.T) {
	w := newWorld(t)
	slice := sfa(w.sliceCredential().Signed(t))[0]
	for _, tt := range []struct {
		form   string
		caller *pki.Entity
		option string
		doc    string
	}{
		{"slice", w.alice, "", slice.Text},
		{"delegated", w.bob, "", pki.Delegated(t, w.handedOn(w.bob)...)},
		{"abac", w.tool, aliceURN, w.speaksFor().Signed(t)},
		{"speaksfor", w.tool, aliceURN, w.oldSpeaksFor().Signed(t)},
	} {
		for label, want := range map[[2]string]bool{
			{"geni_sfa", "3"}: true, {"geni_sfa", "2"}: true, {"SFA", ""}: true, {"sfa", "1"}: true, {"", ""}: true, {"geni_abac", "1"}: true, {"Geni_ABAC", "1"}: true,
			{"abac", "1"}: true, {"speaksfor", "1"}: true, {"geni_unknown", "0"}: true, {"GENI_UNKNOWN", "0"}: true,
			{"geni_foo", "3"}: false, {"geni_abacBROKEN", "1"}: false, {"geni_unknownBROKEN", "0"}: false, {"geni_sfa", "4"}: false, {"geni_sfa", "03"}: false,
			{"x509", ""}: false, {"geni_sfaBROKEN", "3"}: false, {"geni_sfa ", "3"}: false,
		} {
			p := []credentials.Presented{{Type: label[0], Version: label[1], Text: tt.doc}}
			if tt.option != "" {
				p = append(p, slice)
			}
			_, err := w.z.Authorize(w.caller(t, tt.caller), p, tt.option, credentials.RightAllocate, now)
			if (err == nil) != want {
				t.Errorf("%s labelled %q: %v, want success %v", tt.form, label, err, want)
			}
			if err != nil && (detail(t, err) != am.CredentialInvalid && tt.option == "" || !strings.Contains(err.Error(), "credential 1: ")) {
				t.Errorf("%s labelled %q: no reason given: %v", tt.form, label, err)
			}
		}
	}
}

// TestSpeaksForInAnyPlace puts junk, expired and foreign credentials before, between and after
// valid ones. The first valid one is used.
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
	// Every credential except the valid one has a reason in the refusal.
	_, err = w.speak(t, w.tool, aliceURN, append(bad, good)...)
	if e, ok = errors.AsType[*credentials.DeniedError](err); !ok || len(e.Reasons) != 4 {
		t.Errorf("%v", err)
	}
}

// TestUsersIssuerInTheSpeaksForCredential has a tool call with a slice credential that has only the
// user's own certificate. The issuers are in the signature of the speaks-for credential, in any
// order.
func TestUsersIssuerInTheSpeaksForCredential(t *testing.T) {
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

// TestSpeakForReadsFewCredentials shows that the limit of credentials holds without a right, too.
func TestSpeakForReadsFewCredentials(t *testing.T) {
	w := newWorld(t)
	docs := slices.Repeat(sfa("junk"), credentials.MaxCredentials-1)
	docs = append(docs, sfa(w.speaksFor().Signed(t))...)
	if user, err := w.z.SpeakFor(w.caller(t, w.tool), docs, aliceURN, now); err != nil || user != w.alice.URN {
		t.Errorf("%v, %v", user, err)
	}
	_, err := w.z.SpeakFor(w.caller(t, w.tool), append(docs, docs[0]), aliceURN, now)
	if err == nil || !slices.Equal(broken(t, err), []rule.Rule{rule.CredentialCount}) {
		t.Errorf("one more: %v", err)
	}
}
