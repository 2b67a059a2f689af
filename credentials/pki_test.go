package credentials_test

import (
	"strings"
	"testing"

	"patchbay/credentials"
	"patchbay/credentials/testdata/pki"
)

var now = pki.Now

const (
	saURN    = "urn:publicid:IDN+example.org+authority+sa"
	aliceURN = "urn:publicid:IDN+example.org+user+alice"
	labAlice = "urn:publicid:IDN+example.org:lab+user+alice" // another user
	bobURN   = "urn:publicid:IDN+example.org+user+bob"
	toolURN  = "urn:publicid:IDN+example.org+tool+portal"
	sliceURN = "urn:publicid:IDN+example.org+slice+s1"
)

// world is one federation with one trusted authority.
type world struct {
	sa, alice, bob, tool, slice, other *pki.Entity
	z                                  *credentials.Authorizer
}

func newWorld(t testing.TB) *world {
	sa := pki.Authority(t, nil, saURN, "rsa1")
	return &world{
		sa: sa, alice: pki.User(t, sa, aliceURN, "rsa2"), bob: pki.User(t, sa, bobURN, "rsa4"),
		tool:  pki.User(t, sa, toolURN, "rsa6"),
		slice: pki.User(t, sa, sliceURN, "rsa3"), other: pki.User(t, sa, "urn:publicid:IDN+example.org+slice+s2", "rsa3"),
		z: credentials.New(pki.Anchors(sa), credentials.Config{}),
	}
}

// sliceCredential is alice's for the slice s1, signed by its authority.
func (w *world) sliceCredential() pki.Credential {
	return pki.Credential{
		Owner: []*pki.Entity{w.alice}, Target: []*pki.Entity{w.slice, w.sa}, Signer: []*pki.Entity{w.sa},
		Privileges: []string{"refresh", "embed", "bind", "control", "info"},
	}
}

func (w *world) userCredential() pki.Credential {
	return pki.Credential{
		Owner: []*pki.Entity{w.alice, w.sa}, Target: []*pki.Entity{w.alice, w.sa}, Signer: []*pki.Entity{w.sa},
		Privileges: []string{"refresh", "resolve", "info"},
	}
}

func (w *world) caller(t testing.TB, e *pki.Entity) credentials.Caller {
	t.Helper()
	c := w.z.Identify(pki.Raw(e), now)
	if c.Err != nil {
		t.Fatalf("caller %s: %v", e.Name(), c.Err)
	}
	return c
}

func sfa(docs ...string) (list []credentials.Presented) {
	for _, doc := range docs {
		list = append(list, credentials.Presented{Type: "geni_sfa", Version: "3", Text: doc})
	}
	return list
}

func replace(t testing.TB, s, old, by string) string {
	t.Helper()
	if !strings.Contains(s, old) {
		t.Fatalf("the document holds no %q", old)
	}
	return strings.Replace(s, old, by, 1)
}

func intermediates(s, from, to string) string {
	i := strings.Index(s, from)
	return s[i : i+strings.Index(s[i:], to)+len(to)]
}
