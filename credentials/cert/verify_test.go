package cert_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/need"
	"patchbay/credentials/cert"
	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
)

// step is a certificate of a chain, from the anchor down.
type step = pki.Subject

func authority(name string) step {
	return step{URIs: []string{"urn:publicid:IDN+" + name + "+authority+sa"}, CA: true, Key: "rsa1"}
}

func user(auth string) step {
	return step{URIs: []string{"urn:publicid:IDN+" + auth + "+user+alice"}, Key: "rsa3"}
}

func with(s step, change func(*step)) step { change(&s); return s }

// chainRow is a chain and the rule that refuses it.
type chainRow struct {
	name    string
	steps   []step // anchor first, leaf last
	options cert.Options
	listed  []string  // the anchor's companion list
	broken  rule.Rule // empty: accepted
}

// chains are those that a rule refuses, each beside one that it accepts.
func chains() []chainRow {
	expired := func(s *step) { s.From, s.To = pki.Now.Add(-2*time.Hour), pki.Now.Add(-time.Second) }
	future := func(s *step) { s.From = pki.Now.Add(6 * time.Minute) }
	key := func(k string) func(*step) { return func(s *step) { s.Key = k } }
	noURN := func(s *step) { s.URIs, s.CN = nil, "no urn" }
	sub := with(authority("example.org:lab"), key("rsa2"))
	unknown := pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: []byte{5, 0}, Critical: true}
	constraints := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 30}, Critical: true,
		Value: []byte{0x30, 0x10, 0xa0, 0x0e, 0x30, 0x0c, 0x82, 0x0a, 'e', 'x', '.', 'e', 'x', 'a', 'm', 'p', 'l', 'e'}}
	return []chainRow{
		{"two levels", []step{authority("example.org"), user("example.org")}, cert.Options{}, nil, ""},
		{"three levels", []step{authority("example.org"), sub, user("example.org:lab")}, cert.Options{}, nil, ""},

		{"leaf expired", []step{authority("example.org"), with(user("example.org"), expired)}, cert.Options{}, nil, rule.CertificateExpired},
		{"intermediate expired", []step{authority("example.org"), with(sub, expired), user("example.org:lab")}, cert.Options{}, nil, rule.CertificateExpired},
		{"anchor expired (#35)", []step{with(authority("example.org"), expired), user("example.org")}, cert.Options{}, nil, rule.CertificateExpired},
		{"leaf not yet valid", []step{authority("example.org"), with(user("example.org"), future)}, cert.Options{}, nil, rule.CertificateBegun},
		{"an issuer's clock four minutes ahead", []step{authority("example.org"), with(user("example.org"), func(s *step) { s.From = pki.Now.Add(4 * time.Minute) })}, cert.Options{}, nil, ""},

		{"issuer is no CA (#11)", []step{authority("example.org"), with(sub, func(s *step) { s.CA = false }), user("example.org:lab")}, cert.Options{}, nil, rule.IssuerIsCA},
		{"issuer is a user with CA:TRUE", []step{authority("example.org"), with(user("example.org"), func(s *step) { s.CA, s.Key = true, "rsa2" }), user("example.org")}, cert.Options{}, nil, rule.IssuerIsAuthority},
		{"anchor that is no CA is trusted as such", []step{with(authority("example.org"), func(s *step) { s.CA = false }), user("example.org")}, cert.Options{}, nil, ""},
		{"key usage without certSign", []step{authority("example.org"), with(sub, func(s *step) { s.KeyUsage = x509.KeyUsageDigitalSignature }), user("example.org:lab")}, cert.Options{}, nil, rule.IssuerKeyUsage},
		{"key usage with certSign", []step{authority("example.org"), with(sub, func(s *step) { s.KeyUsage = x509.KeyUsageCertSign }), user("example.org:lab")}, cert.Options{}, nil, ""},
		{"path length exceeded", []step{with(authority("example.org"), func(s *step) { s.PathLen = 1 }), sub, user("example.org:lab")}, cert.Options{}, nil, rule.PathLength},
		{"path length kept", []step{with(authority("example.org"), func(s *step) { s.PathLen = 2 }), sub, user("example.org:lab")}, cert.Options{}, nil, ""},

		{"sub-authority of the issuer's", []step{authority("example.org"), user("example.org:lab")}, cert.Options{}, nil, ""},
		{"case does not matter", []step{authority("Example.org"), user("example.ORG:lab")}, cert.Options{}, nil, ""},
		{"another authority", []step{authority("example.org"), user("example.net")}, cert.Options{}, nil, rule.Namespace},
		{"prefix without dot border (#13)", []step{authority("example.org"), user("example.org.evil")}, cert.Options{}, nil, rule.Namespace},
		{"suffix (#13)", []step{authority("example.org"), user("xexample.org")}, cert.Options{}, nil, rule.Namespace},
		{"label prefix (#13)", []step{authority("example.org:a"), user("example.org:ab")}, cert.Options{}, nil, rule.Namespace},
		{"dot is no pattern (#13)", []step{authority("example.org"), user("examplexorg")}, cert.Options{}, nil, rule.Namespace},
		{"above its issuer", []step{authority("example.org:lab"), user("example.org")}, cert.Options{}, nil, rule.Namespace},
		{"intermediate outside the anchor's", []step{authority("example.org"), with(authority("example.net"), key("rsa2")), user("example.net")}, cert.Options{}, nil, rule.Namespace},
		{"back up below a sub-authority", []step{authority("example.org"), sub, user("example.org")}, cert.Options{}, nil, rule.Namespace},
		{"intermediate without URN passes the limits on", []step{authority("example.org"), with(sub, noURN), user("example.org:lab")}, cert.Options{}, nil, ""},
		{"intermediate without URN widens nothing", []step{authority("example.org"), with(sub, noURN), user("example.net")}, cert.Options{}, nil, rule.Namespace},
		{"anchor without URN vouches for nobody", []step{with(authority("example.org"), noURN), user("example.org")}, cert.Options{}, nil, rule.Namespace},
		{"anchor without URN, authority listed", []step{with(authority("example.org"), noURN), user("example.org")}, cert.Options{}, []string{"example.org"}, ""},
		{"anchor without URN, another listed", []step{with(authority("example.org"), noURN), user("example.org")}, cert.Options{}, []string{"example.net"}, rule.Namespace},
		{"anchor with URN, another listed too", []step{authority("example.org"), user("example.net")}, cert.Options{}, []string{"example.net"}, ""},

		{"no URN (#32)", []step{authority("example.org"), with(user("example.org"), noURN)}, cert.Options{}, nil, rule.NamesSomebody},
		{"two URNs (#32)", []step{authority("example.org"), with(user("example.org"), func(s *step) { s.URIs = append(s.URIs, "urn:publicid:IDN+example.org+user+bob") })}, cert.Options{}, nil, rule.NamesOne},
		{"intermediate with two URNs", []step{authority("example.org"), with(sub, func(s *step) { s.URIs = append(s.URIs, "urn:publicid:IDN+example.net+authority+sa") }), user("example.org:lab")}, cert.Options{}, nil, rule.NamesOne},

		{"SHA-1 refused", []step{authority("example.org"), with(user("example.org"), func(s *step) { s.Algorithm = x509.SHA1WithRSA })}, cert.Options{}, nil, rule.CertificateDigest},
		{"SHA-1 allowed", []step{authority("example.org"), with(user("example.org"), func(s *step) { s.Algorithm = x509.SHA1WithRSA })}, cert.Options{SHA1: true}, nil, ""},
		{"SHA-1 of the anchor itself does not matter", []step{with(authority("example.org"), func(s *step) { s.Algorithm = x509.SHA1WithRSA }), user("example.org")}, cert.Options{}, nil, ""},
		{"RSA 1024 refused", []step{authority("example.org"), with(user("example.org"), key("rsa1024"))}, cert.Options{}, nil, rule.KeySize},
		{"RSA 1024 allowed", []step{authority("example.org"), with(user("example.org"), key("rsa1024"))}, cert.Options{MinRSABits: 1024}, nil, ""},
		{"RSA 1024 anchor refused", []step{with(authority("example.org"), key("rsa1024")), user("example.org")}, cert.Options{}, nil, rule.KeySize},
		{"RSA above 8192 refused", []step{authority("example.org"), with(user("example.org"), key("rsa8200"))}, cert.Options{}, nil, rule.KeyNotHuge},
		{"RSA above 8192 refused as issuer", []step{authority("example.org"), with(sub, key("rsa8200")), user("example.org:lab")}, cert.Options{}, nil, rule.KeyNotHuge},
		{"P-256", []step{with(authority("example.org"), key("p256")), user("example.org")}, cert.Options{}, nil, ""},
		{"P-384", []step{with(authority("example.org"), key("p384")), with(user("example.org"), key("p256"))}, cert.Options{}, nil, ""},
		{"P-224 refused", []step{authority("example.org"), with(user("example.org"), key("p224"))}, cert.Options{}, nil, rule.KeyKind},
		{"RSA-PSS refused", []step{authority("example.org"), with(user("example.org"), func(s *step) { s.Algorithm = x509.SHA256WithRSAPSS })}, cert.Options{}, nil, rule.CertificateSignature},

		{"unknown critical extension", []step{authority("example.org"), with(user("example.org"), func(s *step) { s.Extra = []pkix.Extension{unknown} })}, cert.Options{}, nil, rule.Evaluated},
		{"unknown extension, not critical", []step{authority("example.org"), with(user("example.org"), func(s *step) { u := unknown; u.Critical = false; s.Extra = []pkix.Extension{u} })}, cert.Options{}, nil, ""},
		{"critical name constraints, which are not evaluated", []step{authority("example.org"), with(sub, func(s *step) { s.Extra = []pkix.Extension{constraints} }), user("example.org:lab")}, cert.Options{}, nil, rule.Evaluated},
	}
}

