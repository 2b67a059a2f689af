package testbed

import (
	"context"
	"errors"
	"time"
)

// outcome says how a phase ended.
type outcome int

const (
	done   outcome = iota // the next phase runs
	retry                 // the round ends; another one begins later
	failed                // the same, but after maxAttempts the node is failed
)

// result is how a phase ended.
type result struct {
	outcome outcome
	// retryAfter is when another round begins, for retry without an error. Zero: when
	// something changes.
	retryAfter time.Duration
	err        error
}

// resultOf is the result of a phase that must succeed: done if err is nil.
func resultOf(err error) result {
	if err == nil {
		return result{}
	}
	return result{outcome: failed, err: err}
}

// phase is one step of making a node as asked.
type phase func(nc *nodeController, r *round) result

// round is one pass through the phases, for one state of the record.
type round struct {
	ctx context.Context
	// rec is the record as it was when the round began; phases add what they settle.
	rec record
	// pending is what could not be done and does not keep the node from being
	// ready. Another round tries it again.
	pending error

	users           []user
	key             experimentKey
	peers           peerFiles
	accountsCurrent bool // the agent was told these users and this hostname
	loginsReady     bool // besides, the logins were proven and the doors are open
	configured      bool // the agent and the gateway have everything: nothing is to be configured
}

// postpone notes that something could not be done yet.
func (r *round) postpone(err error) result {
	r.pending = errors.Join(r.pending, err)
	return result{}
}
