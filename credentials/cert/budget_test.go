package cert_test

import (
	"strings"
	"testing"

	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

func TestBudgetPaysByTheKey(t *testing.T) {
	for key, checks := range map[string]int{"rsa1": 48, "p256": 24, "p384": 3, "p521": 1} {
		k := pki.Key(t, key).Public()
		b := cert.NewBudget(48)
		for i := range checks {
			if b.Spent() || !b.Take(k) {
				t.Fatalf("%s: check %d of %d is not paid", key, i+1, checks)
			}
		}
		if !b.Spent() || b.Take(k) {
			t.Errorf("%s: more than %d checks are paid", key, checks)
		}
	}
	var none *cert.Budget
	if none.Spent() || !none.Take(nil) {
		t.Error("no budget has an end")
	}
}

func TestVerifyKeepsToItsBudget(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	sub := pki.Authority(t, root, "urn:publicid:IDN+example.org:lab+authority+sa", "rsa2")
	alice := pki.User(t, sub, "urn:publicid:IDN+example.org:lab+user+alice", "rsa3")
	a := pki.Anchors(root)
	others := []*cert.Certificate{sub.Certificate}
	if _, err := cert.Verify(alice.Certificate, others, a, cert.Options{Budget: cert.NewBudget(1)}, pki.Now); err == nil || !strings.Contains(err.Error(), cert.ErrBudget.Error()) {
		t.Errorf("two checks for the price of one: %v", err)
	}
	if _, err := cert.Verify(alice.Certificate, others, a, cert.Options{Budget: cert.NewBudget(2)}, pki.Now); err != nil {
		t.Error(err)
	}
	if _, err := cert.Verify(alice.Certificate, others, a, cert.Options{Budget: cert.NewBudget(0)}, pki.Now); err != nil {
		t.Errorf("what is remembered costs nothing: %v", err)
	}
}
