package modeltest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

const authority = "example.org"

// began is the time at which every test begins; certificates and credentials are
// relative to it.
var began = pki.Now

// user is a caller of the API with certificate and credential.
type user struct {
	urn        urn.URN
	chain      [][]byte
	credential string // the user's own user credential
	entity     *pki.Entity
}

// testUsers are the users and certificates of all tests. They are made once, because
// signing is slow and does not depend on the test.
type testUsers struct {
	anchors    *cert.Anchors
	alice, bob *user // alice owns all slices
	root       *pki.Entity

	mu     sync.Mutex
	signed map[string]string // credentials by a description of their content
}

var (
	makeUsers   sync.Once
	sharedUsers *testUsers
)

// usual are the privileges that slice authorities give to owners.
var usual = []string{"refresh", "embed", "bind", "control", "info"}

func name(kind, n string) string { return "urn:publicid:IDN+" + authority + "+" + kind + "+" + n }

// issue makes a certificate that is valid long before began, since the clock may be set
// back.
func issue(t testing.TB, issuer *pki.Entity, urn, key string) *pki.Entity {
	t.Helper()
	return pki.Issue(t, issuer, pki.Subject{URIs: []string{urn}, Key: key, CA: issuer == nil, From: began.AddDate(0, -3, 0)})
}

// loadUsers returns the shared users, and makes them at the first call.
func loadUsers(t testing.TB) *testUsers {
	t.Helper()
	makeUsers.Do(func() {
		root := issue(t, nil, name("authority", "sa"), "rsa1")
		p := &testUsers{anchors: pki.Anchors(root), root: root, signed: map[string]string{}}
		someone := func(who, key string) *user {
			e := issue(t, root, name("user", who), key)
			x := &user{urn: e.URN, chain: pki.Raw(e, root), entity: e}
			x.credential = pki.Credential{Owner: []*pki.Entity{e, root}, Target: []*pki.Entity{e, root}, Signer: []*pki.Entity{root},
				Privileges: usual, Expires: stamp(began.AddDate(0, 11, 0))}.Signed(t)
			return x
		}
		p.alice, p.bob = someone("alice", "rsa2"), someone("bob", "rsa3")
		sharedUsers = p
	})
	if sharedUsers == nil {
		t.Fatal("the users of the tests could not be made")
	}
	return sharedUsers
}

// over returns alice's credential over a slice, valid for a time after began.
func (p *testUsers) over(t testing.TB, slice string, lasts time.Duration) string {
	t.Helper()
	return p.once(fmt.Sprintf("%s %v", slice, lasts), func() string { return p.own(t, slice, lasts).Signed(t) })
}

// own describes alice's credential over a slice.
func (p *testUsers) own(t testing.TB, slice string, lasts time.Duration) pki.Credential {
	t.Helper()
	target := issue(t, p.root, name("slice", slice), "rsa4")
	return pki.Credential{Owner: []*pki.Entity{p.alice.entity, p.root}, Target: []*pki.Entity{target, p.root}, Signer: []*pki.Entity{p.root},
		Privileges: usual, Expires: stamp(began.Add(lasts))}
}

// delegatedCredential returns a credential over a slice that alice has delegated to bob. It
// is valid for delegated, which must not exceed lasts, the validity of alice's credential.
func (p *testUsers) delegatedCredential(t testing.TB, slice string, lasts, delegated time.Duration) string {
	t.Helper()
	return p.once(fmt.Sprintf("%s %v %v", slice, lasts, delegated), func() string {
		parent := p.own(t, slice, lasts)
		child := parent
		child.Owner, child.Signer = []*pki.Entity{p.bob.entity, p.root}, []*pki.Entity{p.alice.entity, p.root}
		child.CanDelegate, child.Expires = "false", stamp(began.Add(delegated))
		return pki.Delegated(t, child, parent)
	})
}

// once returns the credential for key, which it creates with make at the first call.
func (p *testUsers) once(key string, make func() string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.signed[key] == "" {
		p.signed[key] = make()
	}
	return p.signed[key]
}

// stamp returns a time as the API writes it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
