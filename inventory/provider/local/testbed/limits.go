package testbed

import (
	"context"
	"fmt"
	"strings"
	"time"

	"patchbay/inventory/provider"
)

const (
	maxNodes        = 2000
	maxText         = 1024 // of a URN or client_id, in bytes
	maxNames        = provider.MaxNames
	maxRecordWrites = 8 // records that are written at once
)

// object is an answer or a part of one.
type object map[string]any

// userError is an error with a message for experimenters; err is for the log.
type userError struct {
	message string
	err     error
	final   bool // another attempt cannot succeed
}

func (e *userError) Error() string { return fmt.Sprintf("%s: %v", e.message, e.err) }

func (e *userError) Unwrap() error { return e.err }

// asUserError returns nil if err is nil.
func asUserError(message string, err error) error {
	if err == nil {
		return nil
	}
	return &userError{message: message, err: err}
}

// isID reports whether s can be the name of a node: a UUID in small letters.
func isID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		hyphen := i == 8 || i == 13 || i == 18 || i == 23
		if hyphen != (s[i] == '-') || !hyphen && !strings.Contains("0123456789abcdef", s[i:i+1]) {
			return false
		}
	}
	return true
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// semaphore bounds how many goroutines do something expensive at once.
type semaphore chan struct{}

// acquire fails if ctx ends before a place is free. After a success the caller must call
// release.
func (t semaphore) acquire(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t semaphore) release() { <-t }

// Times and limits of phases.
const (
	startTime     = time.Minute
	agentTime     = 5 * time.Second // for an agent that has answered in time before
	slowAgentTime = 30 * time.Second
	removeTime    = 2 * time.Minute
	maxAttempts   = 3           // before the node has failed
	pause         = time.Second // after the first attempt; each further pause is longer by this
	maxPause      = 30          // the longest pause, in units of pause
	maxDeaths     = 3           // of PID 1 within deathsWithin
	deathsWithin  = 5 * time.Minute
	deathsMessage = "its system ended repeatedly; restart it, or find out what ends it"
)

const takenMessage = "its user ids were allocated to another user; remove it and create it again"
