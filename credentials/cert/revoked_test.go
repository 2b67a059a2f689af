package cert_test

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

// wantReason verifies a leaf; -1 is for a good one.
func wantReason(t testing.TB, a *cert.Anchors, leaf *pki.Entity, others []*pki.Entity, want cert.Reason) {
	t.Helper()
	var list []*cert.Certificate
	for _, e := range others {
		list = append(list, e.Certificate)
	}
	_, err := cert.Verify(leaf.Certificate, list, a, cert.Options{}, pki.Now)
	if want == -1 {
		if err != nil {
			t.Errorf("%s: %v", leaf.Name(), err)
		}
		return
	}
	e, ok := errors.AsType[*cert.Error](err)
	if !ok || e.Reason != want {
		t.Errorf("%s: %v, want the reason %d", leaf.Name(), err, want)
	}
}

// levels is a chain of four with the keys of each level apart.
type levels struct{ root, sub, low, alice, bob *pki.Entity }

func fourLevels(t testing.TB) levels {
	root := pki.Authority(t, nil, saURN, "rsa1")
	sub := pki.Authority(t, root, "urn:publicid:IDN+example.org:lab+authority+sa", "rsa2")
	low := pki.Authority(t, sub, "urn:publicid:IDN+example.org:lab:desk+authority+sa", "rsa4")
	return levels{root, sub, low,
		pki.User(t, low, "urn:publicid:IDN+example.org:lab:desk+user+alice", "rsa3"),
		pki.User(t, low, "urn:publicid:IDN+example.org:lab:desk+user+bob", "rsa3")}
}

func (l levels) between() []*pki.Entity { return []*pki.Entity{l.low, l.sub, l.root} }

func TestRevokedByCRL(t *testing.T) {
	l := fourLevels(t)
	stranger := pki.Issue(t, nil, pki.Subject{URIs: []string{saURN}, Key: "rsa5", CA: true}) // root's name, another key
	noLists := pki.Issue(t, l.root, pki.Subject{URIs: []string{"urn:publicid:IDN+example.org:q+authority+sa"}, Key: "rsa5", CA: true, KeyUsage: x509.KeyUsageCertSign})
	lists := pki.Issue(t, l.root, pki.Subject{URIs: []string{"urn:publicid:IDN+example.org:q+authority+sa"}, Key: "rsa5", CA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign})
	carol, dave := pki.User(t, noLists, "urn:publicid:IDN+example.org:q+user+carol", "rsa3"), pki.User(t, lists, "urn:publicid:IDN+example.org:q+user+dave", "rsa3")
	two := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+ca", "p256")
	erin := pki.User(t, two, "urn:publicid:IDN+example.net+user+erin", "rsa3")
	for _, tt := range []struct {
		rule  string
		files map[string]string
		leaf  *pki.Entity
		with  []*pki.Entity
		want  cert.Reason
	}{
		{"none", nil, l.alice, l.between(), -1},
		{"of the leaf, by an authority between", map[string]string{"x.crl": crl{revoke: serials(l.alice)}.pem(t, l.low)}, l.alice, l.between(), cert.Revoked},
		{"of another leaf", map[string]string{"x.crl": crl{revoke: serials(l.bob)}.pem(t, l.low)}, l.alice, l.between(), -1},
		{"of the lower authority", map[string]string{"x.crl": crl{revoke: serials(l.low)}.pem(t, l.sub)}, l.alice, l.between(), cert.Revoked},
		{"of the upper authority, by the anchor", map[string]string{"x.crl": crl{revoke: serials(l.sub)}.pem(t, l.root)}, l.alice, l.between(), cert.Revoked},
		{"number of the leaf, but another issuer's list", map[string]string{"x.crl": crl{revoke: serials(l.alice)}.pem(t, l.root)}, l.alice, l.between(), -1},
		{"name of an authority between, key of another", map[string]string{"x.crl": crl{revoke: serials(l.alice), key: pki.Key(t, "rsa6")}.pem(t, l.low)}, l.alice, l.between(), -1},
		{"signed by the leaf's own key in the name of the issuer", map[string]string{"x.crl": crl{revoke: serials(l.bob), key: l.alice.Key}.pem(t, l.low)}, l.bob, l.between(), -1},
		{"two in one file, text around", map[string]string{"x.crl": "a bundle\n" + crl{}.pem(t, two) + "and\n" + crl{revoke: serials(l.sub)}.pem(t, l.root)}, l.alice, l.between(), cert.Revoked},
		{"two files of one issuer, the older names it", map[string]string{"x.crl": crl{revoke: serials(l.sub), from: pki.Now.AddDate(0, -2, 0), to: pki.Now.AddDate(0, -1, 0)}.pem(t, l.root), "y.crl": crl{}.pem(t, l.root)}, l.alice, l.between(), cert.Revoked},
		{"DER", map[string]string{"x.crl": string(crl{revoke: serials(l.sub)}.der(t, l.root))}, l.alice, l.between(), cert.Revoked},
		{"version 1, SHA-512", map[string]string{"x.crl": crl{revoke: serials(l.sub), version: -1, hash: crypto.SHA512}.pem(t, l.root)}, l.alice, l.between(), cert.Revoked},
		{"ECDSA", map[string]string{"x.crl": crl{revoke: serials(erin)}.pem(t, two)}, erin, nil, cert.Revoked},
		{"next update past", map[string]string{"x.crl": crl{revoke: serials(l.sub), to: pki.Now.Add(-time.Minute)}.pem(t, l.root)}, l.alice, l.between(), cert.Revoked},
		{"this update a little ahead of our clock", map[string]string{"x.crl": crl{revoke: serials(l.sub), from: pki.Now.Add(4 * time.Minute)}.pem(t, l.root)}, l.alice, l.between(), cert.Revoked},
		{"not named *.crl", map[string]string{"x.txt": crl{revoke: serials(l.sub)}.pem(t, l.root)}, l.alice, l.between(), -1},
		{"issuer between whose key usage is not for CRLs", map[string]string{"x.crl": crl{revoke: serials(carol)}.pem(t, noLists)}, carol, []*pki.Entity{noLists}, cert.Revoked},
		{"issuer between whose key usage is for CRLs", map[string]string{"x.crl": crl{revoke: serials(dave)}.pem(t, lists)}, dave, []*pki.Entity{lists}, cert.Revoked},
		{"an impostor's certificate beside does not help", map[string]string{"x.crl": crl{revoke: serials(l.sub)}.pem(t, l.root)}, l.alice, append([]*pki.Entity{stranger}, l.between()...), cert.Revoked},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			wantReason(t, pki.Trust(t, tt.files, l.root, two), tt.leaf, tt.with, tt.want)
		})
	}
}

