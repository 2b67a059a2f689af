package dsig

import "fmt"

// Reason is why a document was refused.
type Reason int

// The reasons.
const (
	Malformed    Reason = iota // not XML, or not the shape of a signed credential
	Unsigned                   // a credential of the chain has no signature, or two
	Unsupported                // an algorithm, transform or key outside the profile
	WeakDigest                 // SHA-1 where the operator does not allow it
	BadSignature               // digest or signature do not match
)

// Error is a document that Verify refused.
type Error struct {
	Reason Reason
	// Text is one readable line.
	Text string
	// Err is the cause, where another room gave one.
	Err error
}

func (e *Error) Error() string { return e.Text }

func (e *Error) Unwrap() error { return e.Err }

func refuse(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Text: fmt.Sprintf(format, args...)}
}
