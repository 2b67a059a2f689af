package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/store"
)

// TestDoubtfulWriteIsNotCalledUnchanged checks that an answer says "nothing was changed" only if the
// write certainly failed, because clients then repeat the call without a look at the state.
func TestDoubtfulWriteIsNotCalledUnchanged(t *testing.T) {
	for _, tt := range []struct {
		rule string
		err  error
		says bool
	}{
		{"a change that was not written", fmt.Errorf("%w: %w", store.ErrNotCommitted, errors.New("disk full")), true},
		{"one that came after a doubtful one", fmt.Errorf("%w: an earlier one is in doubt", store.ErrNotCommitted), true},
		{"a doubtful one", fmt.Errorf("%w: %w", store.ErrNotCommitted, store.ErrInDoubt), false},
	} {
		code, _, text := codeOf(tt.err, "r1")
		if code != am.DBError || strings.Contains(text, "nothing was changed") != tt.says || !strings.Contains(text, "r1") {
			t.Errorf("%s: %v, %q", tt.rule, code, text)
		}
	}
}