// TestRevocationIsNotLostOnAnotherPath has two certificates of one authority, one of which is
// revoked. Only the chain through this one is refused.
func TestRevocationIsNotLostOnAnotherPath(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	const name = "urn:publicid:IDN+example.org:lab+authority+sa"
	old, renewed := pki.Authority(t, root, name, "rsa2"), pki.Authority(t, root, name, "rsa2")
	alice := pki.User(t, old, "urn:publicid:IDN+example.org:lab+user+alice", "rsa3")
	a := pki.Trust(t, map[string]string{"x.crl": crl{revoke: serials(old)}.pem(t, root)}, root)
	wantReason(t, a, alice, []*pki.Entity{old}, cert.Revoked)
	wantReason(t, a, alice, []*pki.Entity{old, renewed}, -1)
}

func TestCRLsThatDoNotCount(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	noLists := pki.Issue(t, nil, pki.Subject{URIs: []string{"urn:publicid:IDN+example.net+authority+ca"}, Key: "rsa2", CA: true, KeyUsage: x509.KeyUsageCertSign})
	alice := pki.User(t, root, aliceURN, "rsa3")
	all := crl{revoke: serials(alice)}
	late, future, sha1, delta, forged := all, all, all, all, all
	late.to, future.from, sha1.hash, forged.key = pki.Now.Add(-time.Hour), pki.Now.Add(6*time.Minute), crypto.SHA1, pki.Key(t, "rsa5")
	delta.extensions = append(delta.extensions, extension(true, 27, 2, 1, 1))
	for _, tt := range []struct {
		rule, text string
		options    cert.Options
		want       string // of the problem, "" for none
	}{
		{"good", all.pem(t, root), cert.Options{}, ""},
		{"late", late.pem(t, root), cert.Options{}, ""},
		{"from the future", future.pem(t, root), cert.Options{}, "CRL 1: the CRL of CN=urn:publicid:IDN\\+example.org\\+authority\\+sa begins in the future"},
		{"SHA-1", sha1.pem(t, root), cert.Options{}, "SHA-1"},
		{"SHA-1 by the switch", sha1.pem(t, root), cert.Options{SHA1: true}, ""},
		{"delta", delta.pem(t, root), cert.Options{}, "delta"},
		{"signed by another key", forged.pem(t, root), cert.Options{}, "the key of " + saURN + " has not signed it"},
		{"good one before one of an issuer whose key usage is not for CRLs", all.pem(t, root) + crl{}.pem(t, noLists), cert.Options{}, ""},
		{"empty", "", cert.Options{}, "it contains no CRL"},
		{"a certificate", pki.PEM(root), cert.Options{}, "it contains no CRL"},
		{"no base64", "-----BEGIN X509 CRL-----\n!\n-----END X509 CRL-----\n", cert.Options{}, "CRL 1: it cannot be read"},
		{"cut off", all.pem(t, root)[:300], cert.Options{}, "without END line"},
		{"good one before a bad one", all.pem(t, root) + delta.pem(t, root), cert.Options{}, "CRL 2: it is a delta"},
		{"too large", strings.Repeat(" ", 16<<20+1), cert.Options{}, "larger than"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"root.pem": pki.PEM(root, noLists), "x.crl": tt.text})
			a, problems, err := cert.NewFolder(dir, tt.options).Load(pki.Now)
			if err != nil {
				t.Fatal(err)
			}
			revoked := strings.HasPrefix(tt.rule, "good") || tt.want == ""
			if got, e := cert.Verify(alice.Certificate, nil, a, cert.Options{}, pki.Now); (e != nil) != revoked {
				t.Errorf("alice: %v %v, want revoked %v", got, e, revoked)
			}
			switch {
			case tt.want == "" && len(problems) > 0, tt.want != "" && len(problems) != 1:
				t.Errorf("problems %v", problems)
			case tt.want != "" && (!strings.Contains(problems[0].Text, tt.want) || filepath.Base(problems[0].File) != "x.crl"):
				t.Errorf("problem %v, want %q", problems[0], tt.want)
			}
		})
	}
	t.Run("in a file of anchors", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, map[string]string{"root.pem": pki.PEM(root) + all.pem(t, root)})
		_, problems, _ := cert.LoadAnchors(dir)
		if len(problems) != 1 || !strings.Contains(problems[0].Text, "only from a file named *.crl") {
			t.Errorf("problems %v", problems)
		}
	})
}

