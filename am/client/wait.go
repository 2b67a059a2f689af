package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/am"
)

// StatusFunc asks an aggregate for the slivers of a slice. A slice without slivers is not an
// error.
type StatusFunc func(context.Context) ([]Sliver, error)

// StatusOf returns a StatusFunc that calls Status for urns. The function returns no slivers
// for the code SEARCHFAILED.
func (c *Client) StatusOf(urns []string, creds []Credential) StatusFunc {
	return func(ctx context.Context) ([]Sliver, error) {
		a, _, err := c.Status(ctx, urns, creds, Options{})
		if am.CodeOf(err) == am.SearchFailed {
			return nil, nil
		}
		return a.Slivers, err
	}
}

// Wanted is a condition for Wait: each sliver is in one of these operational states. An
// empty list means that no sliver exists any more.
type Wanted []am.OperationalState

// Conditions for Wait.
var (
	// Made holds when Provision is done.
	Made = Wanted{am.NotReady, am.Ready}
	// Running holds when geni_start or geni_restart is done.
	Running = Wanted{am.Ready}
	// Stopped holds when geni_stop is done.
	Stopped = Wanted{am.NotReady}
	// Gone holds when Delete is done.
	Gone = Wanted{}
)

func (w Wanted) has(s Sliver) bool { return slices.Contains(w, am.OperationalState(s.Operational)) }

// FailedError has the slivers that failed while Wait waited for them.
type FailedError struct{ Slivers []Sliver }

func (e *FailedError) Error() string {
	lines := make([]string, len(e.Slivers))
	for i, s := range e.Slivers {
		name, reason := s.ClientID, s.Error
		if name == "" {
			name = s.URN
		}
		if reason == "" {
			reason = "the aggregate gives no reason"
		}
		lines[i] = fmt.Sprintf("%s failed: %s", name, indented(reason))
	}
	return strings.Join(lines, "\n")
}

// ErrNoSlivers is the error of Wait when the slice has no slivers any more.
var ErrNoSlivers = errors.New("the slice has no slivers any more: they were deleted, or their lease is over")

const (
	firstPoll   = 100 * time.Millisecond
	longestPoll = 2 * time.Second
	// pollErrors is the number of failed calls in a row after which Wait fails.
	pollErrors = 5
)

// Wait polls the status until the slivers fulfil the condition goal, and returns the slivers.
// It calls report, if it is not nil, with the slivers of each answer. Wait fails with a
// *FailedError if slivers failed and no other is changing, and with ErrNoSlivers if none are
// left. It fails with the cause of ctx when ctx ends, and if the aggregate refuses a call. It
// retries a few times if the aggregate is busy or does not answer.
func Wait(ctx context.Context, status StatusFunc, goal Wanted, report func([]Sliver)) ([]Sliver, error) {
	poll, failures := firstPoll, 0
	for {
		list, err := status(ctx)
		switch {
		case ctx.Err() != nil:
			return list, context.Cause(ctx)
		case err != nil:
			if failures++; failures == pollErrors || !mayPass(err) {
				return list, err
			}
		default:
			failures = 0
			if report != nil {
				report(list)
			}
			if done, err := goal.reached(list); done || err != nil {
				return list, err
			}
		}
		select {
		case <-ctx.Done():
			return list, context.Cause(ctx)
		case <-time.After(poll):
		}
		poll = min(poll*5/4, longestPoll)
	}
}

// reached reports whether the slivers fulfil the condition. It fails if they cannot fulfil it any
// more: the list is empty, or some slivers failed and no other is changing.
func (w Wanted) reached(list []Sliver) (bool, error) {
	switch {
	case len(w) == 0:
		return len(list) == 0, nil
	case len(list) == 0:
		return false, ErrNoSlivers
	}
	var failed []Sliver
	waiting := false
	for _, s := range list {
		switch {
		case w.has(s):
		case s.Operational == string(am.Failed):
			failed = append(failed, s)
		default:
			waiting = true
		}
	}
	switch {
	case waiting:
		return false, nil
	case len(failed) > 0:
		return false, &FailedError{failed}
	}
	return true, nil
}

func mayPass(err error) bool {
	if e, ok := errors.AsType[*am.Error](err); ok {
		return e.Code == am.Busy || e.Code == am.ServerBusy
	}
	return true
}
