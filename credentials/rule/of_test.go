package rule_test

import (
	"errors"
	"fmt"
	"testing"

	"patchbay/credentials/dsig"
	"patchbay/credentials/rule"
)

func TestOfFindsTheRuleInAnError(t *testing.T) {
	e := &dsig.Error{Rule: rule.Digest, Text: "x"}
	for _, tt := range []struct {
		err  error
		want rule.Rule
	}{
		{e, rule.Digest},
		{fmt.Errorf("credential 1: %w", e), rule.Digest},
		{&dsig.Error{Text: "x"}, rule.Readable},
		{errors.New("x"), rule.Readable},
		{nil, rule.Readable},
	} {
		if got := rule.Of(tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}
