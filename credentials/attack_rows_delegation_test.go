package credentials_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
)

// delegationAttacks delegate privileges that the signer may not delegate, or more than they have.
func delegationAttacks(t *testing.T, w *world) []attack {
	type (
		list  = []*pki.Entity
		chain = []pki.Credential // outermost first
	)
	carol := pki.User(t, w.sa, "urn:publicid:IDN+example.org+user+carol", "rsa5")
	lab := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org:lab+authority+sa", "rsa5")
	labUser := pki.User(t, lab, labAlice, "rsa2")
	operator := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org+authority+ma", "rsa5")
	mallory := pki.User(t, w.sa, "urn:publicid:IDN+example.org+user+mallory", "rsa2")
	net := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+sa", "rsa5")
	eve := pki.User(t, net, "urn:publicid:IDN+example.net+user+eve", "rsa5")
	// to is a changed delegation of alice to an entity.
	to := func(who *pki.Entity, change func(c chain) chain) scene {
		levels := w.handedOn(who)
		if change != nil {
			levels = change(levels)
		}
		return shows(pki.Delegated(t, levels...)).calls(who.Raw)
	}
	bob := func(change func(c chain)) scene {
		return to(w.bob, func(c chain) chain {
			if change != nil {
				change(c)
			}
			return c
		})
	}
	good := bob(nil)
	// third is carol's, from bob's, from alice's.
	third := func(change func(c chain)) scene {
		return to(carol, func(c chain) chain {
			c[0].Owner, c[0].CanDelegate = list{w.bob, w.sa}, "true"
			outer := w.sliceCredential()
			outer.Owner, outer.Signer = list{carol, w.sa}, list{w.bob, w.sa}
			c = slices.Insert(c, 0, outer)
			change(c)
			return c
		})
	}
	three := third(func(chain) {})
	privileges := func(level int, names ...string) scene { return bob(func(c chain) { c[level].Privileges = names }) }
	signer := func(e ...*pki.Entity) scene { return bob(func(c chain) { c[0].Signer = e }) }
	holder := func(e ...*pki.Entity) scene { return bob(func(c chain) { c[1].Owner, c[0].Signer = e, e }) }
	expired := func(uri, key string) list {
		return list{pki.Issue(t, w.sa, pki.Subject{URIs: []string{uri}, Key: key, From: now.Add(-2 * time.Hour), To: now.Add(-time.Minute)})}
	}
	loop := func(n int) scene { return shows(pki.Delegated(t, w.loop(n)...)) }
	// speech is alice's speaks-for credential for the tool, perhaps with a parent.
	speech := func(parent string) scene {
		c := w.oldSpeaksFor()
		c.Parent, c.ID = parent, "ref1"
		doc := pki.Sign(t, c.Unsigned(), "ref1", false, w.alice, w.sa)
		if parent != "" {
			doc = pki.Sign(t, doc, "ref0", false, w.alice, w.sa)
		}
		s := shows(doc, w.sliceCredential().Signed(t)).calls(w.tool.Raw)
		s.speakingFor = aliceURN
		return s
	}
	return []attack{
		{19, "parent not to be delegated", rule.Delegable, bob(func(c chain) { c[1].CanDelegate = "false" }), good},
		{19, "parent of all privileges, not to be delegated", rule.Delegable,
			bob(func(c chain) { c[1].Privileges, c[1].CanDelegate = []string{"*"}, "false" }), bob(func(c chain) { c[1].Privileges, c[1].CanDelegate = []string{"*"}, "1" })},
		{19, "parent that does not say whether it may be delegated", rule.Delegable, bob(func(c chain) {
			c[0].Edit = func(doc string) string { return strings.ReplaceAll(doc, "<can_delegate>true</can_delegate>", "") }
		}), good},
		{19, "parent not to be delegated, and what it gives says it may be", rule.Delegable, bob(func(c chain) { c[0].CanDelegate, c[1].CanDelegate = "true", "false" }), bob(func(c chain) { c[0].CanDelegate = "true" })},
		{19, "middle not to be delegated", rule.Delegable, third(func(c chain) { c[1].CanDelegate = "0" }), three},
		{19, "one privilege more", rule.Delegable, privileges(0, "embed", "sa"), privileges(0, "EMBED")},
		{19, "widened to all privileges", rule.Delegable, privileges(0, "*"), privileges(1, "*")},
		{19, "widened in the middle", rule.Delegable, third(func(c chain) { c[1].Privileges = []string{"*"} }), three},
		{19, "another slice", rule.SameTarget, bob(func(c chain) { c[1].Target = list{w.other, w.sa} }), good},
		{19, "another certificate of the slice", rule.SameTarget, bob(func(c chain) { c[1].Target = list{pki.User(t, w.sa, sliceURN, "rsa3")} }), good},
		{19, "a second longer than its parent", rule.NoLonger, bob(func(c chain) { c[0].Expires = "2026-11-22T12:00:01Z" }), bob(func(c chain) { c[0].Expires = "2026-11-22T12:00:00Z" })},
		{19, "signed by its new owner", rule.DelegatorName, signer(w.bob, w.sa), signer(w.alice, w.sa)},
		{19, "signed by the authority", rule.DelegatorName, signer(w.sa), good},
		{19, "signed with the owner's key in another name", rule.DelegatorName, signer(mallory), good},
		{13, "signed by the user of that name in a sub-authority", rule.DelegatorName, signer(labUser, lab), holder(labUser, lab)},
		{19, "signed with another key in the owner's name", rule.DelegatorKey, signer(pki.User(t, w.sa, aliceURN, "rsa5")), signer(pki.User(t, w.sa, aliceURN, "rsa2"))},
		{19, "signed with the owner's key in a certificate that it made itself", rule.Anchored, signer(pki.User(t, nil, aliceURN, "rsa2")), good},
		{19, "parent of a slice", rule.DelegatorKind, holder(w.slice, w.sa), holder(w.tool, w.sa)},
		{19, "parent of an authority", rule.DelegatorKind, holder(operator, w.sa), holder(w.tool, w.sa)},
		{19, "parent signed by a user", rule.SignerIsAuthority, bob(func(c chain) { c[1].Signer = list{w.alice, w.sa} }), good},
		{19, "parent signed by an authority that is not the slice's", rule.SignerCovers, bob(func(c chain) { c[1].Signer = list{net} }).trusts(w.sa, net), good.trusts(w.sa, net)},
		{19, "parent of a user whom nobody vouches for", rule.Anchored, holder(eve, net), holder(eve, net).trusts(w.sa, net)},
		{24, "element inside a name in the parent", rule.TextOnly, bob(func(c chain) {
			c[0].Edit = func(doc string) string {
				return replace(t, doc, aliceURN+"</owner_urn>", aliceURN+"<b/></owner_urn>")
			}
		}), good},
		{19, "parent of another kind", rule.OneKind, bob(func(c chain) { c[1].Type = "speaksfor" }), good},
		{19, "parent of a kind that is not read", rule.Kind, bob(func(c chain) { c[1].Type = "capability" }), good},
		{19, "word for a tool that holds another as parent", rule.OnlyPrivileges, speech(w.oldSpeaksFor().Element()), speech("")},
		{19, "loop, six levels", rule.Chain, loop(6), loop(5)},
		{31, "delegated credential replayed by the one who delegated it", rule.CallerIsOwner, good.calls(w.alice.Raw), good.calls(w.bob.Raw)},
		{17, "parent's owner_urn of another", rule.MatchingName, bob(func(c chain) { c[1].OwnerURN = bobURN }), good},
		{14, "expired certificate of the parent's owner", rule.CertificateExpired, bob(func(c chain) { c[1].Owner = expired(aliceURN, "rsa2") }), good},
		{14, "expired certificate of who delegates", rule.CertificateExpired, signer(expired(aliceURN, "rsa2")...), good},
		{14, "expired certificate of the new owner", rule.CertificateExpired, bob(func(c chain) { c[0].Owner = expired(bobURN, "rsa4") }), good},
		{15, "only the parent expired", rule.CredentialExpired, bob(func(c chain) { c[1].Expires = "2026-11-21T11:00:00Z" }), good},
		{15, "delegated credential and its parent expired", rule.CredentialExpired, bob(func(c chain) { c[0].Expires, c[1].Expires = "2026-11-21T11:00:00Z", "2026-11-21T11:00:00Z" }), good},
	}
}
