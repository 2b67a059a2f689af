package credentials_test

import (
	"crypto/x509/pkix"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/credentials"
	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
)

// speaksForAttacks are by tools that no user permits to speak for them.
func speaksForAttacks(t *testing.T, w *world) []attack {
	return slices.Concat(abacAttacks(t, w), oldFormAttacks(t, w), speakerAttacks(t, w))
}

// speaks is a scene in which the tool speaks for alice, with her speaks-for credential and her
// slice credential.
func (w *world) speaks(t *testing.T, word string) scene {
	t.Helper()
	s := shows(word, w.sliceCredential().Signed(t)).calls(w.tool.Raw)
	s.speakingFor = aliceURN
	return s
}

// forUser is the scene with another user in the option.
func (s scene) forUser(name string) scene {
	s.speakingFor = name
	return s
}

// owned is a slice credential of an entity.
func (w *world) owned(t *testing.T, by *pki.Entity) string {
	t.Helper()
	return w.one(t, func(c *pki.Credential) { c.Owner = []*pki.Entity{by} }).documents[0].Text
}

// abacAttacks are attacks on speaks-for credentials in ABAC form.
func abacAttacks(t *testing.T, w *world) []attack {
	second := pki.User(t, w.sa, "urn:publicid:IDN+example.org+tool+second", "rsa5")
	stranger := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+sa", "rsa5")
	claims := func(name, key string, victim *pki.Entity) *pki.Entity {
		return pki.Issue(t, w.sa, pki.Subject{URIs: []string{name}, Key: key, Extra: []pkix.Extension{pki.ClaimKey(t, victim)}})
	}
	principal := func(e *pki.Entity, more string) string {
		return "<ABACprincipal><keyid>" + pki.KeyID(t, e) + "</keyid></ABACprincipal>" + more
	}
	word := func(change func(*pki.SpeaksFor)) scene {
		s := w.speaksFor()
		change(&s)
		return w.speaks(t, s.Signed(t))
	}
	edit := func(old, by string) scene {
		return word(func(s *pki.SpeaksFor) {
			s.Edit = func(doc string) string { return replace(t, doc, old, by) }
		})
	}
	foreign := word(func(s *pki.SpeaksFor) {
		s.Edit = func(doc string) string {
			return replace(t, replace(t, doc, "<abac>", `<x:abac xmlns:x="urn:x">`), "</abac>", "</x:abac>")
		}
	})
	without := func(from, to string) scene {
		return word(func(s *pki.SpeaksFor) {
			s.Edit = func(doc string) string { return replace(t, doc, intermediates(doc, from, to), "") }
		})
	}
	role := func(name string) scene { return word(func(s *pki.SpeaksFor) { s.Role = name }) }
	tail := func(content string) scene { return word(func(s *pki.SpeaksFor) { s.Tail = content }) }
	signer := func(e ...*pki.Entity) scene { return word(func(s *pki.SpeaksFor) { s.Signer = e }) }
	dated := func(from, to time.Time) []*pki.Entity {
		return []*pki.Entity{pki.Issue(t, w.sa, pki.Subject{URIs: []string{aliceURN}, Key: "rsa2", From: from, To: to}), w.sa}
	}
	alice, bob := pki.KeyID(t, w.alice), pki.KeyID(t, w.bob)
	good := word(func(*pki.SpeaksFor) {})
	unsigned := good.with(replace(t, good.documents[0].Text, intermediates(good.documents[0].Text, "<Signature ", "</Signature>"), ""))
	evil := claims("urn:publicid:IDN+example.org+tool+evil", "rsa5", w.tool)
	bobs := shows(w.speaksFor().Signed(t), w.owned(t, w.bob)).calls(w.tool.Raw).forUser(bobURN)
	claimant := claims(aliceURN, "rsa5", w.alice) // alice by name, with a key of another
	return []attack{
		{29, "word for another tool", rule.PermissionForKey, good.calls(second.Raw), good.calls(w.tool.Raw, w.sa.Raw)},
		{29, "word copied to a tool of the same name", rule.PermissionForKey, good.calls(pki.User(t, w.sa, toolURN, "rsa5").Raw), good.calls(pki.User(t, w.sa, toolURN, "rsa6").Raw)},
		{29, "word copied to an authority", rule.PermissionForKey, good.calls(w.sa.Raw), word(func(s *pki.SpeaksFor) { s.Tool = w.sa }).calls(w.sa.Raw)},
		{29, "head of another user", rule.HeadSigns, word(func(s *pki.SpeaksFor) { s.Head = bob }), word(func(s *pki.SpeaksFor) { s.Head = strings.ToUpper(alice) })},
		{29, "head and role of another user", rule.HeadSigns, word(func(s *pki.SpeaksFor) { s.Head, s.Role = bob, "speaks_for_"+bob }), good},
		{29, "role of another id", rule.RoleOfSigner, role("speaks_for_" + bob), role("speaks_for_" + strings.ToUpper(alice))},
		{29, "role of no id", rule.RoleOfSigner, role("speaks_for_alice"), role("speaks_for_" + alice)},
		{29, "role of an id with something behind", rule.RoleOfSigner, role("speaks_for_" + alice + "0"), good},
		{29, "role that is the id alone", rule.RoleSpeaks, role(alice), good},
		{29, "role in another case", rule.RoleSpeaks, role("Speaks_For_" + alice), good},
		{29, "role that is about something else", rule.RoleSpeaks, role("friend"), good},
		{29, "two tails", rule.OneTail, edit("</tail>", "</tail><tail>"+principal(second, "")+"</tail>"), good},
		{29, "tail that is a role", rule.TailIsKey, tail(principal(w.tool, "<role>friend</role>")), tail(principal(w.tool, ""))},
		{29, "tail that is a role of a role", rule.TailIsKey, tail(principal(w.tool, "<role>friend</role><linking_role>of</linking_role>")), tail(principal(w.tool, ""))},
		{29, "two heads", rule.Cardinality, edit("<tail>", "<head>"+principal(w.bob, "<role>r</role>")+"</head><tail>"), good},
		{29, "two rules", rule.Cardinality, edit("<abac>", "<abac/><abac>"), good},
		{29, "rule of another version", rule.ABACVersion, edit("<version>1.1", "<version>1.0"), good},
		{29, "something else in the rule", rule.ABACForm, edit("<tail>", "<any/><tail>"), edit("<tail>", "\n<tail>")},
		{26, "second head in a foreign namespace", rule.ABACForm, edit("<tail>", `<head xmlns="urn:x"/><tail>`), good},
		{26, "rule in a foreign namespace", rule.Names, foreign, edit("<abac>", `<abac xmlns:x="urn:x">`)},
		{24, "text beside the head's principal", rule.BlankBetween, edit("<head>", "<head>x"), edit("<head>", "<head>\n")},
		{24, "element inside a key id", rule.TextOnly, edit("</keyid>", "<b/></keyid>"), edit("</keyid>", "\n</keyid>")},
		{29, "word of the type of the older form", rule.Unambiguous, edit("<type>abac", "<type>speaksfor"), good},
		{29, "word of the type of privileges", rule.Readable, edit("<type>abac", "<type>privilege"), good},
		{29, "no rule", rule.Readable, without("<abac>", "</abac>"), good},
		{29, "no role", rule.Readable, without("<role>", "</role>"), good},
		{29, "no tail", rule.Readable, without("<tail>", "</tail>"), good},
		{29, "key id of 41 digits", rule.Readable, edit("</keyid>", "0</keyid>"), good},
		{29, "expired", rule.CredentialExpired, word(func(s *pki.SpeaksFor) { s.Expires = "2026-11-21T12:00:00Z" }), word(func(s *pki.SpeaksFor) { s.Expires = "2026-11-21T12:00:01Z" })},
		{29, "two signatures", rule.OneSignature, signedAgain(t, good), good},
		{1, "key of the tail changed after it was signed", rule.Digest, good.with(replace(t, good.documents[0].Text, pki.KeyID(t, w.tool), pki.KeyID(t, second))).calls(second.Raw), good},
		{2, "word that is not signed", rule.Signed, unsigned, good},
		{29, "signed by the tool, with the user's certificate", rule.Signature, byTool(t, w), good},
		{29, "signed by the tool in the user's name", rule.Anchored, signer(pki.User(t, nil, aliceURN, "rsa6")), good},
		{29, "signed by a stranger's alice", rule.Namespace, signer(pki.User(t, stranger, aliceURN, "rsa5"), stranger).trusts(w.sa, stranger), good.trusts(w.sa, stranger)},
		{29, "signed by another user", rule.PermissionOfUser, signer(w.bob, w.sa), signer(w.alice)},
		{29, "signer's certificate expired", rule.CertificateExpired, signer(dated(now.Add(-2*time.Hour), now.Add(-time.Minute))...), signer(dated(now.Add(-2*time.Hour), now.Add(time.Minute))...)},
		{29, "signer's certificate not yet valid", rule.CertificateStarted, signer(dated(now.Add(time.Hour), now.Add(2*time.Hour))...), signer(dated(now.Add(-time.Hour), now.Add(2*time.Hour))...)},
		{29, "option of a third user", rule.PermissionOfUser, good.forUser(bobURN), good},
		{29, "option and credential of a third user", rule.PermissionOfUser, bobs, good},
		{13, "option of the user of that name in a sub-authority", rule.PermissionOfUser, good.forUser(labAlice), good.forUser(strings.Replace(aliceURN, "alice", "ALICE", 1))},
		{25, "option of a user whose name is percent-encoded", rule.PermissionOfUser, good.forUser("urn:publicid:IDN+example.org+user+%61lice"), good.forUser(strings.Replace(aliceURN, "example", "Example", 1))},
		{30, "tool's certificate claims the key of the tail", rule.PermissionForKey, good.calls(evil.Raw), word(func(s *pki.SpeaksFor) { s.Tool = evil }).calls(evil.Raw)},
		{30, "signer's certificate claims the key of the head", rule.HeadSigns, word(func(s *pki.SpeaksFor) { s.Signer, s.Head = []*pki.Entity{claimant}, alice }), signer(claimant)},
		{30, "signer's certificate claims the key of the role", rule.RoleOfSigner, word(func(s *pki.SpeaksFor) { s.Signer, s.Role = []*pki.Entity{claimant}, "speaks_for_"+alice }), signer(claimant)},
	}
}

