package credentials_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/credentials/cert"
	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
)

// certificateAttacks use certificates that must not be accepted.
func certificateAttacks(t *testing.T, w *world) []attack {
	return slices.Concat(
		callerAttacks(t, w), chainAttacks(t, w), dateAttacks(t, w), keyAttacks(t, w), prefixAttacks(t, w), revocationAttacks(t, w), crowdAttacks(t, w),
	)
}

// calls is a scene with alice's credential and a caller with these certificates.
func (s scene) calls(raw ...[]byte) scene {
	s.caller = raw
	return s
}

func (s scene) trusts(list ...*pki.Entity) scene {
	s.anchors = func() *cert.Anchors { return pki.Anchors(list...) }
	return s
}

// callerAttacks are client certificates with the name of another user, or without one.
func callerAttacks(t *testing.T, w *world) []attack {
	good := shows(w.sliceCredential().Signed(t))
	der := func(s pki.Subject) []byte { s.Key = "rsa2"; return pki.DER(t, w.sa, s) }
	named := func(uris ...string) scene { return good.calls(der(pki.Subject{URIs: uris})) }
	const uuid = "urn:uuid:4210b70b-0ee9-4e70-9c6c-8a6326b541a7"
	own := func(e *pki.Entity) scene {
		c := w.sliceCredential()
		c.Owner = []*pki.Entity{e}
		return shows(c.Signed(t)).calls(e.Raw)
	}
	node := pki.User(t, w.sa, "urn:publicid:IDN+example.org+node+pc1", "rsa2")
	critical := func(oid ...int) scene {
		return good.calls(der(pki.Subject{URIs: []string{aliceURN}, Extra: []pkix.Extension{{Id: oid, Critical: true, Value: []byte{4, 0}}}}))
	}
	loose := good.calls(der(pki.Subject{URIs: []string{aliceURN}, Extra: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: []byte{4, 0}}}}))
	return []attack{
		{32, "client with a URN in the CN only", rule.HasURN, good.calls(der(pki.Subject{CN: aliceURN})), named(aliceURN)},
		{32, "client without URN, alice's in the CN", rule.HasURN, good.calls(der(pki.Subject{URIs: []string{uuid}, CN: aliceURN})), named(uuid, aliceURN)},
		{32, "client of two URNs, alice's first", rule.SingleURN, named(aliceURN, bobURN), named(aliceURN, aliceURN)},
		{32, "client of two URNs of one name, a user's and a tool's", rule.SingleURN, named(aliceURN, strings.Replace(aliceURN, "user", "tool", 1)), named(aliceURN, uuid)},
		{32, "client with a malformed URN before alice's", rule.URNsWellFormed, named("urn:publicid:IDN+example.org", aliceURN), named("https://example.org", aliceURN)},
		{25, "client with alice's URN and a blank, before alice's", rule.URNsWellFormed, named(aliceURN+" ", aliceURN), named(aliceURN)},
		{25, "client with an encoded NUL behind alice's name", rule.URNsWellFormed, named(aliceURN+"%00.example.net", aliceURN), named(aliceURN)},
		{32, "client is a slice", rule.CallerKind, own(w.slice), own(w.alice)},
		{32, "client is a node", rule.CallerKind, own(node), own(w.alice)},
		{32, "client is an authority, with a credential of its own", rule.AuthorityAlone, own(w.sa), own(w.tool)},
		{32, "client with a critical extension that nobody knows", rule.CriticalExtensions, critical(1, 2, 3, 4), loose},
		{23, "client with a certificate of 64 KiB", rule.CertificateSize, good.calls(w.alice.Raw, make([]byte, cert.MaxBytes)), good.calls(w.alice.Raw, make([]byte, 1024))},
		{23, "client with eleven certificates", rule.CertificateCount, good.calls(slices.Repeat([][]byte{w.alice.Raw}, 11)...), good.calls(slices.Repeat([][]byte{w.alice.Raw}, 10)...)},
		{32, "client with no certificate", rule.Presented, good.calls([][]byte{}...), good},
		{32, "client with a certificate that is none", rule.Readable, good.calls([]byte("alice")), good},
	}
}

