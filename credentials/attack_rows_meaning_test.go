package credentials_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
)

// meaningAttacks use genuine credentials for something that they do not permit.
func meaningAttacks(t *testing.T, w *world) []attack {
	return slices.Concat(
		signerAttacks(t, w), targetAttacks(t, w), nameAttacks(t, w), privilegeAttacks(t, w), formAttacks(t, w), delegationAttacks(t, w),
	)
}

// one is a scene with alice's slice credential, changed before it is signed.
func (w *world) one(t *testing.T, change func(*pki.Credential)) scene {
	t.Helper()
	c := w.sliceCredential()
	change(&c)
	return shows(c.Signed(t))
}

// signed is a scene whose credential has another signer.
func (w *world) signed(t *testing.T, by ...*pki.Entity) scene {
	t.Helper()
	return w.one(t, func(c *pki.Credential) { c.Signer = by })
}

// edited is a scene whose credential was edited before it was signed.
func (w *world) edited(t *testing.T, old, by string) scene {
	t.Helper()
	return w.one(t, func(c *pki.Credential) {
		c.Edit = func(doc string) string { return replace(t, doc, old, by) }
	})
}

// signerAttacks have a trusted signer that may not sign this credential.
func signerAttacks(t *testing.T, w *world) []attack {
	good := w.signed(t, w.sa)
	named := func(kind, name string) *pki.Entity {
		return pki.User(t, w.sa, "urn:publicid:IDN+example.org+"+kind+"+"+name, "rsa5")
	}
	lab := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org:lab+authority+sa", "rsa5")
	net := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+sa", "rsa5")
	ma := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org+authority+ma", "rsa5")
	userCA := pki.Issue(t, w.sa, pki.Subject{URIs: []string{"urn:publicid:IDN+example.org+user+sa"}, Key: "rsa5", CA: true})
	// ownSlice is signed by the issuer of the slice.
	ownSlice := func(by *pki.Entity) scene {
		return w.one(t, func(c *pki.Credential) {
			c.Signer, c.Target = []*pki.Entity{by}, []*pki.Entity{pki.User(t, by, sliceURN, "rsa3")}
		})
	}
	listed := w.signed(t, named("authority", "portal"))
	listed.config.Signers = []string{"PORTAL"}
	usual := w.signed(t, named("authority", "ch"))
	usual.config.Signers = listed.config.Signers
	user := w.userCredential()
	user.Signer = []*pki.Entity{w.alice, w.sa}
	self := shows(user.Signed(t))
	self.right = credentials.RightListResources
	own := shows(w.userCredential().Signed(t))
	own.right = credentials.RightListResources
	rows := []attack{
		{10, "signed by a user named like an sa", rule.SignerIsAuthority, w.signed(t, named("user", "sa")), w.signed(t, named("authority", "sa"))},
		{10, "signed by a tool named like an sa", rule.SignerIsAuthority, w.signed(t, named("tool", "sa")), w.signed(t, named("authority", "sa"))},
		{10, "signed by another user", rule.SignerIsAuthority, w.signed(t, w.bob, w.sa), good},
		{10, "signed by its owner", rule.SignerIsAuthority, w.signed(t, w.alice, w.sa), good},
		{10, "signed by the slice itself", rule.SignerIsAuthority, w.signed(t, w.slice, w.sa), good},
		{10, "signed by a user with CA:TRUE for a slice that it made itself", rule.SignerIsAuthority, ownSlice(userCA), ownSlice(ma)},
		{10, "user credential signed by its owner", rule.SignerIsAuthority, self, own},
		{11, "signed by an authority that a user issued", rule.IssuerIsCA,
			w.signed(t, pki.Authority(t, w.bob, saURN, "rsa5"), w.bob, w.sa), w.signed(t, pki.Authority(t, ma, saURN, "rsa6"), ma, w.sa)},
		{12, "signed by another authority that is trusted", rule.SignerCovers, w.signed(t, net).trusts(w.sa, net), good},
		{12, "signed by a sub-authority for its parent's slice", rule.SignerCovers, w.signed(t, lab, w.sa), w.one(t, func(c *pki.Credential) {
			c.Signer = []*pki.Entity{pki.Authority(t, w.sa, "urn:publicid:IDN+EXAMPLE.org+authority+ca", "rsa5")}
		})},
		{12, "signed by a cm of the right authority", rule.SignerSigns, w.signed(t, named("authority", "cm")), w.signed(t, named("authority", "ma"))},
		{12, "signed by an am of the right authority", rule.SignerSigns, w.signed(t, named("authority", "am")), w.signed(t, named("authority", "CH"))},
		{12, "signed by one that the operator does not list", rule.SignerSigns, w.signed(t, named("authority", "portal")), listed},
		{12, "signed by a cm where the operator lists a portal", rule.SignerSigns, func() scene {
			s := w.signed(t, named("authority", "cm"))
			s.config.Signers = listed.config.Signers
			return s
		}(), usual},
	}
	for _, p := range prefixes {
		signer := pki.Authority(t, nil, "urn:publicid:IDN+"+p.authority+"+authority+sa", "rsa5")
		over := func(authority string) scene {
			owner := pki.Authority(t, nil, "urn:publicid:IDN+"+authority+"+authority+sa", "rsa6")
			slice := pki.User(t, owner, "urn:publicid:IDN+"+authority+"+slice+s1", "rsa3")
			s := w.one(t, func(c *pki.Credential) {
				c.Signer, c.Target = []*pki.Entity{signer}, []*pki.Entity{slice, owner}
			}).trusts(w.sa, signer, owner)
			s.slice = slice.URN
			return s
		}
		rows = append(rows, attack{13, fmt.Sprintf("slice of %s signed by %s: %s", p.other, p.authority, p.why), rule.SignerCovers, over(p.other), over(p.below)})
	}
	return rows
}