func TestAnchorsAreRevokedToo(t *testing.T) {
	l := fourLevels(t)
	fingerprint := "sha256:" + l.sub.Fingerprint()
	stranger := pki.Authority(t, nil, saURN, "rsa5") // root's name, another key
	for _, tt := range []struct {
		rule    string
		anchors []*pki.Entity
		files   map[string]string
		struck  int
		want    cert.Reason // of alice with her whole chain
	}{
		{"both are anchors", []*pki.Entity{l.root, l.sub}, nil, 0, -1},
		{"by the list of its issuer, an anchor too", []*pki.Entity{l.root, l.sub}, map[string]string{"x.crl": crl{revoke: serials(l.sub)}.pem(t, l.root)}, 1, cert.Revoked},
		{"by the list of an issuer that is not here", []*pki.Entity{l.sub}, map[string]string{"x.crl": crl{revoke: serials(l.sub)}.pem(t, l.root)}, 0, -1},
		{"by its own list", []*pki.Entity{l.root}, map[string]string{"x.crl": crl{revoke: serials(l.root)}.pem(t, l.root)}, 1, cert.Revoked},
		{"by the deny list, fingerprint", []*pki.Entity{l.sub}, map[string]string{"denied": fingerprint}, 1, cert.Revoked},
		{"by the deny list, URN", []*pki.Entity{l.sub}, map[string]string{"denied": l.sub.URN.String()}, 1, cert.Revoked},
		{"by the deny list, number of the issuer's URN", []*pki.Entity{l.root, l.sub}, map[string]string{"denied": fmt.Sprintf("serial %X of %s", l.sub.SerialNumber, saURN)}, 1, cert.Revoked},
		{"denied with all it issued, anchors included", []*pki.Entity{l.low, l.sub, l.root}, map[string]string{"denied": saURN}, 3, cert.Revoked},
		{"a denied root that is not here takes no anchor away", []*pki.Entity{l.sub}, map[string]string{"denied": saURN}, 0, -1},
		{"a denied one of its issuer's name has not issued it", []*pki.Entity{l.sub, stranger}, map[string]string{"denied": "sha256:" + stranger.Fingerprint()}, 1, -1},
		{"revoked root beside a deny list, the operator's own choice stays", []*pki.Entity{l.sub, l.root}, map[string]string{"x.crl": crl{revoke: serials(l.root)}.pem(t, l.root), "denied": bobURN}, 1, -1},
		{"revoked root, the operator's own choice stays", []*pki.Entity{l.sub, l.root}, map[string]string{"x.crl": crl{revoke: serials(l.root)}.pem(t, l.root)}, 1, -1},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			a := pki.Trust(t, tt.files, tt.anchors...)
			if len(a.RevokedAnchors()) != tt.struck || len(a.List()) != len(tt.anchors)-tt.struck {
				t.Errorf("%d revoked anchors and %d left, want %d of %d", len(a.RevokedAnchors()), len(a.List()), tt.struck, len(tt.anchors))
			}
			wantReason(t, a, l.alice, l.between(), tt.want)
			wantReason(t, a, l.alice, []*pki.Entity{l.low, l.sub}, tt.want)
		})
	}
}

