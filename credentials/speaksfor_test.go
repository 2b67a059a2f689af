package credentials_test

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
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

func sayDenied(t *testing.T, rule string, err error, detailWant am.Detail, want string) {
	t.Helper()
	if err == nil || detail(t, err) != detailWant || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v; want %q with the detail %d", rule, err, want, detailWant)
	}
}

// TestSpeaksFor holds each condition of speaks-for against a credential that
// breaks it and no other (#29, #30).
func TestSpeaksFor(t *testing.T) {
	w := newWorld(t)
	slice := w.sliceCredential().Signed(t)
	stranger := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+sa", "rsa5")
	second := pki.User(t, w.sa, "urn:publicid:IDN+example.org+tool+second", "rsa5")
	sameName := pki.User(t, w.sa, toolURN, "rsa5")
	sameKey := pki.User(t, w.sa, "urn:publicid:IDN+example.org+tool+third", "rsa6")
	principal := func(e *pki.Entity, more string) string {
		return "<ABACprincipal><keyid>" + pki.KeyID(t, e) + "</keyid></ABACprincipal>" + more
	}
	// Whoever makes a certificate chooses what it says of its own key.
	forged := func(uri, key string, victim *pki.Entity) *pki.Entity {
		id, err := hex.DecodeString(pki.KeyID(t, victim))
		if err != nil {
			t.Fatal(err)
		}
		value, err := asn1.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		return pki.Issue(t, w.sa, pki.Subject{URIs: []string{uri}, Key: key, Extra: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 14}, Value: value}}})
	}
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
		want   string      // part of the refusal; empty: accepted
		detail am.Detail
	}{
		{rule: "neighbour: alice lets the tool speak"},
		{rule: "neighbour: option in another case", option: strings.Replace(aliceURN, "alice", "ALICE", 1)},
		{rule: "neighbour: to an authority", change: func(s *pki.SpeaksFor) { s.Tool = w.sa }, caller: w.sa},
		{rule: "neighbour: no mnemonic", change: edit("<mnemonic>tool</mnemonic>", "")},
		{rule: "neighbour: key ids in upper case", change: func(s *pki.SpeaksFor) {
			s.Head, s.Role = strings.ToUpper(pki.KeyID(t, w.alice)), "speaks_for_"+strings.ToUpper(pki.KeyID(t, w.alice))
		}},
		{rule: "neighbour: without empty elements", change: edit("<serial/><owner_gid/><target_gid/><uuid/>", "")},
		{rule: "neighbour: the tool's certificate was renewed", caller: sameKey},

		{rule: "29 other tool's tail", caller: second, want: "is calling with the key", detail: am.CredentialMismatch},
		{rule: "29 copied to a tool of the same name and another key", caller: sameName, want: "is calling with the key", detail: am.CredentialMismatch},
		{rule: "29 other user's head", change: func(s *pki.SpeaksFor) { s.Head = pki.KeyID(t, w.bob) }, want: "the head of its ABAC rule", detail: am.CredentialUntrusted},
		{rule: "29 other user's head and role", change: func(s *pki.SpeaksFor) {
			s.Head, s.Role = pki.KeyID(t, w.bob), "speaks_for_"+pki.KeyID(t, w.bob)
		}, option: bobURN, want: "the head of its ABAC rule", detail: am.CredentialUntrusted},
		{rule: "29 role of other id", change: func(s *pki.SpeaksFor) { s.Role = "speaks_for_" + pki.KeyID(t, w.bob) }, want: "its signer can only give the role speaks_for_", detail: am.CredentialUntrusted},
		{rule: "29 role of no id", change: func(s *pki.SpeaksFor) { s.Role = "speaks_for_alice" }, want: "its signer can only give", detail: am.CredentialUntrusted},
		{rule: "29 role in another case", change: func(s *pki.SpeaksFor) { s.Role = "Speaks_For_" + pki.KeyID(t, w.alice) }, want: "of ABAC only speaks-for", detail: am.CredentialInvalid},
		{rule: "29 two tails", change: edit("</tail>", "</tail><tail>"+principal(second, "")+"</tail>"), want: "names 2 tails", detail: am.CredentialInvalid},
		{rule: "29 two heads", change: edit("<tail>", "<head>"+principal(w.bob, "<role>r</role>")+"</head><tail>"), want: "2 <head>", detail: am.CredentialInvalid},
		{rule: "29 no tail", change: func(s *pki.SpeaksFor) {
			s.Edit = func(doc string) string { return replace(t, doc, between(doc, "<tail>", "</tail>"), "") }
		}, want: "no tail", detail: am.CredentialInvalid},
		{rule: "29 tail with a role", change: func(s *pki.SpeaksFor) { s.Tail = principal(w.tool, "<role>friend</role>") }, want: `a role speak ("friend")`, detail: am.CredentialInvalid},
		{rule: "29 tail with a linking role", change: func(s *pki.SpeaksFor) {
			s.Tail = principal(w.tool, "<role>friend</role><linking_role>of</linking_role>")
		}, want: `a role speak ("friend")`, detail: am.CredentialInvalid},
		{rule: "29 expired", change: func(s *pki.SpeaksFor) { s.Expires = "2026-11-21T12:00:00Z" }, want: "credential 1: expired 2026-11-21T12:00:00Z; have the user sign a fresh one", detail: am.CredentialExpired},
		{rule: "29 signed by the tool", change: func(s *pki.SpeaksFor) { s.Signer = []*pki.Entity{w.tool, w.sa} }, want: "which is no user", detail: am.CredentialUntrusted},
		{rule: "29 signed by the tool in the user's name", change: func(s *pki.SpeaksFor) {
			s.Signer, s.Head, s.Role = []*pki.Entity{w.tool, w.sa}, pki.KeyID(t, w.alice), "speaks_for_"+pki.KeyID(t, w.alice)
		}, want: "the head of its ABAC rule", detail: am.CredentialUntrusted},
		{rule: "29 signed by the authority", change: func(s *pki.SpeaksFor) { s.Signer = []*pki.Entity{w.sa} }, want: "which is no user", detail: am.CredentialUntrusted},
		{rule: "29 signed by another user", change: func(s *pki.SpeaksFor) { s.Signer = []*pki.Entity{w.bob, w.sa} }, want: "it lets a tool speak for " + bobURN, detail: am.CredentialMismatch},
		{rule: "29 signed with a self-made certificate of the user", change: func(s *pki.SpeaksFor) { s.Signer = []*pki.Entity{pki.User(t, nil, aliceURN, "rsa5")} }, want: "its signer is not accepted", detail: am.CredentialUntrusted},
		{rule: "29 signed by a stranger's alice", change: func(s *pki.SpeaksFor) { s.Signer = []*pki.Entity{pki.User(t, stranger, aliceURN, "rsa5"), stranger} }, want: "its signer is not accepted", detail: am.CredentialUntrusted},
		{rule: "29 signer expired", change: func(s *pki.SpeaksFor) {
			s.Signer = []*pki.Entity{pki.Issue(t, w.sa, pki.Subject{URIs: []string{aliceURN}, Key: "rsa2", From: now.Add(-2 * time.Hour), To: now.Add(-time.Minute)}), w.sa}
		}, want: "its signer is not accepted", detail: am.CredentialExpired},
		{rule: "29 option of a third user", option: "urn:publicid:IDN+example.org+user+carol", want: "but geni_speaking_for names urn:publicid:IDN+example.org+user+carol", detail: am.CredentialMismatch},
		{rule: "13 option of the same name in a sub-authority", option: labAlice, want: "but geni_speaking_for names " + labAlice, detail: am.CredentialMismatch},
		{rule: "29 option is no user", option: sliceURN, want: "no URN of a user", detail: am.CredentialMismatch},
		{rule: "29 option is no URN", option: "alice", want: "no URN of a user", detail: am.CredentialMismatch},
		{rule: "29 option with a blank", option: aliceURN + " ", want: "no URN of a user", detail: am.CredentialMismatch},
		{rule: "29 used by a user", caller: w.bob, change: func(s *pki.SpeaksFor) { s.Tool = w.bob }, want: "is neither a tool nor an authority", detail: am.CredentialMismatch},

		{rule: "30 the tool's certificate claims the key of the tail", caller: forged("urn:publicid:IDN+example.org+tool+evil", "rsa5", w.tool), want: "is calling with the key", detail: am.CredentialMismatch},
		{rule: "30 the signer's certificate claims the user's key", change: func(s *pki.SpeaksFor) {
			s.Signer = []*pki.Entity{forged(aliceURN, "rsa5", w.alice), w.sa}
			s.Head, s.Role = pki.KeyID(t, w.alice), "speaks_for_"+pki.KeyID(t, w.alice)
		}, want: "the head of its ABAC rule", detail: am.CredentialUntrusted},
		{rule: "neighbour: a certificate that claims another key, named by its own", change: func(s *pki.SpeaksFor) { s.Signer = []*pki.Entity{forged(aliceURN, "rsa5", w.bob), w.sa} }},

		{rule: "another role", change: func(s *pki.SpeaksFor) { s.Role = "friend" }, want: `about the role "friend"; of ABAC only speaks-for`, detail: am.CredentialInvalid},
		{rule: "no role", change: func(s *pki.SpeaksFor) {
			s.Edit = func(doc string) string { return replace(t, doc, between(doc, "<role>", "</role>"), "") }
		}, want: "head of its ABAC rule has no role", detail: am.CredentialInvalid},
		{rule: "version 1.0", change: edit("<version>1.1", "<version>1.0"), want: `version "1.0"`, detail: am.CredentialInvalid},
		{rule: "no rule", change: func(s *pki.SpeaksFor) {
			s.Edit = func(doc string) string { return replace(t, doc, between(doc, "<abac>", "</abac>"), "") }
		}, want: "holds no <abac>", detail: am.CredentialInvalid},
		{rule: "two rules", change: edit("</abac>", "</abac><abac/>"), want: "<abac> more than once", detail: am.CredentialInvalid},
		{rule: "rule in a foreign namespace", change: edit("<abac>", `<abac xmlns="urn:x">`), want: "foreign namespace", detail: am.CredentialInvalid},
		{rule: "head in a foreign namespace", change: edit("<head>", `<head xmlns="urn:x">`), want: "where it cannot stand", detail: am.CredentialInvalid},
		{rule: "key id cut short", change: edit("</keyid>", "0</keyid>"), want: "40 hexadecimal digits", detail: am.CredentialInvalid},
		{rule: "key id of other letters", change: func(s *pki.SpeaksFor) { s.Head = strings.Repeat("g", 40) }, want: "40 hexadecimal digits", detail: am.CredentialInvalid},
		{rule: "24 comment in a key id, signed with it", change: edit("</keyid>", "<!-- x --></keyid>"), want: "comment", detail: am.CredentialInvalid},
		{rule: "24 text beside a principal", change: edit("<head>", "<head>x"), want: "text between the elements of <head>", detail: am.CredentialInvalid},
		{rule: "of the type privilege", change: edit("<type>abac", "<type>privilege"), want: "owner_gid cannot be read", detail: am.CredentialInvalid},
		{rule: "of the type speaksfor", change: edit("<type>abac", "<type>speaksfor"), want: "could be read in two ways", detail: am.CredentialInvalid},
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
				if tt.want != "" {
					sayDenied(t, tt.rule, err, tt.detail, tt.want)
					continue
				}
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

// TestOldSpeaksFor is the same for the form that has no ABAC.
func TestOldSpeaksFor(t *testing.T) {
	w := newWorld(t)
	slice := w.sliceCredential().Signed(t)
	second := pki.User(t, w.sa, "urn:publicid:IDN+example.org+tool+second", "rsa5")
	type list = []*pki.Entity
	for _, tt := range []struct {
		rule   string
		change func(c *pki.Credential)
		caller *pki.Entity
		option string
		want   string
		detail am.Detail
	}{
		{rule: "neighbour: alice lets the tool speak"},
		{rule: "neighbour: without privileges", change: func(c *pki.Credential) { c.Privileges = nil }},
		{rule: "29 copied between tools", caller: second, want: "is calling with the key", detail: am.CredentialMismatch},
		{rule: "29 a tool of the same name and another key", caller: pki.User(t, w.sa, toolURN, "rsa5"), want: "is calling with the key", detail: am.CredentialMismatch},
		{rule: "29 a tool of the same key and another name", caller: pki.User(t, w.sa, "urn:publicid:IDN+example.org+tool+second", "rsa6"), want: "it lets " + toolURN, detail: am.CredentialMismatch},
		{rule: "29 another user", change: func(c *pki.Credential) { c.Target, c.Signer = list{w.bob, w.sa}, list{w.bob, w.sa} }, want: "speak for " + bobURN + ", but", detail: am.CredentialMismatch},
		{rule: "29 signed by the tool", change: func(c *pki.Credential) { c.Signer = list{w.tool, w.sa} }, want: "but is signed by " + toolURN, detail: am.CredentialUntrusted},
		{rule: "29 signed by the authority", change: func(c *pki.Credential) { c.Signer = list{w.sa} }, want: "but is signed by " + saURN, detail: am.CredentialUntrusted},
		{rule: "29 signed by another user", change: func(c *pki.Credential) { c.Signer = list{w.bob, w.sa} }, want: "but is signed by " + bobURN, detail: am.CredentialUntrusted},
		{rule: "29 signed with another key of the user's name", change: func(c *pki.Credential) { c.Signer = list{pki.User(t, w.sa, aliceURN, "rsa5"), w.sa} }, want: "with the key in the target_gid", detail: am.CredentialUntrusted},
		{rule: "29 signed with the user's key in another name", change: func(c *pki.Credential) {
			c.Signer = list{pki.User(t, w.sa, "urn:publicid:IDN+example.org+user+mallory", "rsa2"), w.sa}
		}, want: "but is signed by urn:publicid:IDN+example.org+user+mallory", detail: am.CredentialUntrusted},
		{rule: "29 owner and target changed round", change: func(c *pki.Credential) { c.Owner, c.Target = c.Target, c.Owner }, want: "speak for " + toolURN + ", but is signed by " + aliceURN, detail: am.CredentialUntrusted},
		{rule: "29 target is a slice that signed it", change: func(c *pki.Credential) { c.Target, c.Signer = list{w.slice, w.sa}, list{w.slice, w.sa} }, want: "which is no user", detail: am.CredentialUntrusted},
		{rule: "29 self-made user", change: func(c *pki.Credential) {
			a := pki.User(t, nil, aliceURN, "rsa5")
			c.Target, c.Signer = list{a}, list{a}
		}, want: "its target is not accepted", detail: am.CredentialUntrusted},
		{rule: "29 self-made tool", change: func(c *pki.Credential) { c.Owner = list{pki.User(t, nil, toolURN, "rsa6")} }, want: "its owner is not accepted", detail: am.CredentialUntrusted},
		{rule: "29 owner_urn of another tool", change: func(c *pki.Credential) { c.OwnerURN = second.URN.String() }, want: "its owner_urn", detail: am.CredentialMismatch},
		{rule: "29 expired", change: func(c *pki.Credential) { c.Expires = "2026-11-21T12:00:00Z" }, want: "expired", detail: am.CredentialExpired},
		{rule: "29 option of a third user", option: bobURN, want: "speak for " + aliceURN + ", but geni_speaking_for names " + bobURN, detail: am.CredentialMismatch},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			c := w.oldSpeaksFor()
			if tt.change != nil {
				tt.change(&c)
			}
			caller, option := tt.caller, tt.option
			if caller == nil {
				caller = w.tool
			}
			if option == "" {
				option = aliceURN
			}
			doc := c.Signed(t)
			for range 2 {
				g, err := w.speak(t, caller, option, doc, slice)
				if tt.want != "" {
					sayDenied(t, tt.rule, err, tt.detail, tt.want)
				} else if err != nil || g.Caller() != w.alice.URN || g.Speaker() != w.tool.URN {
					t.Fatalf("%s by %s, %v", g.Caller(), g.Speaker(), err)
				}
			}
			// Whatever it says of privileges, it gives none.
			if _, err := w.over(t, credentials.RightStatus, doc); err == nil {
				t.Error("it is taken for a credential of privileges")
			}
		})
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

// TestSpeaksForSignatures is #2, #3 and #6 for speaks-for.
func TestSpeaksForSignatures(t *testing.T) {
	w := newWorld(t)
	slice, doc := w.sliceCredential().Signed(t), w.speaksFor().Signed(t)
	signature := between(doc, "<Signature ", "</Signature>")
	elsewhere := strings.NewReplacer(`xml:id="Sig_ref0"`, `xml:id="Sig_other"`, `URI="#ref0"`, `URI="#other"`)
	second, old := elsewhere.Replace(signature), w.oldSpeaksFor().Signed(t)
	oldSignature := between(old, "<Signature ", "</Signature>")
	for _, tt := range []struct{ rule, doc, want string }{
		{"neighbour", doc, ""},
		{"no signature", replace(t, doc, signature, ""), "is not signed"},
		{"two signatures", replace(t, doc, signature, signature+second), "must have one signature, but it has 2"},
		{"neighbour in the older form", old, ""},
		{"two signatures in the older form", replace(t, old, oldSignature, oldSignature+elsewhere.Replace(oldSignature)), "must have one signature, but it has 2"},
		{"key of another tool", replace(t, doc, pki.KeyID(t, w.tool), pki.KeyID(t, w.bob)), "changed after it was signed"},
		{"HMAC", replace(t, doc, "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256", "http://www.w3.org/2000/09/xmldsig#hmac-sha1"), "not accepted"},
	} {
		_, err := w.speak(t, w.tool, aliceURN, tt.doc, slice)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v; want %q", tt.rule, err, tt.want)
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