// targetAttacks use the credential of another user or for another slice.
func targetAttacks(t *testing.T, w *world) []attack {
	good := w.signed(t, w.sa)
	on := func(target ...*pki.Entity) scene {
		return w.one(t, func(c *pki.Credential) { c.Target, c.Privileges = target, []string{"*"} })
	}
	about := func(s scene, name string) scene { s.slice = urn.MustParse(name); return s }
	info := func(right credentials.Right) scene {
		s := w.one(t, func(c *pki.Credential) { c.Privileges = []string{"info"} })
		s.right, s.slice = right, w.slice.URN
		return s
	}
	many := func(n int) scene {
		return scene{documents: slices.Concat(sfa(slices.Repeat([]string{good.documents[0].Text}, n)...))}
	}
	labelled := func(kind, version string) scene {
		p := good.documents[0]
		p.Type, p.Version = kind, version
		return scene{documents: []credentials.Presented{p}}
	}
	labSlice := pki.User(t, w.sa, "urn:publicid:IDN+example.org:lab+slice+s1", "rsa3")
	encoded := pki.User(t, w.sa, "urn:publicid:IDN+example.org+slice+%731", "rsa3")
	escaped := pki.User(t, w.sa, "urn:publicid:IDN+example.org+user+%61lice", "rsa2")
	return []attack{
		{16, "credential of another slice", rule.MatchingTarget, on(w.other, w.sa), on(w.slice, w.sa)},
		{13, "credential of the slice of that name in a sub-authority", rule.MatchingTarget, on(labSlice), on(w.slice)},
		{25, "credential of a slice whose name is percent-encoded", rule.MatchingTarget, on(encoded), about(on(encoded), encoded.URN.String())},
		{16, "user credential as slice credential", rule.MatchingTarget, on(w.alice), on(w.slice)},
		{16, "authority's credential as slice credential", rule.MatchingTarget, on(w.sa), on(w.slice)},
		{16, "user credential for a call about the user, as if it were a slice", rule.TargetIsSlice, about(on(w.alice), aliceURN), about(on(w.slice), sliceURN)},
		{16, "right to list resources used on a slice", rule.RightOverSlice, info(credentials.RightListResources), info(credentials.RightDescribe)},
		{16, "credential of another user", rule.CallerIsOwner, w.one(t, func(c *pki.Credential) { c.Owner = []*pki.Entity{w.bob} }), good},
		{31, "intercepted credential replayed by another user", rule.CallerIsOwner, good.calls(w.bob.Raw), good.calls(w.alice.Raw)},
		{31, "intercepted credential replayed by a tool", rule.CallerIsOwner, good.calls(w.tool.Raw), good.calls(w.alice.Raw, w.sa.Raw)},
		{31, "intercepted credential replayed by the user of that name in a sub-authority", rule.CallerIsOwner, good.calls(pki.User(t, w.sa, labAlice, "rsa2").Raw), good.calls(w.alice.Raw)},
		{25, "credential replayed by a user whose name is percent-encoded", rule.CallerIsOwner, good.calls(escaped.Raw), good.calls(w.alice.Raw)},
		{16, "credential of a type that is not read", rule.Kind, w.one(t, func(c *pki.Credential) { c.Type = "capability" }), good},
		{16, "credential labelled as nobody does", rule.Label, labelled("geni_foo", "3"), labelled("geni_unknown", "0")},
		{16, "credential labelled with a version that is not", rule.Label, labelled("geni_sfa", "4"), labelled("geni_sfa", "2")},
		{23, "thirty-three credentials", rule.CredentialCount, many(33), many(32)},
		{2, "no credential", rule.Presented, shows(), good},
		{2, "credential that is empty", rule.Presented, shows(" \n"), good},
	}
}