func TestDeniedCertificates(t *testing.T) {
	l := fourLevels(t)
	slice := pki.User(t, l.low, "urn:publicid:IDN+example.org:lab:desk+slice+s1", "rsa3")
	tool := pki.User(t, l.low, "urn:publicid:IDN+example.org:lab:desk+tool+t1", "rsa3")
	colons := strings.ToUpper(l.alice.Fingerprint()[:2])
	for i := 2; i < 64; i += 2 {
		colons += ":" + strings.ToUpper(l.alice.Fingerprint()[i:i+2])
	}
	serial := fmt.Sprintf("%X", l.alice.SerialNumber)
	lowDN := `CN=urn:publicid:IDN\+example.org:lab:desk\+authority\+sa`
	for _, tt := range []struct {
		rule, line string
		leaf       *pki.Entity
		want       cert.Reason
	}{
		{"user", l.alice.URN.String(), l.alice, cert.Revoked},
		{"user in other case, with a comment", "URN:publicid:IDN+EXAMPLE.org:lab:desk+user+Alice  # left in May", l.alice, cert.Revoked},
		{"another user", l.alice.URN.String(), l.bob, -1},
		{"another type of the same name", strings.Replace(l.alice.URN.String(), "+user+", "+tool+", 1), l.alice, -1},
		{"slice", slice.URN.String(), slice, cert.Revoked},
		{"tool", tool.URN.String(), tool, cert.Revoked},
		{"authority directly above", l.low.URN.String(), l.alice, cert.Revoked},
		{"authority farther up", l.sub.URN.String(), l.alice, cert.Revoked},
		{"authority of the same name elsewhere", "urn:publicid:IDN+example.org:lab:desk:x+authority+sa", l.alice, -1},
		{"fingerprint", "sha256:" + l.alice.Fingerprint(), l.alice, cert.Revoked},
		{"fingerprint as openssl prints it", "SHA256:" + colons, l.alice, cert.Revoked},
		{"fingerprint of the authority between", "sha256:" + l.sub.Fingerprint(), l.alice, cert.Revoked},
		{"number of a URN", "serial " + serial + " of " + l.low.URN.String(), l.alice, cert.Revoked},
		{"number of a URN, with a comment", "serial " + serial + " of " + l.low.URN.String() + " # stolen", l.alice, cert.Revoked},
		{"number with zeros, in any form", "Serial 0x00" + strings.ToLower(serial) + " OF " + l.low.URN.String(), l.alice, cert.Revoked},
		{"number of another URN", "serial " + serial + " of " + l.sub.URN.String(), l.alice, -1},
		{"number of a name", "serial " + serial + " of " + lowDN, l.alice, cert.Revoked},
		{"number of another name", "serial " + serial + " of " + lowDN + ",O=x", l.alice, -1},
		{"other number", "serial 01 of " + lowDN, l.alice, -1},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			a := pki.Trust(t, map[string]string{"denied": "# why\n\n" + tt.line + "\n"}, l.root)
			if n := len(a.Denials()); n != 1 || a.Denials()[0].Line != 3 {
				t.Fatalf("%d entries: %v", n, a.Denials())
			}
			wantReason(t, a, tt.leaf, l.between(), tt.want)
		})
	}
}

// TestRefusalsDoNotQuoteTheLists checks that a refusal names the certificate, the list and the
// remedy, but no other content of the list.
func TestRefusalsDoNotQuoteTheLists(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	alice := pki.User(t, root, aliceURN, "rsa3")
	for file, text := range map[string]string{
		"denied":   "urn:publicid:IDN+example.org+user+secret\nsha256:" + alice.Fingerprint() + " # a private matter\n",
		"ours.crl": crl{revoke: append(serials(alice), big.NewInt(424242))}.pem(t, root),
	} {
		_, err := cert.Verify(alice.Certificate, nil, pki.Trust(t, map[string]string{file: text}, root), cert.Options{}, pki.Now)
		if err == nil || !strings.HasPrefix(err.Error(), aliceURN) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "ask") {
			t.Errorf("%s: %v lacks the name, the list or the remedy", file, err)
			continue
		}
		for _, no := range []string{"/", "secret", "private", "424242", "6792", alice.Fingerprint(), "\n"} {
			if strings.Contains(err.Error(), no) {
				t.Errorf("%s: %v contains %q", file, err, no)
			}
		}
	}
}

