package cert

import (
	"fmt"

	"patchbay/credentials/rule"
)

// Reason is why a certificate was refused.
type Reason int

// The reasons. Untrusted says that no chain to an anchor was found at all; the
// others say what broke the one that came farthest.
const (
	Untrusted Reason = iota
	Expired
	NotYetValid
	NoName       // no URN, a malformed one, or two
	NotIssuer    // the issuer may not issue: no CA, not for signing, no authority, too deep
	Namespace    // the issuer does not speak for that authority
	WeakKey      // size or kind of the key
	WeakDigest   // SHA-1 where the operator does not allow it
	BadSignature // including algorithms never accepted
	Unsupported  // a critical extension, or more of it than is read
	Revoked      // by a CRL or the deny list of the trust folder
)

// Error is a certificate that was refused.
type Error struct {
	Reason Reason
	// Rule is the one that is broken.
	Rule rule.Rule
	// Certificate is the one at fault, which need not be the leaf; nil where it
	// could not be read.
	Certificate *Certificate
	// Text is one readable line that names it and, where there is one, the remedy.
	Text string
}

func (e *Error) Error() string { return e.Text }

// Breaks is Rule.
func (e *Error) Breaks() rule.Rule { return e.Rule }

func refuse(r Reason, broken rule.Rule, c *Certificate, format string, args ...any) *Error {
	return &Error{Reason: r, Rule: broken, Certificate: c, Text: c.Name() + " " + fmt.Sprintf(format, args...)}
}

// refuseText refuses what is not read, so that there is no certificate yet.
func refuseText(broken rule.Rule, format string, args ...any) *Error {
	return &Error{Reason: Unsupported, Rule: broken, Text: fmt.Sprintf(format, args...)}
}