// nameAttacks have another name beside a certificate than the one in it.
func nameAttacks(t *testing.T, w *world) []attack {
	good := w.signed(t, w.sa)
	owner := func(e *pki.Entity, name string) scene {
		return w.one(t, func(c *pki.Credential) { c.Owner, c.OwnerURN = []*pki.Entity{e}, name })
	}
	target := func(e *pki.Entity, name string) scene {
		return w.one(t, func(c *pki.Credential) { c.Target, c.TargetURN = []*pki.Entity{e, w.sa}, name })
	}
	slice := func(name string) scene { return target(w.slice, name) }
	nobody := pki.Issue(t, w.sa, pki.Subject{CN: aliceURN, Key: "rsa2"})
	nothing := pki.Issue(t, w.sa, pki.Subject{CN: sliceURN, Key: "rsa3"})
	two := pki.Issue(t, w.sa, pki.Subject{URIs: []string{sliceURN, w.other.URN.String()}, Key: "rsa3"})
	bare := w.edited(t, "<owner_urn>"+aliceURN+"</owner_urn>", "")
	rows := []attack{
		{17, "owner_gid of the caller, owner_urn of another", rule.MatchingName, owner(w.alice, bobURN), owner(w.alice, aliceURN)},
		{17, "owner_gid of another, owner_urn of the caller", rule.MatchingName, owner(w.bob, aliceURN), owner(w.alice, aliceURN)},
		{17, "target_gid of the slice, target_urn of another", rule.MatchingName, slice(w.other.URN.String()), slice(sliceURN)},
		{17, "target_gid of another slice, target_urn of the slice", rule.MatchingName, target(w.other, sliceURN), slice(sliceURN)},
		{17, "owner_urn that is no URN", rule.MatchingName, owner(w.alice, "alice"), bare},
		{32, "owner_gid with a URN in the CN only", rule.HasURN, owner(nobody, aliceURN), good},
		{32, "target_gid with a URN in the CN only", rule.HasURN, target(nothing, sliceURN), good},
		{32, "target_gid of two URNs", rule.SingleURN, target(two, sliceURN), good},
	}
	for _, odd := range []struct{ why, name string }{
		{"percent-encoding", "urn:publicid:IDN+example.org+slice+%731"},
		{"an encoded NUL", sliceURN + "%00"},
		{"a zero-width joiner", strings.Replace(sliceURN, "+s1", "+s\u200d1", 1)},
		{"a no-break space behind", sliceURN + "\u00a0"},
		{"a soft hyphen", strings.Replace(sliceURN, "+s1", "+s\u00ad1", 1)},
		{"a letter that looks alike", strings.Replace(sliceURN, "+s1", "+ѕ1", 1)},
		{"a digit of full width", strings.Replace(sliceURN, "+s1", "+s\uff11", 1)},
		{"a letter and its accent in two", strings.Replace(sliceURN, "+s1", "+s\u03011", 1)},
		{"a letter with its accent in one", strings.Replace(sliceURN, "+s1", "+\u015b1", 1)},
		{"a long s", strings.Replace(sliceURN, "+s1", "+\u017f1", 1)},
		{"a blank inside", strings.Replace(sliceURN, "+s1", "+s 1", 1)},
		{"a type in capitals", strings.Replace(sliceURN, "+slice+", "+Slice+", 1)},
	} {
		rows = append(rows, attack{25, "target_urn with " + odd.why, rule.MatchingName, slice(odd.name), slice("URN:publicid:IDN+EXAMPLE.org+slice+S1")})
	}
	return rows
}