func TestGenerationChangesWithRevocations(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	one, two := crl{}.pem(t, root), crl{revoke: []*big.Int{big.NewInt(1)}}.pem(t, root)
	block, _ := pem.Decode([]byte(two))
	generations := map[string]string{} // and what they are of
	for _, s := range []struct {
		what  string
		files map[string]string
		as    string // which has the same generation; empty for none
	}{
		{"an anchor", nil, ""},
		{"a CRL", map[string]string{"a.crl": one}, ""},
		{"another CRL", map[string]string{"a.crl": two}, ""},
		{"the same in DER, in another file", map[string]string{"b.crl": string(block.Bytes)}, "another CRL"},
		{"a denial", map[string]string{"denied": aliceURN}, ""},
		{"with a comment, in another case, twice", map[string]string{"denied": "# comment\n" + strings.ToUpper(aliceURN[:4]) + aliceURN[4:] + "\n" + aliceURN}, "a denial"},
		{"another denial", map[string]string{"denied": bobURN + "\n"}, ""},
		{"an authority listed", map[string]string{"anchors.authorities": "example.com"}, ""},
	} {
		generation := pki.Trust(t, s.files, root).Generation()
		if before := generations[generation]; before != s.as {
			t.Errorf("%s has the generation of %q, want %q", s.what, before, s.as)
		}
		if s.as == "" {
			generations[generation] = s.what
		}
	}
}

const bobURN = "urn:publicid:IDN+example.org+user+bob"

// TestBrokenListsKeepTheirEntries changes the files of a trust folder while a server runs. A file
// with an error never re-admits a revoked certificate.
func TestBrokenListsKeepTheirEntries(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	other := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+ca", "rsa2")
	alice, bob := pki.User(t, root, aliceURN, "rsa3"), pki.User(t, root, bobURN, "rsa4")
	carol := pki.User(t, other, "urn:publicid:IDN+example.net+user+carol", "rsa4")
	ofAlice, ofBob, ofBoth := crl{revoke: serials(alice)}.pem(t, root), crl{revoke: serials(bob)}.pem(t, root), crl{revoke: serials(alice, bob)}.pem(t, root)
	ofCarol := crl{revoke: serials(carol)}.pem(t, other)
	dir := t.TempDir()
	write(t, dir, map[string]string{"root.pem": pki.PEM(root, other)})
	folder := cert.NewFolder(dir, cert.Options{})
	type state struct {
		rule       string
		file, text string // "" removes it
		refused    string // who, of a, b and c
		problem    string
	}
	for _, s := range []state{
		{"nothing", "x.crl", "", "", ""},
		{"broken from the beginning", "x.crl", ofAlice[:200], "", "without END line"},
		{"good", "x.crl", ofAlice, "a", ""},
		{"half written", "x.crl", ofBoth[:200], "a", "stays in force"},
		{"empty", "x.crl", " ", "a", "stays in force"},
		{"no CRL", "x.crl", "<html>404</html>", "a", "stays in force"},
		{"signed by another key", "x.crl", crl{revoke: serials(bob), key: pki.Key(t, "rsa5")}.pem(t, root), "a", "stays in force"},
		{"a delta only", "x.crl", crl{revoke: serials(bob), extensions: []pkix.Extension{extension(true, 27, 2, 1, 1)}}.pem(t, root), "a", "stays in force"},
		{"from the future", "x.crl", crl{revoke: serials(bob), from: pki.Now.Add(time.Hour)}.pem(t, root), "a", "stays in force"},
		{"good again, and newer", "x.crl", ofBoth, "ab", ""},
		{"good again, and shorter", "x.crl", ofBob, "b", ""},
		{"removed", "x.crl", "", "", ""},
		{"a bundle", "x.crl", ofAlice + ofCarol, "ac", ""},
		{"the first of the bundle newer, the second broken", "x.crl", ofBob + ofCarol[:100], "bc", "stays in force"},
		{"the first newer still, the second still broken", "x.crl", ofBoth + ofCarol[:200], "abc", "stays in force"},
		{"all broken", "x.crl", "?", "abc", "stays in force"},
		{"the bundle again", "x.crl", ofAlice + ofCarol, "ac", ""},
		{"without the second", "x.crl", ofAlice, "a", ""},
		{"removed, and a broken one under another name", "y.crl", ofAlice[:200], "a", "y.crl"},
		{"y gone", "y.crl", "", "a", ""},
		{"x gone", "x.crl", "", "", ""},

		{"denied", "denied", aliceURN + "\n" + bobURN + "\n", "ab", ""},
		{"a line was cut", "denied", aliceURN + "\nurn:publicid:IDN+exam", "ab", "line 2"},
		{"another line and one that was cut", "denied", carol.URN.String() + "\nurn:publicid:IDN+exam", "abc", "stays in force\x00former entries stay in force"},
		{"good again", "denied", bobURN + "\n", "b", ""},
		{"no end of the last line, but all is there", "denied", bobURN + "\n" + aliceURN, "ab", ""},
		{"cut within a name", "denied", bobURN + "\n" + aliceURN[:len(aliceURN)-1], "ab", "truncated\x00stays in force"},
		{"cut to nothing", "denied", "\x00empty", "ab", "it is empty\x00stays in force"},
		{"a blank line is good", "denied", "\n", "", ""},
		{"bad lines beside good ones", "denied", "nonsense\n" + aliceURN, "a", "line 1"},
		{"no file", "denied", "", "", ""},
	} {
		t.Run(s.rule, func(t *testing.T) {
			if file := filepath.Join(dir, s.file); s.text == "" {
				os.Remove(file)
			} else if err := os.WriteFile(file, []byte(strings.TrimPrefix(s.text, "\x00empty")), 0o600); err != nil {
				t.Fatal(err)
			}
			a, problems, err := folder.Load(pki.Now)
			if err != nil {
				t.Fatal(err)
			}
			var refused string
			for name, e := range map[string]*pki.Entity{"a": alice, "b": bob, "c": carol} {
				if _, err := cert.Verify(e.Certificate, nil, a, cert.Options{}, pki.Now); err != nil {
					refused += name
				}
			}
			if len(refused) != len(s.refused) || strings.Trim(refused, s.refused) != "" {
				t.Errorf("refused %q, want %q", refused, s.refused)
			}
			all := fmt.Sprint(problems)
			if (s.problem == "") != (len(problems) == 0) {
				t.Fatalf("problems %v, want %q", problems, s.problem)
			}
			if want, or, _ := strings.Cut(s.problem, "\x00"); !strings.Contains(all, want) && (or == "" || !strings.Contains(all, or)) {
				t.Errorf("problems %v, want %q", problems, s.problem)
			}
		})
	}
}

