package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unicode"

	"patchbay/am/executable"
)

// Kind says what a refusal means; the value is the word on the wire.
type Kind string

// Kinds of error.
const (
	// Unknown: the resource does not exist and cannot be created.
	Unknown Kind = "unknown"
	// Forbidden: the caller is not permitted.
	Forbidden Kind = "forbidden"
	// Unsupported: it asks for what cannot be made here, whatever component is free.
	Unsupported Kind = "unsupported"
	// Full: there is no room for it now, and there may be later.
	Full Kind = "full"
	// Failed: anything else, also an answer that could not be used.
	Failed Kind = "failed"
)

// maxMessage is the longest text of a provider that is passed on, in bytes.
const maxMessage = 1000

// Error is why a call, or one resource of a call, has no result.
type Error struct {
	Kind Kind
	// Msg is one line for experimenters. It may hold text of the provider,
	// cleaned of control characters and at most 1,000 bytes of it.
	Msg string
	// Temporary says that the same call may succeed later.
	Temporary bool
	// Err is set when it was not the provider that said so: the process died,
	// its answer was unusable, or a time limit was over, which is
	// context.DeadlineExceeded. Its text is for operators.
	Err error
}

// Error is what experimenters may read; Detail is for operators.
func (e *Error) Error() string {
	if e.Msg == "" {
		return string(e.Kind)
	}
	return e.Msg
}

func (e *Error) Unwrap() error { return e.Err }

// Detail is what happened, in the words of the host: one line for operators.
func (e *Error) Detail() string {
	if e.Err == nil {
		return e.Error()
	}
	return e.Err.Error()
}

// said is an error the provider reported itself. Only failed and full are worth
// another try.
func said(kind, msg string) *Error {
	e := &Error{Kind: Failed, Msg: clean(msg, maxMessage), Temporary: true}
	if k := Kind(kind); k == Unknown || k == Forbidden || k == Unsupported {
		e.Kind, e.Temporary = k, false
	} else if k == Full {
		e.Kind = k
	}
	return e
}

// unusable is a call whose outcome is not known: the process or its answer
// broke. The log gets to know why, unless the call was given up on purpose.
func (p *Provider) unusable(action string, cause error) *Error {
	e := &Error{Kind: Failed, Temporary: true, Err: fmt.Errorf("provider %s: %s: %w", p.Name, action, cause)}
	switch {
	case errors.Is(cause, context.Canceled):
		e.Msg = fmt.Sprintf("the provider %s was interrupted before it had answered", p.Name)
		return e
	case errors.Is(cause, context.DeadlineExceeded):
		e.Msg = fmt.Sprintf("the provider %s, which does the work on this site, did not answer in time", p.Name)
	case wasKilled(cause):
		e.Msg = fmt.Sprintf("the provider %s, which does the work on this site, was killed before it had answered; the log of the site says how", p.Name)
	default:
		e.Msg = fmt.Sprintf("the provider %s, which does the work on this site, is not working properly; the log of the site says why", p.Name)
	}
	p.logger().Warn("the call of a provider has no usable answer", "provider", p.Name, "action", action, "error", clean(cause.Error(), maxMessage))
	return e
}

// ErrNoPlace says that the time of a set was over before it had one of the
// provider's places: nothing was run.
var ErrNoPlace = errors.New("had no place")

// crowded is a set that was given up while it waited for a place.
func (p *Provider) crowded(cause error) *Error {
	return &Error{
		Kind: Failed, Temporary: true, Err: fmt.Errorf("provider %s: set %w: %w", p.Name, ErrNoPlace, cause),
		Msg: fmt.Sprintf("the provider %s, which does the work on this site, is busy with others", p.Name),
	}
}

// wasKilled tells whether a signal ended the process.
func wasKilled(cause error) bool {
	e, ok := errors.AsType[*executable.ExitError](cause)
	if !ok {
		return false
	}
	status, ok := e.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// clean makes one line of at most limit bytes out of text from outside.
func clean(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\uFFFE' || r == '\uFFFF' {
			return ' '
		}
		return r
	}, s))
}
