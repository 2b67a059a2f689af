package cert_test

import (
	"crypto/x509"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"patchbay/am/testkit/require"
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

// chains are cases that the attacks of package credentials do not have.
func chains() []chainRow {
	key := func(k string) func(*step) { return func(s *step) { s.Key = k } }
	noURN := func(s *step) { s.URIs, s.CN = nil, "no urn" }
	sub := with(authority("example.org:lab"), key("rsa2"))
	return []chainRow{
		{"an issuer's clock four minutes ahead", []step{authority("example.org"), with(user("example.org"), func(s *step) { s.From = pki.Now.Add(4 * time.Minute) })}, cert.Options{}, nil, ""},

		{"anchor that is no CA is trusted as such", []step{with(authority("example.org"), func(s *step) { s.CA = false }), user("example.org")}, cert.Options{}, nil, ""},
		{"path length kept", []step{with(authority("example.org"), func(s *step) { s.PathLen = 2 }), sub, user("example.org:lab")}, cert.Options{}, nil, ""},

		{"back up below a sub-authority", []step{authority("example.org"), sub, user("example.org")}, cert.Options{}, nil, rule.Namespace},
		{"intermediate without URN passes the limits on", []step{authority("example.org"), with(sub, noURN), user("example.org:lab")}, cert.Options{}, nil, ""},
		{"intermediate without URN widens nothing", []step{authority("example.org"), with(sub, noURN), user("example.net")}, cert.Options{}, nil, rule.Namespace},
		{"anchor without URN, another listed", []step{with(authority("example.org"), noURN), user("example.org")}, cert.Options{}, []string{"example.net"}, rule.Namespace},
		{"anchor with URN, another listed too", []step{authority("example.org"), user("example.net")}, cert.Options{}, []string{"example.net"}, ""},

		{"intermediate with two URNs", []step{authority("example.org"), with(sub, func(s *step) { s.URIs = append(s.URIs, "urn:publicid:IDN+example.net+authority+sa") }), user("example.org:lab")}, cert.Options{}, nil, rule.SingleURN},

		{"SHA-1 allowed", []step{authority("example.org"), with(user("example.org"), func(s *step) { s.Algorithm = x509.SHA1WithRSA })}, cert.Options{SHA1: true}, nil, ""},
		{"SHA-1 of the anchor itself does not matter", []step{with(authority("example.org"), func(s *step) { s.Algorithm = x509.SHA1WithRSA }), user("example.org")}, cert.Options{}, nil, ""},
		{"RSA 1024 allowed", []step{authority("example.org"), with(user("example.org"), key("rsa1024"))}, cert.Options{MinRSABits: 1024}, nil, ""},
		{"RSA 1024 anchor refused", []step{with(authority("example.org"), key("rsa1024")), user("example.org")}, cert.Options{}, nil, rule.MinKeySize},
		{"P-256", []step{with(authority("example.org"), key("p256")), user("example.org")}, cert.Options{}, nil, ""},
		{"P-384", []step{with(authority("example.org"), key("p384")), with(user("example.org"), key("p256"))}, cert.Options{}, nil, ""},
	}
}

// verify makes the chain and verifies it.
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
			if rule.Of(err) != r.broken {
				t.Fatalf("%v; want that %s", err, r.broken)
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
	// Cached or not, the chain is refused after that time.
	if _, err := cert.Verify(alice.Certificate, []*cert.Certificate{sub.Certificate}, anchors, cert.Options{}, first.Add(time.Second)); err == nil {
		t.Error("a maxCached chain outlived one of its certificates")
	}
	if _, err := cert.Verify(alice.Certificate, []*cert.Certificate{sub.Certificate}, anchors, cert.Options{}, pki.Now.Add(-2*time.Hour)); err == nil {
		t.Error("a maxCached chain was good before it began")
	}
	if _, err := cert.Verify(alice.Certificate, []*cert.Certificate{sub.Certificate}, anchors, cert.Options{MinRSABits: 4096}, pki.Now); err == nil {
		t.Error("a maxCached chain was good under stricter options")
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

func TestVersion1(t *testing.T) {
	openssl := require.Tool(t, "openssl")
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
