package credentials_test

import (
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/credentials"
	"patchbay/credentials/testdata/pki"
)

// deepWorld is a federation whose only anchor is the root: users are issued by
// one authority below it, slices by another.
type deepWorld struct {
	root, ma, sa, alice, slice *pki.Entity
	z                          *credentials.Authorizer
}

func newDeepWorld(t *testing.T) deepWorld {
	root := pki.Authority(t, nil, "urn:publicid:IDN+example.org+authority+root", "rsa1")
	w := deepWorld{
		root: root,
		ma:   pki.Authority(t, root, "urn:publicid:IDN+example.org+authority+ma", "rsa5"),
		sa:   pki.Authority(t, root, saURN, "rsa6"),
		z:    credentials.New(pki.Anchors(root), credentials.Config{}),
	}
	w.alice, w.slice = pki.User(t, w.ma, aliceURN, "rsa2"), pki.User(t, w.sa, sliceURN, "rsa3")
	return w
}

// TestIssuersAreFoundInEachPlace omits the certificates between leaf and anchor in each place.
// TLS clients send any prefix of their chain, and a GID need not have its own.
func TestIssuersAreFoundInEachPlace(t *testing.T) {
	w := newDeepWorld(t)
	type list = []*pki.Entity
	for _, tt := range []struct {
		rule                       string
		shown, owner, target, sign list
		want                       am.Detail // -1: accepted
	}{
		{"everywhere", list{w.alice, w.ma}, list{w.alice, w.ma}, list{w.slice, w.sa}, list{w.sa}, -1},
		{"the slice's issuer is the signer", list{w.alice, w.ma}, list{w.alice, w.ma}, list{w.slice}, list{w.sa}, -1},
		{"the owner's issuer came by TLS", list{w.alice, w.ma}, list{w.alice}, list{w.slice, w.sa}, list{w.sa}, -1},
		{"the caller's issuer is in the owner_gid", list{w.alice}, list{w.alice, w.ma}, list{w.slice, w.sa}, list{w.sa}, -1},
		{"the caller's issuer is in the signature", list{w.alice}, list{w.alice}, list{w.slice, w.sa}, list{w.sa, w.ma}, -1},
		{"the caller's issuer is nowhere", list{w.alice}, list{w.alice}, list{w.slice, w.sa}, list{w.sa}, am.CredentialUntrusted},
		{"the slice's issuer is nowhere", list{w.alice, w.ma}, list{w.alice, w.ma}, list{w.slice}, list{pki.Authority(t, w.ma, saURN, "rsa4"), w.ma}, am.CredentialUntrusted},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			w.z = newDeepWorld(t).z // with an empty cache
			doc := pki.Credential{Owner: tt.owner, Target: tt.target, Signer: tt.sign, Privileges: []string{"*"}}.Signed(t)
			for range 2 { // the second time from memory
				g, err := w.z.Authorize(w.z.Identify(pki.Raw(tt.shown...), now), sfa(doc), "", credentials.RightAllocate, now)
				if tt.want != -1 {
					if err == nil || detail(t, err) != tt.want {
						t.Fatalf("got %v", err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if until, err := g.Over(w.slice.URN); err != nil || g.Caller() != w.alice.URN || !until.Equal(now.Add(24*time.Hour)) {
					t.Fatalf("%s until %v, %v", g.Caller(), until, err)
				}
			}
		})
	}
}

// TestIssuersOfCredentialsDoNotCompleteChains presents only a caller's own certificate, with
// credentials whose certificates must not complete its chain.
func TestIssuersOfCredentialsDoNotCompleteChains(t *testing.T) {
	w := newDeepWorld(t)
	fakeMA := pki.Authority(t, nil, w.ma.URN.String(), "rsa4")
	deep := func(owner, signer *pki.Entity, above ...*pki.Entity) string {
		return pki.Credential{Owner: append([]*pki.Entity{owner}, above...), Target: []*pki.Entity{w.slice, w.sa}, Signer: []*pki.Entity{signer}, Privileges: []string{"*"}}.Signed(t)
	}
	bob := pki.User(t, w.ma, bobURN, "rsa4")
	good := deep(w.alice, w.sa, w.ma)
	for _, tt := range []struct {
		rule, doc string
		caller    *pki.Entity
		want      am.Detail
	}{
		{"neighbour", good, w.alice, -1},
		{"neighbour: junk before it", "junk|junk|junk|" + good, w.alice, -1},
		{"beyond what is searched for a stranger", "junk|junk|junk|junk|" + good, w.alice, am.CredentialUntrusted},
		{"neighbour: large junk before it", strings.Repeat("x", 200<<10) + "|" + good, w.alice, -1},
		{"beyond the bytes that are searched for a stranger", strings.Repeat("x", 256<<10) + "|" + good, w.alice, am.CredentialUntrusted},
		{"credential of another", good, bob, am.CredentialUntrusted},
		{"issuer made by the caller", deep(w.alice, w.sa, w.ma, fakeMA), pki.User(t, fakeMA, aliceURN, "rsa2"), am.CredentialUntrusted},
		{"credential signed by its owner", deep(w.alice, w.alice, w.ma), w.alice, am.CredentialUntrusted},
		{"a slice calls", deep(w.alice, w.sa, w.ma), w.slice, am.CredentialUntrusted},
		{"expired certificate", good, pki.Issue(t, w.ma, pki.Subject{URIs: []string{aliceURN}, Key: "rsa2", From: now.Add(-2 * time.Hour), To: now.Add(-time.Hour)}), am.CredentialExpired},
	} {
		_, err := w.z.Authorize(w.z.Identify(pki.Raw(tt.caller), now), sfa(strings.Split(tt.doc, "|")...), "", credentials.RightAllocate, now)
		switch {
		case tt.want == -1 && err != nil, tt.want != -1 && err == nil:
			t.Errorf("%s: %v", tt.rule, err)
		case err != nil && detail(t, err) != tt.want:
			t.Errorf("%s: %v", tt.rule, err)
		}
	}
}