// with is the scene with another document in place of its first.
func (s scene) with(doc string) scene {
	s.documents = slices.Clone(s.documents)
	s.documents[0].Text = doc
	return s
}

// signedAgain has a second signature, which refers to no existing element.
func signedAgain(t *testing.T, s scene) scene {
	doc := s.documents[0].Text
	signature := intermediates(doc, "<Signature ", "</Signature>")
	elsewhere := strings.NewReplacer(`URI="#ref0"`, `URI="#ref7"`, `xml:id="Sig_ref0"`, `xml:id="Sig_ref7"`)
	return s.with(replace(t, doc, "</signatures>", elsewhere.Replace(signature)+"</signatures>"))
}

// byTool is a speaks-for credential in alice's name, with her certificate and the tool's signature.
func byTool(t *testing.T, w *world) scene {
	alice := &pki.Entity{Certificate: w.alice.Certificate, Key: w.tool.Key}
	return w.speaks(t, pki.Forgery{}.Signed(t, w.speaksFor().Unsigned(t), "ref0", alice))
}

// oldFormAttacks are attacks on speaks-for credentials in the older form without ABAC.
func oldFormAttacks(t *testing.T, w *world) []attack {
	type list = []*pki.Entity
	word := func(change func(*pki.Credential)) scene {
		c := w.oldSpeaksFor()
		change(&c)
		return w.speaks(t, c.Signed(t))
	}
	signer := func(e ...*pki.Entity) scene { return word(func(c *pki.Credential) { c.Signer = e }) }
	renamed := func(key string) *pki.Entity {
		return pki.User(t, w.sa, "urn:publicid:IDN+example.org+tool+second", key)
	}
	good := word(func(*pki.Credential) {})
	mine := pki.User(t, nil, aliceURN, "rsa5")
	abac := intermediates(w.speaksFor().Unsigned(t), "<abac>", "</abac>")
	bobs := shows(w.oldSpeaksFor().Signed(t), w.owned(t, w.bob)).calls(w.tool.Raw).forUser(bobURN)
	return []attack{
		{29, "old form, copied to another tool", rule.PermissionForKey, good.calls(renamed("rsa5").Raw), good},
		{29, "old form, copied to a tool of the same name", rule.PermissionForKey, good.calls(pki.User(t, w.sa, toolURN, "rsa5").Raw), good},
		{29, "old form, copied to a tool of the same key", rule.PermissionForTool, good.calls(renamed("rsa6").Raw), good.calls(pki.User(t, w.sa, toolURN, "rsa6").Raw)},
		{29, "old form, signed by the tool", rule.PermissionByTarget, signer(w.tool, w.sa), good},
		{29, "old form, signed by the authority", rule.PermissionByTarget, signer(w.sa), good},
		{29, "old form, signed by another user", rule.PermissionByTarget, signer(w.bob, w.sa), signer(w.alice)},
		{29, "old form, signed with another key in the user's name", rule.PermissionByTarget, signer(pki.User(t, w.sa, aliceURN, "rsa5")), signer(pki.User(t, w.sa, aliceURN, "rsa2"))},
		{29, "old form, the user made the certificate itself", rule.Anchored, word(func(c *pki.Credential) { c.Target, c.Signer = list{mine}, list{mine} }), good},
		{29, "old form, the tool made the certificate itself", rule.Anchored, word(func(c *pki.Credential) { c.Owner = list{pki.User(t, nil, toolURN, "rsa6")} }), good},
		{29, "old form, owner_urn of another tool", rule.MatchingName, word(func(c *pki.Credential) { c.OwnerURN = renamed("rsa5").URN.String() }), good},
		{29, "old form, expired", rule.CredentialExpired, word(func(c *pki.Credential) { c.Expires = "2026-11-21T12:00:00Z" }), word(func(c *pki.Credential) { c.Expires = "2026-11-21T12:00:01Z" })},
		{29, "old form, two signatures", rule.OneSignature, signedAgain(t, good), good},
		{29, "old form, that holds the rule of the new", rule.Unambiguous, word(func(c *pki.Credential) {
			c.Edit = func(doc string) string { return replace(t, doc, "<privileges>", abac+"<privileges>") }
		}), good},
		{29, "old form, option of a third user", rule.PermissionOfUser, good.forUser(bobURN), good},
		{29, "old form, option and credential of a third user", rule.PermissionOfUser, bobs, good},
	}
}

