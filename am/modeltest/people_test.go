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

// began is when every test begins; certificates and credentials count from it.
var began = pki.Now

// person is somebody who calls.
type person struct {
	urn        urn.URN
	chain      [][]byte
	credential string // over himself
	entity     *pki.Entity
}

// everybody is who there is in all tests. Signing takes long and none of it
// depends on a test.
type everybody struct {
	anchors    *cert.Anchors
	alice, bob *person // alice owns all slices
	root       *pki.Entity

	mu     sync.Mutex
	signed map[string]string // credentials by what they say
}

var (
	gather sync.Once
	people *everybody
)

// usual are the privileges that slice authorities give to owners.
var usual = []string{"refresh", "embed", "bind", "control", "info"}

func name(kind, n string) string { return "urn:publicid:IDN+" + authority + "+" + kind + "+" + n }

// issue makes a certificate that was good long before all began: the clock may
// be set back.
func issue(t testing.TB, issuer *pki.Entity, urn, key string) *pki.Entity {
	t.Helper()
	return pki.Issue(t, issuer, pki.Subject{URIs: []string{urn}, Key: key, CA: issuer == nil, From: began.AddDate(0, -3, 0)})
}

// known gives everybody.
func known(t testing.TB) *everybody {
	t.Helper()
	gather.Do(func() {
		root := issue(t, nil, name("authority", "sa"), "rsa1")
		p := &everybody{anchors: pki.Anchors(root), root: root, signed: map[string]string{}}
		someone := func(who, key string) *person {
			e := issue(t, root, name("user", who), key)
			x := &person{urn: e.URN, chain: pki.Raw(e, root), entity: e}
			x.credential = pki.Credential{Owner: []*pki.Entity{e, root}, Target: []*pki.Entity{e, root}, Signer: []*pki.Entity{root},
				Privileges: usual, Expires: stamp(began.AddDate(0, 11, 0))}.Signed(t)
			return x
		}
		p.alice, p.bob = someone("alice", "rsa2"), someone("bob", "rsa3")
		people = p
	})
	if people == nil {
		t.Fatal("the people of the tests could not be made")
	}
	return people
}

// over is alice's credential over a slice, until a time after began.
func (p *everybody) over(t testing.TB, slice string, lasts time.Duration) string {
	t.Helper()
	return p.once(fmt.Sprintf("%s %v", slice, lasts), func() string { return p.own(t, slice, lasts).Signed(t) })
}

func (p *everybody) own(t testing.TB, slice string, lasts time.Duration) pki.Credential {
	t.Helper()
	target := issue(t, p.root, name("slice", slice), "rsa4")
	return pki.Credential{Owner: []*pki.Entity{p.alice.entity, p.root}, Target: []*pki.Entity{target, p.root}, Signer: []*pki.Entity{p.root},
		Privileges: usual, Expires: stamp(began.Add(lasts))}
}

// handed is alice's credential handed on to bob, who may then use the slice
// until a time that is no later than her own.
func (p *everybody) handed(t testing.TB, slice string, lasts, his time.Duration) string {
	t.Helper()
	return p.once(fmt.Sprintf("%s %v %v", slice, lasts, his), func() string {
		parent := p.own(t, slice, lasts)
		child := parent
		child.Owner, child.Signer = []*pki.Entity{p.bob.entity, p.root}, []*pki.Entity{p.alice.entity, p.root}
		child.CanDelegate, child.Expires = "false", stamp(began.Add(his))
		return pki.Delegated(t, child, parent)
	})
}

func (p *everybody) once(key string, make func() string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.signed[key] == "" {
		p.signed[key] = make()
	}
	return p.signed[key]
}

// stamp is a time as the API writes it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
