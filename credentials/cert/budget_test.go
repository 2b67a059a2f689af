package cert_test

import (
	"testing"

	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

func TestBudgetPaysByTheKey(t *testing.T) {
	for key, checks := range map[string]int{"rsa1": 48, "p256": 24, "p384": 3, "p521": 1} {
		k := pki.Key(t, key).Public()
		b := cert.NewBudget(48)
		for i := range checks {
			if b.IsSpent() || !b.Take(k) {
				t.Fatalf("%s: check %d of %d is not paid", key, i+1, checks)
			}
		}
		if !b.IsSpent() || b.Take(k) {
			t.Errorf("%s: more than %d checks are paid", key, checks)
		}
	}
	var none *cert.Budget
	if none.IsSpent() || !none.Take(nil) {
		t.Error("no budget has an end")
	}
}