func TestUnreadableListsKeepTheirEntries(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	alice, bob := pki.User(t, root, aliceURN, "rsa3"), pki.User(t, root, bobURN, "rsa4")
	dir := t.TempDir()
	write(t, dir, map[string]string{"root.pem": pki.PEM(root), "x.crl": crl{revoke: serials(alice)}.pem(t, root), "denied": bobURN})
	folder := cert.NewFolder(dir, cert.Options{})
	if _, problems, err := folder.Load(pki.Now); err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	for _, name := range []string{"x.crl", "denied"} { // a folder cannot be read as a file by any user
		os.Remove(filepath.Join(dir, name))
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	a, problems, err := folder.Load(pki.Now)
	if err != nil || len(problems) != 2 {
		t.Fatal(err, problems)
	}
	wantReason(t, a, alice, nil, cert.Revoked)
	wantReason(t, a, bob, nil, cert.Revoked)

	if _, _, err := cert.LoadAnchors(dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "denied")+": the deny list cannot be read") {
		t.Errorf("a server that starts now would let bob in: %v", err)
	}
}

func TestEntriesOfAFolderAreBounded(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "p256")
	many := crl{}
	for i := range int64(510_000) {
		many.revoke = append(many.revoke, big.NewInt(1_000_000+i))
	}
	dir := t.TempDir()
	one := many.der(t, root)
	many.revoke[0] = big.NewInt(1)
	write(t, dir, map[string]string{"a.pem": pki.PEM(root), "a.crl": string(one), "b.crl": string(many.der(t, root))})
	a, problems, err := cert.NewFolder(dir, cert.Options{}).Load(pki.Now)
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0].String(), "b.crl: CRL 1: ") || len(a.RevocationLists()) != 1 {
		t.Fatalf("%d lists, %v %v", len(a.RevocationLists()), problems, err)
	}
}

// TestReachOfAnAuthority checks that an entry about an authority by its URN does not affect
// certificates of an anchor with another URN or none. Effect reports this.
func TestReachOfAnAuthority(t *testing.T) {
	l := fourLevels(t)
	nameless := pki.Issue(t, nil, pki.Subject{CN: "root without URN", Key: "rsa5", CA: true})
	alice := pki.User(t, nameless, "urn:publicid:IDN+example.net+user+alice", "rsa3")
	const netSA = "urn:publicid:IDN+example.net+authority+sa"
	for _, tt := range []struct {
		line  string
		leaf  *pki.Entity
		below bool
		want  cert.Reason
	}{
		{netSA, alice, true, -1},
		{fmt.Sprintf("serial %X of %s", alice.SerialNumber, netSA), alice, true, -1},
		{fmt.Sprintf("serial %X of CN=root without URN", alice.SerialNumber), alice, false, cert.Revoked},
		{l.sub.URN.String(), l.alice, true, cert.Revoked},
		{fmt.Sprintf("serial %X of %s", l.sub.SerialNumber, saURN), l.alice, false, cert.Revoked},
		{saURN, l.alice, false, cert.Revoked},
		{l.alice.URN.String(), l.alice, false, cert.Revoked},
	} {
		a := pki.Trust(t, map[string]string{"other.pem": pki.PEM(nameless), "other.authorities": "example.net", "denied": tt.line}, l.root)
		wantReason(t, a, tt.leaf, l.between(), tt.want)
		if got := a.Effect(a.Denials()[0]).IsIntermediate; got != tt.below {
			t.Errorf("%s: only below an anchor: %v", tt.line, got)
		}
	}
}