// chainAttacks are client certificates with alice's name from an issuer that may not issue them.
func chainAttacks(t *testing.T, w *world) []attack {
	good := shows(w.sliceCredential().Signed(t))
	alice := pki.Subject{URIs: []string{aliceURN}, Key: "rsa2"}
	// below is alice, issued by one that the sa issued.
	below := func(issuer pki.Subject) scene {
		issuer.Key = "rsa5"
		between := pki.Issue(t, w.sa, issuer)
		return good.calls(pki.DER(t, between, alice), between.Raw)
	}
	ma := pki.Subject{URIs: []string{"urn:publicid:IDN+example.org+authority+ma"}, CA: true}
	as := func(change func(*pki.Subject)) scene { s := ma; change(&s); return below(s) }
	root := func(cn string) *pki.Entity {
		return pki.Issue(t, nil, pki.Subject{URIs: []string{saURN}, CN: cn, CA: true, Key: "rsa5"})
	}
	same, other := root(w.sa.Subject.CommonName), root("another")
	net := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+sa", "rsa5")
	netAlice := pki.User(t, net, "urn:publicid:IDN+example.net+user+alice", "rsa2")
	netOwn := w.sliceCredential()
	netOwn.Owner = []*pki.Entity{netAlice, net}
	desk := pki.Issue(t, w.sa, pki.Subject{URIs: ma.URIs, CA: true, Key: "rsa5"})
	left := pki.DER(t, desk, alice)
	short := pki.Issue(t, nil, pki.Subject{URIs: []string{saURN}, CA: true, Key: "rsa4", PathLen: 1})
	constraints := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 30}, Critical: true,
		Value: []byte{0x30, 0x10, 0xa0, 0x0e, 0x30, 0x0c, 0x82, 0x0a, 'e', 'x', '.', 'e', 'x', 'a', 'm', 'p', 'l', 'e'}}
	usage := func(u x509.KeyUsage) func(*pki.Subject) { return func(s *pki.Subject) { s.KeyUsage = u } }
	sub := pki.Authority(t, short, ma.URIs[0], "rsa5")
	return []attack{
		{7, "client with a certificate that it made itself", rule.Anchored, good.calls(pki.DER(t, nil, alice)), good},
		{32, "client below an authority that is not shown", rule.Anchored, good.calls(left), good.calls(left, desk.Raw)},
		{7, "client with an authority that it made itself", rule.Anchored, good.calls(pki.DER(t, other, alice), other.Raw), good.calls(pki.DER(t, w.sa, alice), w.sa.Raw)},
		{7, "client with an authority that it made itself, named like the sa", rule.CertificateSignature, good.calls(pki.DER(t, same, alice), same.Raw), good.calls(pki.DER(t, w.sa, alice), w.sa.Raw)},
		{11, "client issued by a user", rule.IssuerIsCA, below(pki.Subject{URIs: []string{bobURN}}), below(ma)},
		{11, "client issued by a user with CA:TRUE", rule.IssuerIsAuthority, below(pki.Subject{URIs: []string{bobURN}, CA: true}), below(ma)},
		{11, "client issued by a slice with CA:TRUE", rule.IssuerIsAuthority, below(pki.Subject{URIs: []string{sliceURN}, CA: true}), below(ma)},
		{11, "client issued by an authority with CA:FALSE", rule.IssuerIsCA, as(func(s *pki.Subject) { s.CA = false }), below(ma)},
		{11, "client issued by a key that is not for certificates", rule.IssuerKeyUsage, as(usage(x509.KeyUsageDigitalSignature)), as(usage(x509.KeyUsageCertSign))},
		{11, "client with more between it and its root than may be", rule.PathLength, good.calls(pki.DER(t, sub, alice), sub.Raw).trusts(short, w.sa), good.calls(pki.DER(t, short, alice)).trusts(short, w.sa)},
		{11, "client below critical name constraints", rule.CriticalExtensions, as(func(s *pki.Subject) { s.Extra = []pkix.Extension{constraints} }), below(ma)},
		{32, "client not covered by its root", rule.Namespace, good.calls(pki.DER(t, net, alice), net.Raw).trusts(w.sa, net), shows(netOwn.Signed(t)).calls(netAlice.Raw).trusts(w.sa, net)},
		{32, "client of a root that names nobody", rule.Namespace, nameless(t, w, good, nil), nameless(t, w, good, []string{"example.org"})},
		{32, "client issued by an authority that lies outside its root", rule.Namespace, as(func(s *pki.Subject) { s.URIs = []string{"urn:publicid:IDN+example.net+authority+ma"} }), below(ma)},
	}
}

// nameless is a scene whose client has a root without URN. The operator accepts this root for
// some authorities.
func nameless(t *testing.T, w *world, s scene, authorities []string) scene {
	root := pki.Issue(t, nil, pki.Subject{CN: "root", CA: true, Key: "rsa5"})
	s.anchors = func() *cert.Anchors {
		return cert.NewAnchors(cert.Anchor{Certificate: w.sa.Certificate}, cert.Anchor{Certificate: root.Certificate, Authorities: authorities})
	}
	return s.calls(pki.DER(t, root, pki.Subject{URIs: []string{aliceURN}, Key: "rsa2"}))
}