// verify makes the chain and judges it.
func (r chainRow) verify(t *testing.T) (cert.Chain, error) {
	t.Helper()
	var chain []*pki.Entity
	for i, s := range r.steps {
		var issuer *pki.Entity
		if i > 0 {
			issuer = chain[i-1]
		}
		chain = append(chain, pki.Issue(t, issuer, s))
	}
	anchors := cert.NewAnchors(cert.Anchor{Certificate: chain[0].Certificate, Authorities: r.listed})
	var others []*cert.Certificate
	for _, e := range chain[:len(chain)-1] {
		others = append(others, e.Certificate)
	}
	return cert.Verify(chain[len(chain)-1].Certificate, others, anchors, r.options, pki.Now)
}

// reasons are those that the rules of chains give.
var reasons = map[rule.Rule]cert.Reason{
	rule.CertificateExpired: cert.Expired, rule.CertificateBegun: cert.NotYetValid, rule.CertificateSignature: cert.BadSignature,
	rule.CertificateDigest: cert.WeakDigest, rule.IssuerIsCA: cert.NotIssuer, rule.IssuerIsAuthority: cert.NotIssuer,
	rule.IssuerKeyUsage: cert.NotIssuer, rule.PathLength: cert.NotIssuer, rule.ChainLength: cert.NotIssuer,
	rule.Namespace: cert.Namespace, rule.NamesSomebody: cert.NoName, rule.NamesOne: cert.NoName, rule.NamesWell: cert.NoName,
	rule.KeySize: cert.WeakKey, rule.KeyNotHuge: cert.WeakKey, rule.KeyKind: cert.WeakKey, rule.Evaluated: cert.Unsupported,
	rule.Anchored: cert.Untrusted, rule.SearchLength: cert.Untrusted,
}

