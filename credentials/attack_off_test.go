//go:build attack

package credentials_test

import (
	"slices"
	"testing"

	"patchbay/credentials/dsig"
	"patchbay/credentials/rule"
)

// TestWithoutTheRule presents every attack while the one rule that refuses it is
// switched off. It must be accepted then: so it was not refused for another
// reason. Where two rules stand in the way, one of them is not enough to get in.
func TestWithoutTheRule(t *testing.T) {
	w := newWorld(t)
	accepted, double := 0, 0
	for _, theme := range themes {
		t.Run(theme.name, func(t *testing.T) {
			one, two := acceptAll(t, w, theme.rows(t, w))
			accepted, double = accepted+one+two, double+two
		})
	}
	t.Logf("%d attacks accepted without the rule that refuses them, %d of these without two", accepted, double)
}

// TestWithoutTheRuleOnWhatXmlsec1Signed is the same for an outside signer.
func TestWithoutTheRuleOnWhatXmlsec1Signed(t *testing.T) {
	w := newWorld(t)
	one, two := acceptAll(t, w, outsideAttacks(t, w))
	t.Logf("%d attacks accepted without the rule that refuses them, %d of these without two", one+two, two)
}

// acceptAll gives the number of attacks that one rule, and that two, keep out.
func acceptAll(t *testing.T, w *world, rows []attack) (one, two int) {
	for _, a := range rows {
		switch {
		case a.nothing():
			continue
		case a.also == "":
			one++
		case a.also != rule.Readable:
			two++
		}
		t.Run(a.title(), func(t *testing.T) {
			dsig.Pretended = nil
			if a.attack.pretended != nil {
				dsig.Pretended = a.attack.pretended.Certificate
			}
			off := []rule.Rule{a.rule}
			if a.also == rule.Readable {
				var err error
				rule.Without(func() { err = a.attack.try(w) }, a.rule)
				if err == nil || !slices.Equal(broken(t, err), []rule.Rule{rule.Readable}) {
					t.Errorf("without %q it can be read: %v", a.rule, err)
				}
				return
			}
			if a.also != "" {
				var err error
				rule.Without(func() { err = a.attack.try(w) }, a.rule)
				if err == nil {
					t.Fatalf("accepted without %q: %q is not broken", a.rule, a.also)
				}
				if got := broken(t, err); !slices.Equal(got, []rule.Rule{a.also}) {
					t.Errorf("then refused by %q, want %q: %v", got, a.also, err)
				}
				off = append(off, a.also)
			}
			rule.Without(func() {
				if err := a.attack.try(w); err != nil {
					t.Errorf("refused without %q, by %q: %v", off, broken(t, err), err)
				}
			}, off...)
			if err := a.attack.try(w); err == nil {
				t.Error("accepted once the rule was on again")
			}
		})
	}
	return one, two
}