// privilegeAttacks use privileges that are missing or ambiguous.
func privilegeAttacks(t *testing.T, w *world) []attack {
	given := func(list ...string) scene {
		return w.one(t, func(c *pki.Credential) { c.Privileges = list })
	}
	edit := func(old, by string) scene { return w.edited(t, old, by) }
	var many []string
	for i := range 99 {
		many = append(many, fmt.Sprint("p", i))
	}
	none := w.one(t, func(c *pki.Credential) {
		c.Edit = func(doc string) string {
			return replace(t, doc, intermediates(doc, "<privileges>", "</privileges>"), "")
		}
	})
	as := func(s scene, r credentials.Right) scene { s.right = r; return s }
	return []attack{
		{18, "no privileges", rule.Privilege, given(), given("*")},
		{18, "no list of privileges", rule.Privilege, none, given("*")},
		{18, "unknown privilege", rule.Privilege, given("everything"), given("everything", "sa")},
		{18, "privilege that begins like all", rule.Privilege, given("*embed"), given("EMBED")},
		{18, "info for Allocate", rule.Privilege, given("info"), as(given("info"), credentials.RightDescribe)},
		{18, "bind for Shutdown", rule.Privilege, as(given("bind"), credentials.RightShutdown), as(given("embed"), credentials.RightShutdown)},
		{18, "resolve and refresh for Delete", rule.Privilege, as(given("resolve", "refresh"), credentials.RightDelete), as(given("resolve", "bind"), credentials.RightDelete)},
		{18, "privilege listed twice", rule.PrivilegeOnce, given("embed", "Embed"), given("embed", "bind")},
		{18, "two lists of privileges", rule.Cardinality, edit("</privileges>", "</privileges><privileges><privilege><name>*</name></privilege></privileges>"), given("*")},
		{18, "privilege with two names", rule.PrivilegeForm, edit("<name>refresh</name>", "<name>refresh</name><name>*</name>"), edit("<name>refresh</name>", "<name>*</name>")},
		{18, "privilege without name", rule.PrivilegeForm, edit("<name>refresh</name>", ""), edit("<name>refresh</name>", "<name>x</name>")},
		{18, "privilege with two can_delegate", rule.PrivilegeForm, edit("<can_delegate>true</can_delegate>", "<can_delegate>false</can_delegate><can_delegate>true</can_delegate>"), edit("<can_delegate>true</can_delegate>", "")},
		{18, "can_delegate that is neither true nor false", rule.CanDelegate, edit("<can_delegate>true", "<can_delegate>maybe"), edit("<can_delegate>true", "<can_delegate>0")},
		{18, "privilege with a letter that folds to one of ASCII", rule.PrivilegeName, given("embed", "lin\u212a"), given("embed", "linK")},
		{18, "privilege with a name of 65 bytes", rule.PrivilegeName, given("embed", strings.Repeat("a", 65)), given("embed", strings.Repeat("a", 64))},
		{23, "a hundred and one privileges", rule.PrivilegeCount, given(append(many, "embed", "sa")...), given(append(many, "embed")...)},
		{18, "something else among the privileges", rule.Names, edit("<privileges>", "<privileges><grant><name>*</name></grant>"), edit("<privileges>", "<privileges><privilege><name>*</name></privilege>")},
		{18, "text among the privileges", rule.BlankBetween, edit("<privileges>", "<privileges>*"), edit("<privileges>", "<privileges>\n ")},
		{26, "privilege in a foreign namespace", rule.Names, edit("<privileges>", `<privileges><x:privilege xmlns:x="urn:x"><name>*</name></x:privilege>`), edit("<privileges>", "<privileges><privilege><name>*</name></privilege>")},
		{26, "name of a privilege in a foreign namespace", rule.Names, edit("<name>refresh", `<name xmlns="urn:x">refresh`), edit("<name>refresh", `<name xmlns:x="urn:x">refresh`)},
	}
}