func TestChainRules(t *testing.T) {
	for _, r := range chains() {
		t.Run(r.name, func(t *testing.T) {
			got, err := r.verify(t)
			if r.broken == "" {
				if err != nil || len(got) != len(r.steps) {
					t.Fatalf("chain of %d, %v; want %d", len(got), err, len(r.steps))
				}
				return
			}
			e, isError := errors.AsType[*cert.Error](err)
			if !isError || e.Rule != r.broken || e.Reason != reasons[r.broken] {
				t.Fatalf("%v; want that %s, and the reason %q", err, r.broken, reasons[r.broken])
			}
			if strings.ContainsAny(e.Text, "\r\n") || e.Text == "" {
				t.Errorf("not one readable line: %q", e.Text)
			}
		})
	}
}

func TestChainExpiresWithItsFirstCertificate(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	first := pki.Now.Add(3 * time.Hour)
	sub := pki.Issue(t, root, step{URIs: []string{"urn:publicid:IDN+example.org:lab+authority+sa"}, Key: "rsa2", CA: true, To: first})
	alice := pki.User(t, sub, "urn:publicid:IDN+example.org:lab+user+alice", "rsa3")
	anchors := pki.Anchors(root)
	chain, err := cert.Verify(alice.Certificate, []*cert.Certificate{sub.Certificate}, anchors, cert.Options{}, pki.Now)
	if err != nil || !chain.Expires().Equal(first) {
		t.Fatalf("expires %v, %v; want %v", chain.Expires(), err, first)
	}
	// Remembered or not, the chain is refused once that time is over.
	if _, err := cert.Verify(alice.Certificate, []*cert.Certificate{sub.Certificate}, anchors, cert.Options{}, first.Add(time.Second)); err == nil {
		t.Error("a remembered chain outlived one of its certificates")
	}
	if _, err := cert.Verify(alice.Certificate, []*cert.Certificate{sub.Certificate}, anchors, cert.Options{}, pki.Now.Add(-2*time.Hour)); err == nil {
		t.Error("a remembered chain was good before it began")
	}
	if _, err := cert.Verify(alice.Certificate, []*cert.Certificate{sub.Certificate}, anchors, cert.Options{MinRSABits: 4096}, pki.Now); err == nil {
		t.Error("a remembered chain was good under stricter options")
	}
}