// dateAttacks use expired and not yet valid certificates at every position of a chain.
func dateAttacks(t *testing.T, w *world) []attack {
	past := pki.Subject{From: now.Add(-2 * time.Hour), To: now.Add(-time.Minute)}
	future := pki.Subject{From: now.Add(time.Hour)}
	issue := func(issuer *pki.Entity, s pki.Subject, uri, key string, ca bool) *pki.Entity {
		s.URIs, s.Key, s.CA = []string{uri}, key, ca
		return pki.Issue(t, issuer, s)
	}
	const ma = "urn:publicid:IDN+example.org+authority+ma"
	sign := func(change func(*pki.Credential)) scene {
		c := w.sliceCredential()
		change(&c)
		return shows(c.Signed(t))
	}
	parts := []struct {
		name string
		make func(s pki.Subject) scene
	}{
		{"owner", func(s pki.Subject) scene {
			return sign(func(c *pki.Credential) { c.Owner = []*pki.Entity{issue(w.sa, s, aliceURN, "rsa2", false)} })
		}},
		{"target", func(s pki.Subject) scene {
			return sign(func(c *pki.Credential) { c.Target = []*pki.Entity{issue(w.sa, s, sliceURN, "rsa3", false)} })
		}},
		{"signer", func(s pki.Subject) scene {
			return sign(func(c *pki.Credential) { c.Signer = []*pki.Entity{issue(w.sa, s, saURN, "rsa5", true)} })
		}},
		{"intermediate of the signer", func(s pki.Subject) scene {
			between := issue(w.sa, s, ma, "rsa5", true)
			return sign(func(c *pki.Credential) { c.Signer = []*pki.Entity{pki.Authority(t, between, saURN, "rsa6"), between} })
		}},
		{"intermediate of the owner", func(s pki.Subject) scene {
			between := issue(w.sa, s, ma, "rsa5", true)
			return sign(func(c *pki.Credential) { c.Owner = []*pki.Entity{pki.User(t, between, aliceURN, "rsa2"), between} })
		}},
		{"client", func(s pki.Subject) scene {
			return sign(func(*pki.Credential) {}).calls(issue(w.sa, s, aliceURN, "rsa2", false).Raw)
		}},
		{"intermediate of the client", func(s pki.Subject) scene {
			between := issue(w.sa, s, ma, "rsa5", true)
			return sign(func(*pki.Credential) {}).calls(pki.User(t, between, aliceURN, "rsa2").Raw, between.Raw)
		}},
	}
	var rows []attack
	for _, p := range parts {
		rows = append(rows,
			attack{14, "expired certificate of " + p.name, rule.CertificateExpired, p.make(past), p.make(pki.Subject{})},
			attack{14, "not yet valid certificate of " + p.name, rule.CertificateStarted, p.make(future), p.make(pki.Subject{})})
	}
	// Certificates end with their anchor, although it is in the trust folder.
	old := issue(nil, past, saURN, "rsa1", true)
	c := pki.Credential{
		Owner: []*pki.Entity{pki.User(t, old, aliceURN, "rsa2")}, Target: []*pki.Entity{pki.User(t, old, sliceURN, "rsa3")},
		Signer: []*pki.Entity{old}, Privileges: []string{"*"},
	}
	gone := shows(c.Signed(t)).calls(c.Owner[0].Raw).trusts(old)
	before := gone
	before.now = now.Add(-30 * time.Minute)
	return append(rows, attack{35, "expired anchor in the trust folder", rule.CertificateExpired, gone, before})
}

