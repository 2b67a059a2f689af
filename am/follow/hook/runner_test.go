package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/store"
	"patchbay/am/testkit/wait"
)

var errNo = errors.New("no")

// A slice whose events always fail and a hook that hangs do not delay calls, other slices or
// other hooks.
func TestHangingHookDelaysNothingElse(t *testing.T) {
	var d diary
	release := make(chan struct{})
	b := newBench(t, Hook{Name: "hangs"}, Hook{Name: "works"})
	b.take = func(ctx context.Context, hook string, e Event) error {
		if hook == "hangs" {
			select {
			case <-release:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return d.take(ctx, hook, e)
	}
	b.start()
	for i := range 50 {
		b.put(reserved(fmt.Sprint("s", i%10), fmt.Sprint("a", i))) // would never end
	}
	wait.Until(t, "the other hook has all", func() bool { return len(d.lines()) == 50 })
	if n := len(b.waiting()); n != 50 {
		t.Errorf("%d events wait", n)
	}
	close(release)
	b.drained()
	if n := len(d.lines()); n != 100 {
		t.Errorf("%d were taken", n)
	}
}

func TestASliceThatFailsDoesNotStopOthers(t *testing.T) {
	var d diary
	var heal atomic.Bool
	b := newBench(t, Hook{Name: "h"})
	b.take = func(ctx context.Context, hook string, e Event) error {
		if strings.HasPrefix(e.ClientID, "bad") && !heal.Load() {
			return errNo
		}
		return d.take(ctx, hook, e)
	}
	b.start()
	for i := range 20 { // more than there are places
		b.put(reserved(fmt.Sprint("bad", i), fmt.Sprint("bad", i)))
	}
	wait.Until(t, "a failure", func() bool { return b.runner.Failing() == 1 })
	b.put(reserved("good", "g1"))
	b.put(reserved("good", "g2"))
	b.put(reserved("bad0", "bad-later"))
	wait.Until(t, "the good slice", func() bool { return len(d.lines()) == 2 })
	heal.Store(true)
	b.drained()
	wait.Until(t, "it is well again", func() bool { return b.runner.Failing() == 0 })
	got := d.lines()
	if diff := cmp.Diff([]string{"h allocated g1", "h allocated g2"}, got[:2]); diff != "" {
		t.Error(diff)
	}
	if slices.Index(got, "h allocated bad0") > slices.Index(got, "h allocated bad-later") {
		t.Errorf("out of order: %q", got)
	}
}

func TestNewHookGetsLaterEventsOnly(t *testing.T) {
	var d diary
	b := newBench(t, Hook{Name: "old"})
	b.take = d.take
	b.open()
	b.put(reserved("s", "a"))
	b.halt()
	b.hooks = []Hook{{Name: "new", Timeout: patience}}
	b.start()
	b.put(reserved("s", "b"))
	b.drained()
	if diff := cmp.Diff([]string{"new allocated b"}, d.lines()); diff != "" {
		t.Error(diff)
	}
	wait.Until(t, "the old one's claim is gone", func() bool { return b.runner.Waiting() == 0 })
}

// TestDroppedEvents deletes changes that a hook has not read: those that the runner has read before,
// and those that it reads at the next start.
func TestDroppedEvents(t *testing.T) {
	var d diary
	var heal atomic.Bool
	b := newBench(t, Hook{Name: "down"}, Hook{Name: "works", Events: []Kind{Allocated}})
	b.take = func(ctx context.Context, hook string, e Event) error {
		if hook == "down" && !heal.Load() {
			return errNo
		}
		return d.take(ctx, hook, e)
	}
	b.start()
	for i := range 40 {
		b.put(reserved(fmt.Sprint("s", i%7), fmt.Sprint("a", i)))
	}
	wait.Until(t, "the other hook has all", func() bool { return len(d.lines()) == 40 && b.runner.States()[0].Waiting == 40 })
	prune := func(number int) {
		t.Helper()
		if err := b.store.PruneChanges(t.Context(), store.ChangeLimits{Number: number}); err != nil {
			t.Fatal(err)
		}
	}
	prune(20)
	wait.Until(t, "the oldest are dropped", func() bool { return b.runner.Lost() == 20 && b.runner.Waiting() == 20 })
	b.halt()
	b.open()
	prune(10)
	b.halt()
	b.start()
	wait.Until(t, "more are dropped", func() bool { return b.runner.Lost() > 0 })
	heal.Store(true)
	b.drained()
	var got []string
	for _, x := range d.lines() {
		if strings.HasPrefix(x, "down ") {
			got = append(got, x)
		}
	}
	if len(got) < 9 || len(got) > 10 || !slices.Contains(got, "down allocated a39") {
		t.Errorf("%d delivered late: %q", len(got), got)
	}
	if n := len(d.lines()) - len(got); n != 40 {
		t.Errorf("the other hook has %d events", n)
	}
}

// The runner gives a running delivery a moment, logs this, then cancels it.
func TestStopWaitsForARunningDelivery(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	b := newBench(t, Hook{Name: "h"})
	b.take = func(ctx context.Context, _ string, e Event) error {
		close(begun)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var log bytes.Buffer
	b.log = slog.New(slog.NewTextHandler(&log, nil))
	b.limits.Grace = patience
	b.start()
	b.put(reserved("s", "a"))
	<-begun
	time.AfterFunc(50*time.Millisecond, func() { close(release) })
	b.stop()
	if text := log.String(); !strings.Contains(text, "waiting for running hooks") || !strings.Contains(text, "hooks=[h]") {
		t.Errorf("the log is %q", text)
	}
	if left := b.waiting(); len(left) != 0 {
		t.Errorf("events delivered during the stop still wait: %q", lines(left))
	}
	b.halt()

	begun, release = make(chan struct{}), make(chan struct{})
	b.limits.Grace = time.Millisecond
	b.start()
	b.put(reserved("s", "b"))
	<-begun
	b.stop() // or the test hangs
	if diff := cmp.Diff([]string{"allocated b"}, lines(b.waiting())); diff != "" {
		t.Error(diff)
	}
}

// States reports for each hook the waiting events, since when it fails and why.
func TestStatesOfHooks(t *testing.T) {
	var d diary
	var heal atomic.Bool
	b := newBench(t, Hook{Name: "works"}, Hook{Name: "fails"})
	b.take = func(ctx context.Context, hook string, e Event) error {
		if hook == "fails" && !heal.Load() {
			return fmt.Errorf("no %s", strings.Repeat("é", maxText))
		}
		return d.take(ctx, hook, e)
	}
	b.start()
	begun := time.Now()
	b.put(reserved("s", "a"), reserved("s", "b"))
	b.put(reserved("t", "c"))
	state := func(i int) State {
		if all := b.runner.States(); len(all) == 2 {
			return all[i]
		}
		return State{}
	}
	wait.Until(t, "one works and the other has failed twice", func() bool {
		return state(0) == State{Name: "works"} && state(1).Waiting == 3 && state(1).Failures > 1
	})
	s := state(1)
	if s.Name != "fails" || !s.Failing || s.Since.Before(begun) || !strings.HasPrefix(s.Error, "no é") || len(s.Error) > maxText || !utf8.ValidString(s.Error) {
		t.Errorf("it is %+v", s)
	}
	heal.Store(true)
	wait.Until(t, "it is well", func() bool { return state(1) == State{Name: "fails"} })
}
