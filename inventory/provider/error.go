package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unicode"

	"patchbay/am/display"
	"patchbay/am/executable"
)

// Kind is the meaning of an error; the value is the word that providers write.
type Kind string

// Kinds of errors.
const (
	// Unknown: the resource does not exist and cannot be created.
	Unknown Kind = "unknown"
	// Forbidden: the caller is not permitted.
	Forbidden Kind = "forbidden"
	// Unsupported: no component of the provider supports the request.
	Unsupported Kind = "unsupported"
	// Full: there is no capacity now, but there may be later.
	Full Kind = "full"
	// Failed: anything else, including an invalid answer.
	Failed Kind = "failed"
)

// maxMessage is the maximal length in bytes of a provider's message; the rest is cut off.
const maxMessage = 1000

// Error is the reason why a call has no result, or why one resource of a call has none.
type Error struct {
	Kind Kind
	// Msg is one line for experimenters. It may contain at most 1,000 bytes of the
	// provider's text, without control characters.
	Msg string
	// Temporary means that the same call may succeed later.
	Temporary bool
	// Err is set if the error does not come from the provider: the process died, its
	// answer was invalid, or a time limit was exceeded (context.DeadlineExceeded). Its
	// text is for operators.
	Err error
}

// Error returns the text for experimenters; Detail is for operators.
func (e *Error) Error() string {
	if e.Msg == "" {
		return string(e.Kind)
	}
	return e.Msg
}

func (e *Error) Unwrap() error { return e.Err }

// Detail returns the cause of the error for operators.
func (e *Error) Detail() string {
	if e.Err == nil {
		return e.Error()
	}
	return e.Err.Error()
}

// reported returns the error that a provider reports. It is temporary for the kinds Failed and Full. A word that is no
// kind counts as Failed.
func reported(kind, msg string) *Error {
	e := &Error{Kind: Failed, Msg: clean(msg, maxMessage), Temporary: true}
	if k := Kind(kind); k == Unknown || k == Forbidden || k == Unsupported {
		e.Kind, e.Temporary = k, false
	} else if k == Full {
		e.Kind = k
	}
	return e
}

// unusable returns the error of a call whose outcome is unknown, because the process failed
// or its answer is invalid. It logs the cause, unless the call was cancelled.
func (p *Provider) unusable(action string, cause error) *Error {
	e := &Error{Kind: Failed, Temporary: true, Err: fmt.Errorf("provider %s: %s: %w", p.Name, action, cause)}
	switch {
	case errors.Is(cause, context.Canceled):
		e.Msg = fmt.Sprintf("the provider %s was interrupted before it answered", p.Name)
		return e
	case errors.Is(cause, context.DeadlineExceeded):
		e.Msg = fmt.Sprintf("the provider %s, which does the work on this site, did not answer in time", p.Name)
	case wasKilled(cause):
		e.Msg = fmt.Sprintf("the provider %s, which does the work on this site, was killed before it answered; the log of the site says how", p.Name)
	default:
		e.Msg = fmt.Sprintf("the provider %s, which does the work on this site, is not working properly; the log of the site says why", p.Name)
	}
	p.logger().Warn("the call of a provider has no usable answer", "provider", p.Name, "action", action, "error", clean(cause.Error(), maxMessage))
	return e
}

// ErrNoPlace means that the context of a set ended while the set waited for one of the
// provider's Parallel places. The provider was not started.
var ErrNoPlace = errors.New("found no free place")

func (p *Provider) noPlace(cause error) *Error {
	return &Error{
		Kind: Failed, Temporary: true, Err: fmt.Errorf("provider %s: set %w: %w", p.Name, ErrNoPlace, cause),
		Msg: fmt.Sprintf("the provider %s, which does the work on this site, is busy with other requests", p.Name),
	}
}

// wasKilled reports whether a signal ended the process.
func wasKilled(cause error) bool {
	e, ok := errors.AsType[*executable.ExitError](cause)
	if !ok {
		return false
	}
	status, ok := e.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// clean returns external text as one line. It cuts off the text after limit bytes and then
// appends an ellipsis.
func clean(s string, limit int) string {
	s = display.Cut(strings.ToValidUTF8(s, "\uFFFD"), limit)
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\uFFFE' || r == '\uFFFF' {
			return ' '
		}
		return r
	}, s))
}