// keyAttacks use keys and signatures of certificates that are too weak or too expensive to verify.
func keyAttacks(t *testing.T, w *world) []attack {
	good := shows(w.sliceCredential().Signed(t))
	key := func(name string) scene {
		return good.calls(pki.DER(t, w.sa, pki.Subject{URIs: []string{aliceURN}, Key: name}))
	}
	algorithm := func(a x509.SignatureAlgorithm) scene {
		return good.calls(pki.DER(t, w.sa, pki.Subject{URIs: []string{aliceURN}, Key: "rsa2", Algorithm: a}))
	}
	cubes := pki.Authority(t, nil, saURN, "rsa-e3")
	alice := pki.Subject{URIs: []string{aliceURN}, Key: "rsa2"}
	der := pki.DER(t, w.sa, alice)
	large := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org+authority+ma", "rsa8200")
	return []attack{
		{20, "client's certificate with a signature that is a cube root, of a key with e=3", rule.CertificateSignature,
			good.calls(pki.Forged(t, cubes, alice)).trusts(w.sa, cubes), good.calls(pki.DER(t, cubes, alice)).trusts(w.sa, cubes)},
		{20, "client's certificate with the signature of another", rule.CertificateSignature, good.calls(pki.Resigned(t, der, w.bob.Signature)), good.calls(der)},
		{20, "client's certificate with an empty signature", rule.CertificateSignature, good.calls(pki.Resigned(t, der, nil)), good.calls(der)},
		{20, "client's certificate signed with a method that is not on the list", rule.CertificateSignature, algorithm(x509.SHA256WithRSAPSS), algorithm(x509.SHA384WithRSA)},
		{20, "client's certificate signed with SHA-1", rule.CertificateDigest, algorithm(x509.SHA1WithRSA), algorithm(x509.SHA256WithRSA)},
		{20, "client's key is RSA of 1024 bits", rule.MinKeySize, key("rsa1024"), key("rsa2")},
		{20, "client's key is on a curve that is not on the list", rule.KeyKind, key("p224"), key("p256")},
		{23, "client's key is RSA of 8200 bits", rule.MaxKeySize, key("rsa8200"), key("rsa2")},
		{23, "client's issuer has a key of 8200 bits", rule.MaxKeySize, good.calls(pki.DER(t, large, alice), large.Raw), good.calls(der)},
	}
}

// prefixes are triples of an authority, one that it may not issue for, and one that it may issue for.
var prefixes = []struct{ authority, other, below, why string }{
	{"example.net", "example.net.evil", "example.net:evil", "a name that begins alike"},
	{"example.net", "xexample.net", "example.net:x", "a name that ends alike"},
	{"example.net", "example.ne", "example.net", "a name that is its beginning"},
	{"example.net:a", "example.net:ab", "example.net:a:b", "a label that begins alike"},
	{"example.net:ab", "example.net:a", "example.net:ab", "a label that is its beginning"},
	{"example.net", "examplexnet", "EXAMPLE.net", "a name that it matches as a pattern"},
	{"example.net:lab", "example.net", "example.net:LAB", "the one above it"},
	{"example.net:lab", "example.net:desk", "example.net:lab:desk", "the one beside it"},
}

// prefixAttacks have a trusted authority issue a user of an authority whose name only looks like
// one of its sub-authorities.
func prefixAttacks(t *testing.T, w *world) (rows []attack) {
	for _, p := range prefixes {
		issuer := pki.Authority(t, nil, "urn:publicid:IDN+"+p.authority+"+authority+sa", "rsa5")
		user := func(authority string) scene {
			e := pki.User(t, issuer, "urn:publicid:IDN+"+authority+"+user+alice", "rsa2")
			c := w.sliceCredential()
			c.Owner = []*pki.Entity{e}
			return shows(c.Signed(t)).calls(e.Raw).trusts(w.sa, issuer)
		}
		rows = append(rows, attack{13, fmt.Sprintf("client of %s issued by %s: %s", p.other, p.authority, p.why), rule.Namespace, user(p.other), user(p.below)})
	}
	return rows
}

// revocationAttacks use revoked certificates.
func revocationAttacks(t *testing.T, w *world) []attack {
	good := shows(w.sliceCredential().Signed(t)).calls(w.alice.Raw)
	under := func(s scene, file, text string) scene {
		s.anchors = func() *cert.Anchors { return pki.Trust(t, map[string]string{file: text}, w.sa) }
		return s
	}
	denied := func(s scene, line string) scene { return under(s, "denied", line+"\n") }
	serial := func(e *pki.Entity) string { return fmt.Sprintf("serial %X of %s", e.SerialNumber, saURN) }
	ma := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org+authority+ma", "rsa5")
	below := good.calls(pki.User(t, ma, aliceURN, "rsa2").Raw, ma.Raw)
	old := pki.User(t, w.sa, aliceURN, "rsa2") // which the credential does not hold
	tail := good.calls(pki.WithTail(t, old.Raw))
	carol := "urn:publicid:IDN+example.org+user+carol"
	return []attack{
		{33, "client whose number its issuer revoked", rule.NotRevoked, under(good, "sa.crl", pki.CRL(t, w.sa, w.alice)), under(good, "sa.crl", pki.CRL(t, w.sa, w.bob))},
		{33, "client whose number the operator denies", rule.NotRevoked, denied(good, serial(w.alice)), denied(good, serial(w.bob))},
		{33, "client whose name the operator denies", rule.NotRevoked, denied(good, aliceURN), denied(good, carol)},
		{33, "client whose issuer was revoked", rule.NotRevoked, under(below, "sa.crl", pki.CRL(t, w.sa, ma)), under(below, "sa.crl", pki.CRL(t, w.sa, w.bob))},
		{33, "slice whose number its issuer revoked", rule.NotRevoked, under(good, "sa.crl", pki.CRL(t, w.sa, w.slice)), under(good, "sa.crl", pki.CRL(t, w.sa, w.other))},
		{33, "anchor that the operator denies", rule.NotRevoked, denied(good, saURN), denied(good, strings.Replace(saURN, "+sa", "+am", 1))},
		{33, "client denied by fingerprint, with something added to its certificate", rule.NoTrailingData,
			denied(tail, "sha256:"+old.Fingerprint()), denied(good, "sha256:"+old.Fingerprint())},
		{33, "client denied by fingerprint, with the other signature of the same key", rule.NotRevoked, twinOf(t, w, true), twinOf(t, w, false)},
	}
}

