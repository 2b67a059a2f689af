package credentials_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

// TestAttacks presents, for the attacks of the specification that concern what
// a credential says and who signed it, a credential with everything right but
// that; numbers are the specification's. What breaks the signature itself is
// tried in dsig, chains are in cert. An empty want is a neighbour that must be
// accepted, so that a row is not refused for another reason.
func TestAttacks(t *testing.T) {
	w := newWorld(t)
	accept := am.Detail(-1)
	expired := pki.Subject{From: now.Add(-2 * time.Hour), To: now.Add(-time.Minute)}
	future := pki.Subject{From: now.Add(time.Hour)}
	issue := func(issuer *pki.Entity, s pki.Subject, uri, key string, ca bool) *pki.Entity {
		s.URIs, s.Key, s.CA = []string{uri}, key, ca
		return pki.Issue(t, issuer, s)
	}
	stranger := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+sa", "rsa5")
	fakeSA := pki.Authority(t, nil, saURN, "rsa5")
	labSA := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org:lab+authority+sa", "rsa5")
	labSlice := pki.User(t, labSA, "urn:publicid:IDN+example.org:lab+slice+s1", "rsa3")
	labUser := pki.User(t, w.sa, "urn:publicid:IDN+example.org:lab+slice+s1", "rsa3")
	named := func(name string) *pki.Entity {
		return pki.Authority(t, w.sa, "urn:publicid:IDN+example.org+authority+"+name, "rsa5")
	}
	type change = func(*pki.Credential)
	edit := func(old, by string) change {
		return func(c *pki.Credential) {
			c.Edit = func(doc string) string { return replace(t, doc, old, by) }
		}
	}
	signer := func(list ...*pki.Entity) change { return func(c *pki.Credential) { c.Signer = list } }
	target := func(list ...*pki.Entity) change { return func(c *pki.Credential) { c.Target = list } }
	owner := func(list ...*pki.Entity) change { return func(c *pki.Credential) { c.Owner = list } }
	privileges := func(list ...string) change { return func(c *pki.Credential) { c.Privileges = list } }
	for _, tt := range []struct {
		attack string
		change change
		want   am.Detail
	}{
		{"neighbour: nothing wrong", func(*pki.Credential) {}, accept},
		{"3 signed credential holds another in its extensions", edit("</credential>", `<extensions><credential><target_urn>x</target_urn></credential></extensions></credential>`), accept},

		{"7 self-made key, self-made chain", signer(fakeSA), am.CredentialUntrusted},
		{"7 self-made chain under a stranger", signer(pki.Authority(t, stranger, saURN, "rsa6"), stranger), am.CredentialUntrusted},
		{"8, 9 trusted certificate beside the attacker's", signer(fakeSA, w.sa), am.CredentialUntrusted},
		{"neighbour: signer's chain in any order", signer(issue(w.sa, pki.Subject{}, saURN, "rsa5", true), w.alice, w.sa), accept},
		{"10 signed by a user of a trusted root", signer(w.bob, w.sa), am.CredentialUntrusted},
		{"10 signed by its owner", signer(w.alice, w.sa), am.CredentialUntrusted},
		{"10 signed by the slice itself", signer(w.slice, w.sa), am.CredentialUntrusted},
		{"10 signed by a tool", signer(issue(w.sa, pki.Subject{}, "urn:publicid:IDN+example.org+tool+sa", "rsa5", false), w.sa), am.CredentialUntrusted},
		{"11 signed by an authority that a user issued", signer(pki.Authority(t, w.bob, saURN, "rsa5"), w.bob, w.sa), am.CredentialUntrusted},
		{"12 signed by another authority", func(c *pki.Credential) {
			c.Signer = []*pki.Entity{stranger}
		}, am.CredentialUntrusted},
		{"12 signed by a sub-authority for its parent's slice", signer(labSA, w.sa), am.CredentialUntrusted},
		{"16 by a cm of the right authority", signer(named("cm"), w.sa), am.CredentialUntrusted},
		{"16 by an am of the right authority", signer(named("am"), w.sa), am.CredentialUntrusted},
		{"neighbour: by ma", signer(named("ma"), w.sa), accept},
		{"neighbour: by ca", signer(named("ca"), w.sa), accept},
		{"neighbour: by ch", signer(named("ch"), w.sa), accept},
		{"neighbour: by root", signer(named("ROOT"), w.sa), accept},

		{"14 owner certificate expired", owner(issue(w.sa, expired, aliceURN, "rsa2", false)), am.CredentialExpired},
		{"14 target certificate expired", target(issue(w.sa, expired, sliceURN, "rsa3", false)), am.CredentialExpired},
		{"14 signer certificate expired", signer(issue(w.sa, expired, saURN, "rsa5", true)), am.CredentialExpired},
		{"14 owner certificate not yet valid", owner(issue(w.sa, future, aliceURN, "rsa2", false)), am.CredentialExpired},
		{"14 target certificate not yet valid", target(issue(w.sa, future, sliceURN, "rsa3", false)), am.CredentialExpired},
		{"14 signer certificate not yet valid", signer(issue(w.sa, future, saURN, "rsa5", true)), am.CredentialExpired},
		{"14 intermediate expired", func(c *pki.Credential) {
			between := issue(w.sa, expired, "urn:publicid:IDN+example.org+authority+ca", "rsa5", true)
			c.Signer = []*pki.Entity{pki.Authority(t, between, saURN, "rsa6"), between}
		}, am.CredentialExpired},
		{"14 owner certificate of a stranger", owner(pki.User(t, stranger, aliceURN, "rsa2"), stranger), am.CredentialUntrusted},
		{"14 target certificate of a stranger", target(pki.User(t, fakeSA, sliceURN, "rsa3"), fakeSA), am.CredentialUntrusted},

		{"16 of another slice", target(w.other, w.sa), am.CredentialMismatch},
		{"16 of another user", owner(w.bob), am.CredentialMismatch},
		{"16 of a user", target(w.alice, w.sa), am.CredentialMismatch},
		{"16 of an authority", target(w.sa), am.CredentialMismatch},
		{"13 of a slice of a sub-authority", target(labUser, w.sa), am.CredentialMismatch},
		{"13 signed by the sub-authority for its own slice", func(c *pki.Credential) {
			c.Signer, c.Target = []*pki.Entity{labSA, w.sa}, []*pki.Entity{labSlice, labSA}
		}, am.CredentialMismatch},
		{"17 gid of the caller, name of another", func(c *pki.Credential) { c.OwnerURN = bobURN }, am.CredentialMismatch},
		{"17 gid of another, name of the caller", func(c *pki.Credential) { c.Owner, c.OwnerURN = []*pki.Entity{w.bob}, aliceURN }, am.CredentialMismatch},
		{"17 gid of the slice, name of another", func(c *pki.Credential) { c.TargetURN = w.other.URN.String() }, am.CredentialMismatch},
		{"17 gid of another slice, name of this", func(c *pki.Credential) { c.Target, c.TargetURN = []*pki.Entity{w.other}, sliceURN }, am.CredentialMismatch},
		{"neighbour: names absent", func(c *pki.Credential) {
			c.Edit = func(doc string) string {
				return replace(t, replace(t, doc, "<owner_urn>"+aliceURN+"</owner_urn>", ""), "<target_urn>"+sliceURN+"</target_urn>", "")
			}
		}, accept},

		{"18 no privileges", privileges(), am.NoDetail},
		{"18 unknown privilege", privileges("everything"), am.NoDetail},
		{"18 only info for Allocate", privileges("info"), am.NoDetail},
		{"18 a privilege twice", privileges("embed", "Embed"), am.CredentialInvalid},
		{"18 two lists of privileges", edit("<privileges>", "<privileges/><privileges>"), am.CredentialInvalid},
		{"18 no list of privileges", func(c *pki.Credential) {
			c.Edit = func(doc string) string { return replace(t, doc, between(doc, "<privileges>", "</privileges>"), "") }
		}, am.NoDetail},
		{"18 privilege without name", edit("<name>embed</name>", ""), am.CredentialInvalid},
		{"18 privilege with two names", edit("<name>refresh</name>", "<name>refresh</name><name>*</name>"), am.CredentialInvalid},
		{"18 privilege named *embed", privileges("*embed"), am.NoDetail},
		{"18 can_delegate is not boolean", edit("<can_delegate>true", "<can_delegate>maybe"), am.CredentialInvalid},
		{"neighbour: can_delegate 0", edit("<can_delegate>true", "<can_delegate>0"), accept},
		{"18 something else among the privileges", edit("<privileges>", "<privileges><x/>"), am.CredentialInvalid},
		{"18 text among the privileges", edit("<privileges>", "<privileges>*"), am.CredentialInvalid},

		{"type capability", func(c *pki.Credential) { c.Type = "capability" }, am.CredentialInvalid},
		{"type abac", func(c *pki.Credential) { c.Type = "abac" }, am.CredentialInvalid},
		{"type twice", edit("<type>privilege</type>", "<type>privilege</type><type>privilege</type>"), am.CredentialInvalid},
		{"no type", edit("<type>privilege</type>", ""), am.CredentialInvalid},
		{"owner_gid twice", edit("<owner_urn>", "<owner_gid/><owner_urn>"), am.CredentialInvalid},
		{"target_urn twice", edit("<uuid/>", "<uuid/><target_urn>"+sliceURN+"</target_urn>"), am.CredentialInvalid},
		{"expires twice", edit("<uuid/>", "<expires>2027-01-01T00:00:00Z</expires>"), am.CredentialInvalid},
		{"no expires", func(c *pki.Credential) {
			c.Edit = func(doc string) string { return replace(t, doc, between(doc, "<expires>", "</expires>"), "") }
		}, am.CredentialInvalid},
		{"owner_gid empty", func(c *pki.Credential) {
			c.Edit = func(doc string) string {
				return replace(t, doc, between(doc, "<owner_gid>", "</owner_gid>"), "<owner_gid/>")
			}
		}, am.CredentialInvalid},
		{"23 eleven certificates in a GID", func(c *pki.Credential) { c.Owner = append(c.Owner, make11(w.sa)...) }, am.CredentialInvalid},

		{"24 element inside a name", edit("+slice+s1</target_urn>", "+slice+s<b/>1</target_urn>"), am.CredentialInvalid},
		{"24 comment inside a name, signed with it", edit("+slice+s1</target_urn>", "+slice+s<!-- x -->1</target_urn>"), am.CredentialInvalid},
		{"24 PI inside a name, signed with it", edit("+slice+s1</target_urn>", "+slice+s<?x?>1</target_urn>"), am.CredentialInvalid},
		{"24 CDATA inside a name, signed with it", edit("+slice+s1</target_urn>", "+slice+<![CDATA[s1]]></target_urn>"), am.CredentialInvalid},
		{"neighbour: white space around a name", edit("+slice+s1</target_urn>", "+slice+s1\n </target_urn>"), accept},
		{"neighbour: a reference in a name", edit("+slice+s1</target_urn>", "+slice+s&#49;</target_urn>"), accept},
		{"25 percent-encoding", edit("+slice+s1</target_urn>", "+slice+%731</target_urn>"), am.CredentialMismatch},
		{"25 encoded NUL", edit("+slice+s1</target_urn>", "+slice+s1%00</target_urn>"), am.CredentialMismatch},
		{"25 zero-width joiner", edit("+slice+s1</target_urn>", "+slice+s\u200d1</target_urn>"), am.CredentialMismatch},
		{"25 no-break space after", edit("+slice+s1</target_urn>", "+slice+s1\u00a0</target_urn>"), am.CredentialMismatch},
		{"25 homoglyph", edit("+slice+s1</target_urn>", "+slice+ѕ1</target_urn>"), am.CredentialMismatch},
		{"25 decomposed", edit("+user+alice</owner_urn>", "+user+alice\u0301</owner_urn>"), am.CredentialMismatch},
		{"neighbour: case of authority, slice and prefix", edit(sliceURN+"</target_urn>", "URN:publicid:IDN+EXAMPLE.org+slice+S1</target_urn>"), accept},
		{"26 owner_urn in a foreign namespace", edit("<owner_urn>", `<owner_urn xmlns="urn:x">`), am.CredentialInvalid},
		{"26 target_urn again in a foreign namespace", edit("<uuid/>", `<x:target_urn xmlns:x="urn:x">`+sliceURN+`</x:target_urn>`), am.CredentialInvalid},
		{"26 privilege in a foreign namespace", edit("<privilege>", `<x:privilege xmlns:x="urn:x"><name>*</name></x:privilege><privilege>`), am.CredentialInvalid},
		{"26 name in a foreign namespace", edit("<name>refresh", `<name xmlns="urn:x">refresh`), am.CredentialInvalid},
	} {
		t.Run(tt.attack, func(t *testing.T) {
			credential := w.sliceCredential()
			tt.change(&credential)
			doc := credential.Signed(t)
			_, err := w.over(t, credentials.RightAllocate, doc)
			if tt.want == accept {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if got := detail(t, err); got != tt.want {
				t.Errorf("detail %d, want %d: %v", got, tt.want, err)
			}
		})
	}
}

func make11(e *pki.Entity) []*pki.Entity {
	list := make([]*pki.Entity, 11)
	for i := range list {
		list[i] = e
	}
	return list
}

// TestAttacksOnTheDocument shows that what dsig refuses stays refused here, in
// the words an experimenter reads.
func TestAttacksOnTheDocument(t *testing.T) {
	w := newWorld(t)
	doc := w.sliceCredential().Signed(t)
	forged := w.sliceCredential()
	forged.Target, forged.ID = []*pki.Entity{w.other, w.sa}, "ref9"
	cred, sig := between(doc, "<credential ", "</credential>"), between(doc, "<Signature ", "</Signature>")
	for attack, d := range map[string]string{
		"1 privilege changed":               replace(t, doc, "<name>info", "<name>*"),
		"2 signature removed":               replace(t, doc, sig, ""),
		"3 forged first, signed in its arm": replace(t, doc, cred, replace(t, forged.Element(), "</credential>", "<extensions>"+cred+"</extensions></credential>")),
		"3 forged one without id first":     replace(t, doc, cred, replace(t, forged.Element(), ` xml:id="ref9"`, "")+cred),
		"4 two of one id":                   replace(t, doc, cred, cred+cred),
		"5 reference to nothing":            replace(t, doc, `URI="#ref0"`, `URI=""`),
		"20 HMAC with the public key":       replace(t, doc, "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256", "http://www.w3.org/2000/09/xmldsig#hmac-sha1"),
		"21 external reference":             replace(t, doc, `URI="#ref0"`, `URI="http://127.0.0.1:1/"`),
		"22 DOCTYPE":                        replace(t, doc, "<signed-credential", "<!DOCTYPE x><signed-credential"),
		"27 UTF-16 declared":                replace(t, doc, "utf-8", "UTF-16"),
		"28 trailing data":                  doc + "<x/>",
	} {
		if _, err := w.over(t, credentials.RightAllocate, d); detail(t, err) != am.CredentialInvalid {
			t.Errorf("%s: detail %d: %v", attack, detail(t, err), err)
		}
	}
}

func TestExpiredAnchorVouchesForNobody(t *testing.T) {
	// #35: the anchor lies in the trust folder but its time is over.
	old := pki.Issue(t, nil, pki.Subject{URIs: []string{saURN}, Key: "rsa1", CA: true, From: now.Add(-2 * time.Hour), To: now.Add(time.Hour)})
	z := credentials.New(pki.Anchors(old), credentials.Config{})
	alice, slice := pki.User(t, old, aliceURN, "rsa2"), pki.User(t, old, sliceURN, "rsa3")
	doc := pki.Credential{Owner: []*pki.Entity{alice}, Target: []*pki.Entity{slice}, Signer: []*pki.Entity{old}, Privileges: []string{"*"}}.Signed(t)
	c := z.Identify(pki.Raw(alice), now)
	if _, err := z.Authorize(c, sfa(doc), "", credentials.RightAllocate, now); err != nil {
		t.Fatalf("while it is valid: %v", err)
	}
	after := now.Add(61 * time.Minute)
	if _, err := z.Authorize(c, sfa(doc), "", credentials.RightAllocate, after); detail(t, err) != am.CredentialExpired {
		t.Errorf("credential: %v", err)
	}
	if c := z.Identify(pki.Raw(alice), after); c.Err == nil || !strings.Contains(c.Err.Error(), saURN+" expired") {
		t.Errorf("caller: %v", c.Err)
	}
}

func TestOperatorListsFurtherSigners(t *testing.T) {
	w := newWorld(t)
	credential := w.sliceCredential()
	credential.Signer = []*pki.Entity{pki.Authority(t, w.sa, "urn:publicid:IDN+example.org+authority+Portal", "rsa5"), w.sa}
	doc := sfa(credential.Signed(t))
	if _, err := w.z.Authorize(w.caller(t, w.alice), doc, "", credentials.RightAllocate, now); detail(t, err) != am.CredentialUntrusted {
		t.Errorf("not listed: %v", err)
	}
	z := credentials.New(pki.Anchors(w.sa), credentials.Config{Signers: []string{"portal"}})
	if _, err := z.Authorize(w.caller(t, w.alice), doc, "", credentials.RightAllocate, now); err != nil {
		t.Errorf("listed: %v", err)
	}
}

// TestCredentialWhoseCertificatesCarryTheOddAIA has it on user, slice,
// intermediate and anchor.
func TestCredentialWhoseCertificatesCarryTheOddAIA(t *testing.T) {
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

// TestFlippedByteNeverGrantsMore changes every third byte of a credential (all
// of them in the parts that say who and until when). A change outside the
// signed octets, of white space in the certificate's base64 say, may leave the
// credential good; it must then grant exactly what it granted before.
func TestFlippedByteNeverGrantsMore(t *testing.T) {
	w := newWorld(t)
	doc := []byte(w.sliceCredential().Signed(t))
	caller := w.caller(t, w.alice)
	from := bytes.Index(doc, []byte("<target_urn>"))
	to := bytes.Index(doc, []byte("<X509Certificate>"))
	accepted := 0
	for i := range doc {
		if (i < from || i > to) && i%3 != 0 {
			continue
		}
		changed := bytes.Clone(doc)
		changed[i] ^= 1
		g, err := w.z.Authorize(caller, sfa(string(changed)), "", credentials.RightAllocate, now)
		if err != nil {
			continue
		}
		accepted++
		until, err := g.Over(w.slice.URN)
		if _, other := g.Over(w.other.URN); other == nil || err != nil || !until.Equal(now.Add(24*time.Hour)) {
			t.Fatalf("byte %d of %d, %q, changed and the grant changed too: %v, %v", i, len(doc), doc[max(0, i-20):i+1], until, err)
		}
		if i > from && i < bytes.Index(doc, []byte("</credential>")) {
			t.Fatalf("byte %d, %q, is signed, was changed and accepted", i, doc[max(0, i-20):i+1])
		}
	}
	t.Logf("%d changes do not concern what is signed", accepted)
}

func TestExpiresForms(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		text string
		want time.Time // zero: refused
	}{
		{"2026-11-22T12:00:00Z", now.Add(24 * time.Hour)},
		{"2026-11-22T12:00:00", now.Add(24 * time.Hour)},
		{"2026-11-22T12:00:00+00:00", now.Add(24 * time.Hour)},
		{"2026-11-22T14:00:00+02:00", now.Add(24 * time.Hour)},
		{"2026-11-22T07:00:00-05:00", now.Add(24 * time.Hour)},
		{"2026-11-22T12:00:00.999999Z", now.Add(24 * time.Hour)},
		{"2026-11-22T12:00:00.5", now.Add(24 * time.Hour)},
		{" 2026-11-22T12:00:00Z\n", now.Add(24 * time.Hour)},
		{"9999-12-31T23:59:59Z", now.AddDate(1, 0, 0)}, // the certificates end first
		{"2026-11-21T12:00:00Z", time.Time{}},          // this very second
		{"2026-11-21T12:00:00.9Z", time.Time{}},
		{"2026-11-21T13:59:59+02:00", time.Time{}},
		{"1970-01-01T00:00:00Z", time.Time{}},
		{"0000-00-00T00:00:00Z", time.Time{}},
		{"2026-02-30T00:00:00Z", time.Time{}},
		{"2026-12-31T23:59:60Z", time.Time{}}, // a leap second
		{"12026-11-22T12:00:00Z", time.Time{}},
		{"-2026-11-22T12:00:00Z", time.Time{}},
		{"2027-11-22T12:00:00+99:00", time.Time{}},
		{"2027-11-22", time.Time{}},
		{"2027-11-22 12:00:00", time.Time{}},
		{"tomorrow", time.Time{}},
	} {
		credential := w.sliceCredential()
		credential.Expires = tt.text
		until, err := w.over(t, credentials.RightAllocate, credential.Signed(t))
		if !until.Equal(tt.want) || (err == nil) == tt.want.IsZero() {
			t.Errorf("%q: until %v, %v; want %v", tt.text, until, err, tt.want)
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
	caller := w.caller(b, w.alice)
	doc := sfa(w.sliceCredential().Signed(b))
	run := func(z *credentials.Authorizer) {
		g, err := z.Authorize(caller, doc, "", credentials.RightAllocate, now)
		if err == nil {
			_, err = g.Over(w.slice.URN)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("new", func(b *testing.B) {
		// Two generations in turn, so that nothing is remembered.
		two := []*cert.Anchors{pki.Anchors(w.sa), pki.Anchors(w.sa, w.bob)}
		for i := 0; b.Loop(); i++ {
			w.z.SetAnchors(cert.NewAnchors(two[i%2].List()...))
			run(w.z)
		}
	})
	b.Run("remembered", func(b *testing.B) {
		caller = w.caller(b, w.alice) // under the anchors of now
		b.ReportAllocs()
		for b.Loop() {
			run(w.z)
		}
	})
	b.Run("user known, slice new", func(b *testing.B) {
		var docs [][]credentials.Presented
		for i := range 64 {
			c := w.sliceCredential()
			c.Expires = fmt.Sprintf("2026-11-22T12:00:%02dZ", i%60)
			docs = append(docs, sfa(c.Signed(b)))
		}
		z := credentials.New(pki.Anchors(w.sa), credentials.Config{CacheSize: 1})
		for i := 0; b.Loop(); i++ {
			if _, err := z.Authorize(caller, docs[i%64], "", credentials.RightAllocate, now); err != nil {
				b.Fatal(err)
			}
		}
	})
}
