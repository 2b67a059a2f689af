package credentials

import (
	"fmt"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/credentials/cert"
	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
)

// TestExaminedAgainOnlyWhereMoreIsKnown checks that a refused credential is verified again only if
// new certificates are known. Otherwise this would double the cost of a call in vain.
func TestExaminedAgainOnlyWhereMoreIsKnown(t *testing.T) {
	root := pki.Authority(t, nil, "urn:publicid:IDN+example.org+authority+root", "rsa1")
	sa := pki.Authority(t, root, "urn:publicid:IDN+example.org+authority+sa", "rsa2")
	alice := pki.User(t, sa, "urn:publicid:IDN+example.org+user+alice", "rsa3")
	z := New(pki.Anchors(root), Config{})
	p := []Presented{{Text: pki.Credential{Owner: []*pki.Entity{alice}, Target: []*pki.Entity{alice}, Signer: []*pki.Entity{sa}, Privileges: []string{"*"}}.Signed(t)}}
	between := []*cert.Certificate{sa.Certificate}
	for _, tt := range []struct {
		rule         string
		beside, more []*cert.Certificate
		again        bool
	}{
		{"nothing more", nil, nil, false},
		{"what was beside", between, between, false},
		{"something more", nil, between, true},
	} {
		list := []examined{{err: refuse(rule.Anchored, am.CredentialUntrusted, "at first")}}
		z.examineAgain(examination{z.trust.Load(), nil, pki.Now}, p, list, tt.beside, tt.more)
		if again := list[0].err == nil; again != tt.again {
			t.Errorf("%s: %v", tt.rule, list[0].err)
		}
	}
}

// TestChecksOfSignaturesAreBoundedPerCall has credentials whose certificates have expensive keys
// and could have issued each other in every order.
func TestChecksOfSignaturesAreBoundedPerCall(t *testing.T) {
	sa := pki.Authority(t, nil, "urn:publicid:IDN+example.org+authority+sa", "rsa1")
	bob := pki.User(t, sa, "urn:publicid:IDN+example.org+user+bob", "rsa3")
	z := New(pki.Anchors(sa), Config{})
	good := pki.Credential{Owner: []*pki.Entity{bob}, Target: []*pki.Entity{bob}, Signer: []*pki.Entity{sa}, Privileges: []string{"*"}}.Signed(t)
	var fakes []*pki.Entity
	for range 9 {
		fakes = append(fakes, pki.Issue(t, nil, pki.Subject{URIs: []string{"urn:publicid:IDN+example.com+authority+sa"}, Key: "p521", CA: true}))
	}
	eve := pki.User(t, fakes[0], "urn:publicid:IDN+example.com+user+eve", "rsa4")
	all := append([]*pki.Entity{eve}, fakes...)
	costly := pki.Credential{Owner: all, Target: all, Signer: fakes, Privileges: []string{"*"}}.Signed(t)
	var docs []Presented
	for i := range 8 {
		docs = append(docs, Presented{Text: costly + fmt.Sprintf("<!--%d-->", i)})
	}
	known := z.Identify(pki.Raw(bob), pki.Now)
	last := append(docs[:8:8], Presented{Text: good})
	if _, err := z.Authorize(known, last, "", RightListResources, pki.Now); err == nil || !strings.Contains(err.Error(), cert.ErrBudget.Error()) {
		t.Errorf("the budget of a call has no end: %v", err)
	}
	if _, err := z.Authorize(known, append([]Presented{{Text: good}}, docs...), "", RightListResources, pki.Now); err != nil {
		t.Errorf("the good one stands first: %v", err)
	}
	if _, err := z.Authorize(known, last, "", RightListResources, pki.Now); err != nil {
		t.Errorf("the good one is remembered: %v", err)
	}
	// An unknown caller has a lower limit.
	x := examination{z.trust.Load(), cert.NewBudget(untrustedBudget), pki.Now}
	for i, p := range docs[:2] {
		if _, err := z.examine(x, p, nil); err == nil || strings.Contains(err.Error(), "it is not read") != (i > 0) {
			t.Errorf("credential %d of a stranger: %v", i+1, err)
		}
	}
}
