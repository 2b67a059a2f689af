//go:build attack

package rule_test

import (
	"testing"

	"patchbay/credentials/rule"
)

func TestWithoutTheRuleNothingIsBroken(t *testing.T) {
	rule.Without(func() {
		if rule.Digest.Broken(true) || rule.Signed.Broken(true) {
			t.Error("broken while it is off")
		}
		if !rule.Signature.Broken(true) || rule.Signature.Broken(false) {
			t.Error("another rule is off too")
		}
	}, rule.Digest, rule.Signed)
	if !rule.Digest.Broken(true) {
		t.Error("not broken when it is on again")
	}
}