func TestAnchorsOfEveryKind(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	sub := pki.Authority(t, root, "urn:publicid:IDN+example.org:lab+authority+sa", "rsa2")
	alice := pki.User(t, sub, "urn:publicid:IDN+example.org:lab+user+alice", "rsa3")
	bob := pki.User(t, alice, "urn:publicid:IDN+example.org:lab+user+bob", "rsa4")
	for _, tt := range []struct {
		rule   string
		anchor *pki.Entity
		leaf   *pki.Entity
		length int // 0: refused
	}{
		{"intermediate alone is an anchor", sub, alice, 2},
		{"the leaf itself is an anchor", alice, alice, 1},
		{"a user as anchor issues nothing", alice, bob, 0},
		{"an anchor that is not the issuer", bob, alice, 0},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			chain, err := cert.Verify(tt.leaf.Certificate, []*cert.Certificate{sub.Certificate, alice.Certificate}, pki.Anchors(tt.anchor), cert.Options{}, pki.Now)
			if len(chain) != tt.length || (err == nil) != (tt.length > 0) {
				t.Errorf("chain of %d, %v; want %d", len(chain), err, tt.length)
			}
		})
	}
}

func TestOtherPathIsFoundWhereOneIsBroken(t *testing.T) {
	old := pki.Issue(t, nil, step{URIs: []string{saURN}, CN: "root", Key: "rsa1", CA: true, From: pki.Now.Add(-2 * time.Hour), To: pki.Now.Add(-time.Hour)})
	renewed := pki.Issue(t, nil, step{URIs: []string{saURN}, CN: "root", Key: "rsa1", CA: true})
	otherKey := pki.Issue(t, nil, step{URIs: []string{saURN}, CN: "root", Key: "rsa5", CA: true})
	alice := pki.User(t, renewed, aliceURN, "rsa3")
	if _, err := cert.Verify(alice.Certificate, nil, pki.Anchors(old, otherKey, renewed), cert.Options{}, pki.Now); err != nil {
		t.Errorf("the renewed root is in the folder: %v", err)
	}
	_, err := cert.Verify(alice.Certificate, []*cert.Certificate{renewed.Certificate}, pki.Anchors(old), cert.Options{}, pki.Now)
	if e, ok := errors.AsType[*cert.Error](err); !ok || e.Reason != cert.Expired {
		t.Errorf("only the expired root is trusted: %v", err)
	}
}

func TestSelfMadeAuthorityOfTheSameName(t *testing.T) {
	root := pki.Issue(t, nil, step{URIs: []string{saURN}, CN: "root", Key: "rsa1", CA: true})
	fake := pki.Issue(t, nil, step{URIs: []string{saURN}, CN: "root", Key: "rsa5", CA: true})
	alice := pki.User(t, fake, aliceURN, "rsa3")
	if _, err := cert.Verify(alice.Certificate, []*cert.Certificate{fake.Certificate}, pki.Anchors(root), cert.Options{}, pki.Now); err == nil {
		t.Error("a self-made authority is believed")
	}
}

