package testbed

import (
	"context"
	"errors"
	"time"
)

type outcome int

const (
	done   outcome = iota // continue with the next phase
	retry                 // end the round and begin another one later
	failed                // as retry, but after maxAttempts the node has failed
)

// result is the outcome of a phase, with the time of the retry or the error.
type result struct {
	outcome outcome
	// retryAfter is the time until the next round if the outcome is retry without an error.
	// Zero means that only a wakeup begins the next round.
	retryAfter time.Duration
	err        error
}

func resultOf(err error) result {
	if err == nil {
		return result{}
	}
	return result{outcome: failed, err: err}
}

// phase brings one part of a node into its desired state.
type phase func(nc *nodeController, r *round) result

// round is one pass through the phases, for one version of the record.
type round struct {
	ctx context.Context
	// rec is the record at the start of the round; phases add what they allocate.
	rec record
	// pending is an error of a part that a ready node does not need. A later round retries
	// that part.
	pending error

	users           []user
	key             experimentKey
	peers           peerFiles
	accountsCurrent bool // the agent has these users and this hostname
	loginsReady     bool // in addition, the logins are proven and the endpoint is open
	configured      bool // the agent and the gateway are up to date
}

func (r *round) postpone(err error) result {
	r.pending = errors.Join(r.pending, err)
	return result{}
}