// formAttacks are ambiguous documents. They are signed, so that the signature does not prevent
// the attack.
func formAttacks(t *testing.T, w *world) []attack {
	edit := func(old, by string) scene { return w.edited(t, old, by) }
	good := w.signed(t, w.sa)
	without := func(from, to, by string) scene {
		return w.one(t, func(c *pki.Credential) {
			c.Edit = func(doc string) string { return replace(t, doc, intermediates(doc, from, to), by) }
		})
	}
	gid := "<owner_gid>" + pki.PEM(w.alice) + "</owner_gid>"
	eleven := func(n int) scene {
		return w.one(t, func(c *pki.Credential) {
			c.Owner = append(c.Owner, slices.Repeat([]*pki.Entity{w.sa}, n-1)...)
		})
	}
	return []attack{
		{16, "two types", rule.Cardinality, edit("<type>privilege</type>", "<type>abac</type><type>privilege</type>"), good},
		{17, "two owners", rule.Cardinality, edit("<owner_gid>", "<owner_gid>"+pki.PEM(w.bob)+"</owner_gid><owner_gid>"), good},
		{17, "two names of the target", rule.Cardinality, edit("<target_urn>", "<target_urn>"+w.other.URN.String()+"</target_urn><target_urn>"), good},
		{15, "two expiries", rule.Cardinality, edit("<expires>", "<expires>2026-11-21T11:00:00Z</expires><expires>"), good},
		{15, "expiry with an offset of fifteen hours", rule.ExpiryOffset, w.one(t, func(c *pki.Credential) { c.Expires = "2026-11-22T12:00:00+15:00" }), w.one(t, func(c *pki.Credential) { c.Expires = "2026-11-22T12:00:00+14:00" })},
		{24, "element inside a name", rule.TextOnly, edit("+slice+s1</target_urn>", "+slice+s1<b/></target_urn>"), edit("+slice+s1</target_urn>", "+slice+s1\n </target_urn>")},
		{24, "text between the elements", rule.BlankBetween, edit("<uuid/>", sliceURN+"<uuid/>"), edit("<uuid/>", "\n <uuid/>")},
		{26, "owner_urn in a foreign namespace", rule.Names, edit("<owner_urn>", `<owner_urn xmlns="urn:x">`), edit("<owner_urn>", `<owner_urn xmlns:x="urn:x">`)},
		{26, "list of privileges in a foreign namespace", rule.Names, edit("<privileges>", `<privileges xmlns="urn:x">`), edit("<privileges>", `<privileges xmlns:x="urn:x">`)},
		{23, "eleven certificates in a GID", rule.CertificateCount, eleven(11), eleven(10)},
		{23, "GID of more than 64 KiB", rule.CertificateSize, edit("<owner_gid>", "<owner_gid>x"+strings.Repeat(" ", 64<<10)), edit("<owner_gid>", "<owner_gid>x"+strings.Repeat(" ", 60<<10))},
		{16, "no type", rule.Readable, edit("<type>privilege</type>", ""), good},
		{15, "no expiry", rule.Readable, without("<expires>", "</expires>", ""), good},
		{17, "no owner", rule.Readable, edit(gid, ""), good},
		{17, "owner_gid without a certificate", rule.Readable, edit(gid, "<owner_gid/>"), good},
	}
}
