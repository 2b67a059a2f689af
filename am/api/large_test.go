package api

import (
	"context"
	"errors"
	"testing"
	"time"

	"patchbay/rspec"
)

func TestLargeRequestsWaitForEachOther(t *testing.T) {
	l := newLargeRequests()
	var leave []func()
	for range largeTogether {
		done, err := l.enter(t.Context(), rspec.Large)
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, done)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.enter(ctx, rspec.Large); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one more than may be at one time: %v", err)
	}
	if done, err := l.enter(ctx, rspec.Large-1); err != nil {
		t.Errorf("a small one must not wait: %v", err)
	} else {
		done()
	}
	for _, done := range leave {
		done()
	}
	if len(l) != 0 {
		t.Errorf("%d places are still taken", len(l))
	}
}
