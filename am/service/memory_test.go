package service

import (
	"context"
	"errors"
	"testing"
	"time"

	"patchbay/rspec"
)

// TestACallerHasOneRequestParsedAtATime checks that two requests of a caller are not parsed at the
// same time. Parsing takes much more memory than its result, and a processor.
func TestACallerHasOneRequestParsedAtATime(t *testing.T) {
	m := newMemory(rspec.Limits{})
	text := []byte(`<rspec type="request" xmlns="` + rspec.Namespace + `"/>`)
	parse := func(caller string, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := m.Parse(ctx, caller, text, rspec.ReadOptions{})
		return err
	}
	alice := m.turnOf("alice")
	alice.taken <- struct{}{}
	if err := parse("bob", time.Minute); err != nil {
		t.Errorf("another caller: %v", err)
	}
	if err := parse("alice", time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beside another request of the caller: %v", err)
	}
	<-alice.taken
	m.releaseTurn("alice", alice)
	if err := parse("alice", time.Minute); err != nil {
		t.Errorf("alone: %v", err)
	}
	if len(m.turns) != 0 {
		t.Errorf("%d callers without a request are remembered", len(m.turns))
	}
}
