package testbed

import (
	"context"
	"fmt"
	"strings"
	"time"

	"patchbay/inventory/provider"
)

// Bounds on what is asked.
const (
	maxNodes        = 2000
	maxText         = 1024 // of a URN or client_id, in bytes
	maxNames        = provider.MaxNames
	maxRecordWrites = 8 // records that are written at once
)

// object is an answer or a part of one.
type object map[string]any

// refusalError is why one resource is not as asked; its text is for
// experimenters.
type refusalError struct {
	kind provider.Kind
	text string
}

func (e *refusalError) Error() string { return e.text }

func refusalf(kind provider.Kind, format string, args ...any) error {
	return &refusalError{kind, fmt.Sprintf(format, args...)}
}

// userError is an error with words for experimenters; err is for the log.
type userError struct {
	message string
	err     error
	final   bool // another attempt is of no use
}

func (e *userError) Error() string { return fmt.Sprintf("%s: %v", e.message, e.err) }

func (e *userError) Unwrap() error { return e.err }

func asUserError(words string, err error) error {
	if err == nil {
		return nil
	}
	return &userError{message: words, err: err}
}

// isID accepts what can be the name of a node: a UUID in small letters.
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

// semaphore bounds how many lives do something heavy at once.
type semaphore chan struct{}

// acquire waits for a turn, which ends with give.
func (t semaphore) acquire(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t semaphore) release() { <-t }

// How long a phase may take, and what is done when one fails.
const (
	startTime     = time.Minute
	agentTime     = 5 * time.Second // for an agent that has answered in time before
	slowAgentTime = 30 * time.Second
	removeTime    = 2 * time.Minute
	maxAttempts   = 3           // at what was asked, before the node is failed
	pause         = time.Second // after the first attempt, and so much more after each
	maxPause      = 30          // of these, between attempts without end
	maxDeaths     = 3           // of PID 1 within deathsWithin
	deathsWithin  = 5 * time.Minute
	deathsMessage = "its system has ended again and again; restart it, or look what ends it"
)

const takenMessage = "its user ids were given to somebody else; remove it and make it anew"