// speakerAttacks are by callers who may not speak for others with any credential.
func speakerAttacks(t *testing.T, w *world) []attack {
	word := func(signer, tool *pki.Entity) string {
		return pki.SpeaksFor{Signer: []*pki.Entity{signer, w.sa}, Tool: tool}.Signed(t)
	}
	good := w.speaks(t, word(w.alice, w.tool))
	by := func(e *pki.Entity) scene { return w.speaks(t, word(w.alice, e)).calls(e.Raw) }
	// named is the tool under another name, with a speaks-for credential for that name.
	named := func(e *pki.Entity) scene {
		return shows(word(e, w.tool), w.owned(t, e)).calls(w.tool.Raw).forUser(e.URN.String())
	}
	listed := func(s scene, names ...string) scene {
		s.config = credentials.Config{Speakers: names}
		return s
	}
	own := shows(w.owned(t, w.tool)).calls(w.tool.Raw)
	return []attack{
		{29, "option that is no URN", rule.SpeakingForUser, own.forUser("alice"), own.forUser(toolURN)},
		{29, "option with a blank behind", rule.SpeakingForUser, own.forUser(aliceURN + " "), own.forUser("")},
		{29, "word of a slice", rule.SpeakingForUser, named(w.slice), named(w.bob)},
		{29, "word of an authority", rule.SpeakingForUser, named(w.sa), named(w.alice)},
		{29, "word of the tool for itself, in alice's name", rule.PermissionByUser, named(w.tool).forUser(aliceURN), good},
		{29, "word of the authority, in alice's name", rule.PermissionByUser, named(w.sa).forUser(aliceURN), good},
		{29, "word for a user", rule.SpeakerKind, by(w.bob), by(w.tool)},
		{29, "word for a tool that the operator does not list", rule.SpeakerListed, listed(good, "urn:publicid:IDN+example.org+tool+second"), listed(good, toolURN)},
		{29, "word for a list in which nobody is", rule.SpeakerListed, listed(good, "portal"), listed(good, "portal", strings.Replace(toolURN, "example", "EXAMPLE", 1))},
		{29, "no word at all", rule.Presented, shows(w.sliceCredential().Signed(t)).calls(w.tool.Raw).forUser(aliceURN), good},
		{29, "word alone", rule.Presented, shows(word(w.alice, w.tool)).calls(w.tool.Raw).forUser(aliceURN), good},
		{29, "word without the option", rule.CallerIsOwner, good.forUser(""), good.forUser(aliceURN)},
		{29, "word with another's credential", rule.CallerIsOwner, shows(word(w.alice, w.tool), w.owned(t, w.bob)).calls(w.tool.Raw).forUser(aliceURN), good},
		{29, "word with the tool's own credential", rule.CallerIsOwner, shows(word(w.alice, w.tool), w.owned(t, w.tool)).calls(w.tool.Raw).forUser(aliceURN), good},
	}
}