func TestSearchIsBounded(t *testing.T) {
	// Ten authorities of one name and key, all signing each other: without a
	// bound the number of paths grows with the factorial.
	var others []*cert.Certificate
	first := pki.Issue(t, nil, step{URIs: []string{saURN}, CN: "ring", Key: "rsa1", CA: true})
	for range 10 {
		others = append(others, pki.Issue(t, first, step{URIs: []string{saURN}, CN: "ring", Key: "rsa1", CA: true}).Certificate)
	}
	alice := pki.User(t, first, aliceURN, "rsa3")
	begin := time.Now()
	if _, err := cert.Verify(alice.Certificate, others, pki.Anchors(pki.Authority(t, nil, saURN, "rsa2")), cert.Options{}, pki.Now); err == nil {
		t.Error("a ring of strangers is believed")
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("took %v", took)
	}

	deep := []*pki.Entity{pki.Issue(t, nil, step{URIs: []string{saURN}, CN: "level 0", Key: "rsa1", CA: true})}
	for i := 1; i < 9; i++ {
		deep = append(deep, pki.Issue(t, deep[i-1], step{URIs: []string{saURN}, CN: fmt.Sprint("level ", i), Key: "rsa2", CA: true}))
	}
	others = nil
	for _, e := range deep {
		others = append(others, e.Certificate)
	}
	for levels, want := range map[int]bool{8: true, 9: false} {
		_, err := cert.Verify(deep[levels-1].Certificate, others, pki.Anchors(deep[0]), cert.Options{}, pki.Now)
		if (err == nil) != want {
			t.Errorf("a chain of %d: %v, want success %v", levels, err, want)
		}
	}
}

func TestVersion1(t *testing.T) {
	openssl := need.Tool(t, "openssl")
	dir := t.TempDir()
	keys, _ := filepath.Abs("../testdata/keys")
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(openssl, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("openssl %v: %v\n%s", args, err, out)
		}
	}
	read := func(name string) *pki.Entity {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		list, err := cert.ParsePEM(text)
		if err != nil || list[0].Version != 1 {
			t.Fatalf("%s: %v", name, err)
		}
		return &pki.Entity{Certificate: list[0], Key: pki.Key(t, "rsa1")}
	}
	run("req", "-new", "-key", filepath.Join(keys, "rsa1.pem"), "-subj", "/CN=old root", "-out", "root.csr")
	run("x509", "-req", "-in", "root.csr", "-out", "root.pem", "-days", "3650", "-signkey", filepath.Join(keys, "rsa1.pem"))
	root := read("root.pem")
	at := root.NotBefore.Add(time.Hour)
	alice := pki.Issue(t, root, step{URIs: []string{aliceURN}, Key: "rsa3", From: at.Add(-time.Hour), To: at.Add(time.Hour)})
	listed := cert.NewAnchors(cert.Anchor{Certificate: root.Certificate, Authorities: []string{"example.org"}})
	if _, err := cert.Verify(alice.Certificate, nil, listed, cert.Options{}, at); err != nil {
		t.Errorf("under a listed anchor of version 1: %v", err)
	}
	top := pki.Issue(t, nil, step{CN: "top", Key: "rsa2", CA: true, From: at.Add(-time.Hour), To: at.Add(time.Hour)})
	if err := os.WriteFile(filepath.Join(dir, "top.pem"), []byte(pki.PEM(top)), 0o600); err != nil {
		t.Fatal(err)
	}
	run("x509", "-req", "-in", "root.csr", "-out", "between.pem", "-days", "1", "-CA", "top.pem", "-CAkey", filepath.Join(keys, "rsa2.pem"), "-CAcreateserial")
	between := read("between.pem")
	under := cert.NewAnchors(cert.Anchor{Certificate: top.Certificate, Authorities: []string{"example.org"}})
	if _, err := cert.Verify(alice.Certificate, []*cert.Certificate{between.Certificate}, under, cert.Options{}, at); err == nil {
		t.Error("version 1 issues without being an anchor")
	}
	if _, err := cert.Verify(between.Certificate, nil, under, cert.Options{}, at); err == nil {
		t.Error("version 1 as leaf has no URN and was accepted")
	}
}

func BenchmarkVerify(b *testing.B) {
	root := pki.Authority(b, nil, saURN, "rsa1")
	sub := pki.Authority(b, root, "urn:publicid:IDN+example.org:lab+authority+sa", "rsa2")
	alice := pki.User(b, sub, "urn:publicid:IDN+example.org:lab+user+alice", "rsa3")
	others := []*cert.Certificate{sub.Certificate}
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			if _, err := cert.Verify(alice.Certificate, others, pki.Anchors(root), cert.Options{}, pki.Now); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("remembered", func(b *testing.B) {
		anchors := pki.Anchors(root)
		for b.Loop() {
			if _, err := cert.Verify(alice.Certificate, others, anchors, cert.Options{}, pki.Now); err != nil {
				b.Fatal(err)
			}
		}
	})
}
