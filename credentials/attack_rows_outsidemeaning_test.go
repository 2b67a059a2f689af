package credentials_test

import (
	"testing"
	"time"

	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
)

// outsideMeaning are attacks with certificates and with the content of documents that another
// program has signed.
func outsideMeaning(t *testing.T, w *world, xmlsec1 string) []attack {
	keys := map[*pki.Entity]string{w.sa: "rsa1", w.alice: "rsa2", w.bob: "rsa4", w.tool: "rsa6"}
	sign := func(doc, id string, chain ...*pki.Entity) string {
		return signedByXmlsec1(t, xmlsec1, doc, id, keys[chain[0]], algorithms[0].template(id), chain...)
	}
	one := func(c pki.Credential) scene { return shows(sign(c.Unsigned(), "ref0", c.Signer...)) }
	slice := func(change func(*pki.Credential)) scene {
		c := w.sliceCredential()
		change(&c)
		return one(c)
	}
	delegated := func(change func(c []pki.Credential)) scene {
		levels := w.handedOn(w.bob)
		change(levels)
		doc := sign(pki.Nest(levels...).Unsigned(), "ref0", levels[1].Signer...)
		return shows(sign(doc, "ref1", levels[0].Signer...)).calls(w.bob.Raw)
	}
	abac := func(change func(*pki.SpeaksFor)) scene {
		s := w.speaksFor()
		change(&s)
		return w.speaks(t, sign(s.Unsigned(t), "ref0", s.Signer...))
	}
	old := func(change func(*pki.Credential)) scene {
		c := w.oldSpeaksFor()
		change(&c)
		return w.speaks(t, sign(c.Unsigned(), "ref0", c.Signer...))
	}
	good, handed, spoken, word := slice(func(*pki.Credential) {}), delegated(func([]pki.Credential) {}), abac(func(*pki.SpeaksFor) {}), old(func(*pki.Credential) {})
	past := pki.Subject{URIs: []string{aliceURN}, Key: "rsa2", From: now.Add(-2 * time.Hour), To: now.Add(-time.Minute)}
	second := pki.User(t, w.sa, "urn:publicid:IDN+example.org+tool+second", "rsa5")
	return []attack{
		{10, "signed by another user", rule.SignerIsAuthority, slice(func(c *pki.Credential) { c.Signer = []*pki.Entity{w.bob, w.sa} }), good},
		{14, "expired certificate of owner", rule.CertificateExpired, slice(func(c *pki.Credential) { c.Owner = []*pki.Entity{pki.Issue(t, w.sa, past)} }), good},
		{16, "credential of another slice", rule.MatchingTarget, slice(func(c *pki.Credential) { c.Target = []*pki.Entity{w.other} }), good},
		{17, "owner_gid of the caller, owner_urn of another", rule.MatchingName, slice(func(c *pki.Credential) { c.OwnerURN = bobURN }), good},
		{18, "info for Allocate", rule.Privilege, slice(func(c *pki.Credential) { c.Privileges = []string{"info"} }), good},
		{31, "intercepted credential replayed by another user", rule.CallerIsOwner, good.calls(w.bob.Raw), good},
		{19, "parent not to be delegated", rule.Delegable, delegated(func(c []pki.Credential) { c[1].CanDelegate = "false" }), handed},
		{19, "widened to all privileges", rule.Delegable, delegated(func(c []pki.Credential) { c[0].Privileges = []string{"*"} }), handed},
		{19, "another slice", rule.SameTarget, delegated(func(c []pki.Credential) { c[1].Target = []*pki.Entity{w.other} }), handed},
		{19, "a second longer than its parent", rule.NoLonger, delegated(func(c []pki.Credential) { c[0].Expires = "2026-11-22T12:00:01Z" }), handed},
		{19, "signed by its new owner", rule.DelegatorName, delegated(func(c []pki.Credential) { c[0].Signer = []*pki.Entity{w.bob, w.sa} }), handed},
		{29, "word for another tool", rule.PermissionForKey, spoken.calls(second.Raw), spoken},
		{29, "head of another user", rule.HeadSigns, abac(func(s *pki.SpeaksFor) { s.Head = pki.KeyID(t, w.bob) }), spoken},
		{29, "role of another id", rule.RoleOfSigner, abac(func(s *pki.SpeaksFor) { s.Role = "speaks_for_" + pki.KeyID(t, w.bob) }), spoken},
		{29, "expired", rule.CredentialExpired, abac(func(s *pki.SpeaksFor) { s.Expires = "2026-11-21T12:00:00Z" }), spoken},
		{29, "option of a third user", rule.PermissionOfUser, spoken.forUser(bobURN), spoken},
		{29, "old form, signed by another user", rule.PermissionByTarget, old(func(c *pki.Credential) { c.Signer = []*pki.Entity{w.bob, w.sa} }), word},
		{29, "old form, signed by the tool", rule.PermissionByTarget, old(func(c *pki.Credential) { c.Signer = []*pki.Entity{w.tool, w.sa} }), word},
	}
}