// TestDeniedNames finds users and slices in the deny list for which nobody presents a certificate.
func TestDeniedNames(t *testing.T) {
	const user = "urn:publicid:IDN+example.org:lab+user+alice"
	for _, tt := range []struct {
		line, name string
		want       bool
	}{
		{user, user, true},
		{strings.ToLower(user), strings.Replace(user, "lab", "LAB", 1), true},
		{user, "urn:publicid:IDN+example.org:lab+user+bob", false},
		{"urn:publicid:IDN+example.org:lab+authority+sa", user, true},
		{"urn:publicid:IDN+example.org+authority+ma", user, true},
		{"urn:publicid:IDN+example.org+authority+ma", "urn:publicid:IDN+example.orgs+user+alice", false},
		{"urn:publicid:IDN+example.org:lab:deep+authority+sa", user, false},
		{"urn:publicid:IDN+example.org:lab+slice+s", "urn:publicid:IDN+example.org:lab+slice+s", true},
		{"sha256:" + strings.Repeat("00", 32), user, false},
		{"serial 1 of urn:publicid:IDN+example.org:lab+authority+sa", user, false},
	} {
		a := pki.Trust(t, map[string]string{"denied": tt.line}, fourLevels(t).root)
		if got := a.Denies(urn.MustParse(tt.name)); got != tt.want {
			t.Errorf("%s in a list with %s: %v", tt.name, tt.line, got)
		}
	}
}

// A client chooses which certificate of its issuer it presents. A certificate with another
// authority, or not for signing lists, still has the same key.
func TestRevokedOverEveryCertificateOfTheIssuer(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	const ma = "urn:publicid:IDN+example.org+authority+ma"
	issuer := func(uri string, usage x509.KeyUsage) *pki.Entity {
		return pki.Issue(t, root, pki.Subject{URIs: []string{uri}, CN: "ma", Key: "rsa2", CA: true, KeyUsage: usage})
	}
	full := issuer(ma, x509.KeyUsageCertSign|x509.KeyUsageCRLSign)
	alice := pki.User(t, full, aliceURN, "rsa3")
	elsewhere := pki.Issue(t, nil, pki.Subject{URIs: []string{"urn:publicid:IDN+example.net+authority+ma"}, Key: "rsa6", CA: true})
	erin := pki.User(t, elsewhere, "urn:publicid:IDN+example.net+user+erin", "rsa3")
	number := fmt.Sprintf("serial %X of %s", alice.SerialNumber, ma)
	for _, tt := range []struct {
		rule    string
		anchors []*pki.Entity
		files   map[string]string
	}{
		{"CRL, the issuer is shown", nil, map[string]string{"x.crl": crl{revoke: serials(alice)}.pem(t, full)}},
		{"CRL, the issuer is an anchor", []*pki.Entity{full}, map[string]string{"x.crl": crl{revoke: serials(alice)}.pem(t, full)}},
		{"number in the deny list, the issuer is shown", nil, map[string]string{"denied": number}},
		{"number in the deny list, the issuer is an anchor", []*pki.Entity{full}, map[string]string{"denied": number}},
	} {
		a := pki.Trust(t, tt.files, append(tt.anchors, root, elsewhere)...)
		for name, over := range map[string]*pki.Entity{
			"itself": full, "not for lists": issuer(ma, x509.KeyUsageCertSign), "another name": issuer(saURN, x509.KeyUsageCertSign),
		} {
			t.Log(tt.rule, "/", name)
			wantReason(t, a, alice, []*pki.Entity{over}, cert.Revoked)
		}
		wantReason(t, a, erin, nil, -1)
	}
	// Numbers of another issuer of that authority count only where it may be the same.
	other := pki.Issue(t, root, pki.Subject{URIs: []string{saURN}, CN: "other", Key: "rsa4", CA: true})
	for anchor, want := range map[*pki.Entity]cert.Reason{full: -1, other: -1, elsewhere: cert.Revoked} {
		bob := pki.User(t, other, bobURN, "rsa5")
		wantReason(t, pki.Trust(t, map[string]string{"denied": fmt.Sprintf("serial %X of %s", bob.SerialNumber, ma)}, root, anchor), bob, []*pki.Entity{other}, want)
	}
}

