//go:build attack

package cert_test

import (
	"testing"

	"patchbay/credentials/rule"
)

// TestWithoutTheRuleOfAChain switches off the one rule that refuses a chain, and
// sees it accepted.
func TestWithoutTheRuleOfAChain(t *testing.T) {
	for _, r := range chains() {
		if r.broken == "" {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			rule.Without(func() {
				if _, err := r.verify(t); err != nil {
					t.Errorf("without the rule that %s: %v", r.broken, err)
				}
			}, r.broken)
		})
	}
}
