package provider

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind says what a refusal means; the value is the word on the wire.
type Kind string

// Kinds of error.
const (
	// Unknown: the resource does not exist and cannot be created.
	Unknown Kind = "unknown"
	// Forbidden: the caller is not permitted.
	Forbidden Kind = "forbidden"
	// Failed: anything else, also an answer that could not be used.
	Failed Kind = "failed"
)

// maxMessage is the longest text of a provider that is passed on, in bytes.
const maxMessage = 1000

// Error is why a call, or one resource of a call, has no result.
type Error struct {
	Kind Kind
	// Msg is one readable line. It may hold text of the provider, cleaned of
	// control characters and at most 1,000 bytes of it.
	Msg string
	// Temporary says that the same call may succeed later.
	Temporary bool
	// Err is set when it was not the provider that said so: the process died,
	// its answer was unusable, or a time limit was over, which is
	// context.DeadlineExceeded.
	Err error
}

func (e *Error) Error() string {
	if e.Msg == "" {
		return string(e.Kind)
	}
	return e.Msg
}

func (e *Error) Unwrap() error { return e.Err }

// said is an error the provider reported itself. Only failed is worth another try.
func said(kind, msg string) *Error {
	e := &Error{Kind: Failed, Msg: clean(msg, maxMessage), Temporary: true}
	if k := Kind(kind); k == Unknown || k == Forbidden {
		e.Kind, e.Temporary = k, false
	}
	return e
}

// unusable is a call whose outcome is not known: the process or its answer broke.
func (p *Provider) unusable(action string, cause error) *Error {
	return &Error{Kind: Failed, Msg: fmt.Sprintf("provider %s: %s: %v", p.Name, action, cause), Temporary: true, Err: cause}
}

// clean makes one line of at most limit bytes out of text from outside.
func clean(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > limit {
		s = s[:limit]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		s += "…"
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\uFFFE' || r == '\uFFFF' {
			return ' '
		}
		return r
	}, s))
}