// Two authorities may have one name. Only the issuer of an anchor can revoke it.
func TestAnchorsAreRevokedByTheirIssuerOnly(t *testing.T) {
	issue := func(parent *pki.Entity, authority, key string) *pki.Entity {
		return pki.Issue(t, parent, pki.Subject{URIs: []string{"urn:publicid:IDN+" + authority + "+authority+ca"}, CN: "ca", Key: key, CA: true})
	}
	victim, namesake := issue(nil, "example.org", "rsa1"), issue(nil, "example.net", "rsa2")
	below := issue(victim, "example.org:lab", "rsa5")
	alice := pki.User(t, victim, aliceURN, "rsa3")
	for _, tt := range []struct {
		rule, file, text string
		struck           int
	}{
		{"list of the namesake", "x.crl", crl{revoke: serials(victim, below)}.pem(t, namesake), 0},
		{"list of the issuer", "x.crl", crl{revoke: serials(below)}.pem(t, victim), 1},
		{"number of the namesake", "denied", fmt.Sprintf("serial %X of %s\nserial %X of %[2]s", victim.SerialNumber, namesake.URN, below.SerialNumber), 0},
		{"number of the issuer", "denied", fmt.Sprintf("serial %X of %s", below.SerialNumber, victim.URN), 1},
	} {
		a := pki.Trust(t, map[string]string{tt.file: tt.text}, victim, namesake, below)
		if len(a.RevokedAnchors()) != tt.struck {
			t.Errorf("%s: %d revoked anchors, want %d", tt.rule, len(a.RevokedAnchors()), tt.struck)
		}
		wantReason(t, a, alice, nil, -1)
	}
}

func TestOlderListDoesNotReplaceANewerOne(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	alice, bob := pki.User(t, root, aliceURN, "rsa3"), pki.User(t, root, bobURN, "rsa4")
	at := func(days int, who ...*pki.Entity) string {
		return crl{revoke: serials(who...), from: pki.Now.AddDate(0, 0, days)}.pem(t, root)
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"root.pem": pki.PEM(root)})
	folder := cert.NewFolder(dir, cert.Options{})
	for _, s := range []struct {
		rule, text string
		alice, bob cert.Reason
		problem    bool
		inForce    int
	}{
		{"the first", at(-9, alice), cert.Revoked, -1, false, 1},
		{"an older one", at(-20, bob), cert.Revoked, cert.Revoked, true, 2},
		{"the older one, read again", at(-20, bob), cert.Revoked, cert.Revoked, true, 2},
		{"a newer one, without alice", at(-8), -1, -1, false, 1},
		{"the older one beside the newer one", at(-8) + at(-20, bob), -1, cert.Revoked, false, 2},
		{"the newer one removed from both", at(-20, bob), -1, cert.Revoked, false, 1},
		{"no file", "", -1, -1, false, 0},
		{"an older one where nothing was", at(-30, alice), cert.Revoked, -1, false, 1},
	} {
		if s.text == "" {
			os.Remove(filepath.Join(dir, "x.crl"))
		} else {
			write(t, dir, map[string]string{"x.crl": s.text})
		}
		a, problems, err := folder.Load(pki.Now)
		if err != nil || (len(problems) > 0) != s.problem || s.problem && !strings.Contains(problems[0].Text, "is older than the CRL from") {
			t.Errorf("%s: %v %v", s.rule, problems, err)
		}
		if n := len(a.RevocationLists()); n != s.inForce {
			t.Errorf("%s: %d lists in force, want %d", s.rule, n, s.inForce)
		}
		wantReason(t, a, alice, nil, s.alice)
		wantReason(t, a, bob, nil, s.bob)
	}
}

func TestIgnoredFilesThatLookLikeListsAreReported(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	for name, want := range map[string]string{
		"denied.txt": "the deny list must be named denied", "Denied": "the deny list must be named denied", "DENIED.LST": "the deny list must be named denied",
		"x.CRL": "only *.crl, in small letters", "y.PEM": "only *.pem, in small letters", "root.Authorities": "only *.authorities, in small letters",
		"z.crt": "only *.pem is read", "z.CER": "only *.pem is read", "z.der": "only *.pem is read",
		"z.key": "private keys must not be in this folder", "z.authorities": "but there is no such file",
		"README": "", "denied~": "", "denied.bak": "", ".denied.swp": "", "CATedCACerts.pem": "", "root.pem.old": "",
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"root.pem": pki.PEM(root), name: aliceURN})
		_, problems, err := cert.NewFolder(dir, cert.Options{}).Load(pki.Now)
		if err != nil || len(problems) > 1 || (want != "") != (len(problems) == 1) {
			t.Errorf("%s: problems %v, %v", name, problems, err)
		} else if want != "" && (!problems[0].Skipped || !strings.Contains(problems[0].Text, want) || filepath.Base(problems[0].File) != name) {
			t.Errorf("%s: %v, want %q", name, problems[0], want)
		}
		if cert.IsTrustFile(name) != (want != "") {
			t.Errorf("%s is a trust file: %v", name, cert.IsTrustFile(name))
		}
	}
	for _, name := range []string{"x.pem", "x.crl", "x.authorities", "denied"} {
		if !cert.IsTrustFile(name) {
			t.Errorf("%s does not matter", name)
		}
	}
}