// twinOf is a client with a certificate signed by an ECDSA key, who presents it with (r, n-s) in
// place of (r, s). The deny list has the first form, or another certificate.
func twinOf(t *testing.T, w *world, denied bool) scene {
	curve := pki.Authority(t, nil, saURN, "p256")
	alice := pki.User(t, curve, aliceURN, "rsa2")
	fingerprint := w.bob.Fingerprint()
	if denied {
		fingerprint = alice.Fingerprint()
	}
	s := shows(w.sliceCredential().Signed(t)).calls(pki.Twin(t, curve, alice.Raw))
	s.anchors = func() *cert.Anchors {
		return pki.Trust(t, map[string]string{"denied": "sha256:" + fingerprint + "\n"}, w.sa, curve)
	}
	return s
}

// crowdAttacks make the search for a chain expensive.
func crowdAttacks(t *testing.T, w *world) []attack {
	long := func(levels int) scene {
		chain := []*pki.Entity{w.sa}
		for i := range levels - 2 {
			chain = append(chain, pki.Issue(t, chain[i], pki.Subject{URIs: []string{saURN}, CN: fmt.Sprint("level ", i), CA: true, Key: "rsa5"}))
		}
		raw := pki.Raw(append(chain, pki.User(t, chain[len(chain)-1], aliceURN, "rsa2"))...)
		slices.Reverse(raw)
		return shows(w.sliceCredential().Signed(t)).calls(raw[:len(raw)-1]...)
	}
	return []attack{
		{23, "client with a chain of nine", rule.ChainLength, long(9), long(8)},
		{23, "chain hidden among issuers of its name", rule.SearchLength, hidden(t, w, "rsa4", 32), hidden(t, w, "rsa4", 30)},
		{23, "chains hidden among issuers of their name whose keys are costly", rule.Budget, hidden(t, w, "p521", 30), hidden(t, w, "p256", 30)},
	}
}

// hidden is a credential delegated to bob. The chains of all its parts lead through one issuer,
// which comes last, behind others of the same name that issued nothing.
func hidden(t *testing.T, w *world, key string, others int) scene {
	issuer := pki.Subject{URIs: []string{"urn:publicid:IDN+example.org+authority+ma"}, CA: true, Key: "rsa5"}
	ma := pki.Issue(t, w.sa, issuer)
	issuer.Key = key
	var crowd []*pki.Entity
	for range others {
		crowd = append(crowd, pki.Issue(t, nil, issuer))
	}
	alice, bob, slice := pki.User(t, ma, aliceURN, "rsa2"), pki.User(t, ma, bobURN, "rsa3"), pki.User(t, ma, sliceURN, "rsa3")
	// some takes up to nine of the crowd.
	some := func(first *pki.Entity) []*pki.Entity {
		n := min(9, len(crowd))
		list := append([]*pki.Entity{first}, crowd[:n]...)
		crowd = crowd[n:]
		return list
	}
	levels := []pki.Credential{w.sliceCredential(), w.sliceCredential()}
	levels[0].Owner, levels[0].Target, levels[0].Signer = some(bob), some(slice), some(alice)
	levels[1].Owner, levels[1].Target, levels[1].Signer = some(alice), []*pki.Entity{slice}, []*pki.Entity{w.sa}
	if len(crowd) > 0 {
		t.Fatalf("%d of the crowd have no place", len(crowd))
	}
	return shows(pki.Delegated(t, levels...)).calls(bob.Raw, ma.Raw)
}
