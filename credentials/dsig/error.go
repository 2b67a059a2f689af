package dsig

import (
	"fmt"

	"patchbay/credentials/rule"
)

// Reason is the kind of a refusal.
type Reason int

const (
	Malformed    Reason = iota // not XML, or not the structure of a signed credential
	Unsigned                   // a credential of the chain has no signature, or two
	Unsupported                // an algorithm, transform or key that is not supported
	WeakDigest                 // SHA-1, which the operator does not allow
	BadSignature               // digest or signature do not match
)

// Error is the refusal of a document by Verify.
type Error struct {
	Reason Reason
	// Rule is the broken rule.
	Rule rule.Rule
	// Text is one readable line.
	Text string
	// Err is the error of another package, or nil.
	Err error
}

func (e *Error) Error() string { return e.Text }

func (e *Error) Unwrap() error { return e.Err }

// BrokenRule returns Rule.
func (e *Error) BrokenRule() rule.Rule { return e.Rule }

func refuse(r Reason, broken rule.Rule, format string, args ...any) *Error {
	return &Error{Reason: r, Rule: broken, Text: fmt.Sprintf(format, args...)}
}

// wrapError is for a document that another package could not read. The text begins with the
// prefix.
func wrapError(prefix string, err error) *Error {
	return &Error{Reason: Malformed, Rule: rule.Of(err), Text: prefix + ": " + err.Error(), Err: err}
}
