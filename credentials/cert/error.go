package cert

import (
	"fmt"

	"patchbay/credentials/rule"
)

// Reason is why a certificate was refused.
type Reason int

// The reasons. Untrusted means that there is no chain to an anchor. If several chains were
// tried, the reason belongs to the chain that came closest to an anchor.
const (
	Untrusted Reason = iota
	Expired
	NotYetValid
	NoName       // no URN, a malformed one, or two
	NotIssuer    // the issuer may not issue: no CA, no authority, wrong key usage, chain too long
	Namespace    // the issuer does not cover that authority
	WeakKey      // size or kind of the key
	WeakDigest   // SHA-1 where the operator does not allow it
	BadSignature // including algorithms that are never accepted
	Unsupported  // an unknown critical extension, or too much data
	Revoked      // by a CRL or the deny list of the trust folder
)

// Error is a certificate that was refused.
type Error struct {
	Reason Reason
	// Rule is the broken rule.
	Rule rule.Rule
	// Certificate is the certificate that breaks the rule, which may be an issuer; nil if it
	// could not be read.
	Certificate *Certificate
	// Text is one line that names the certificate and says what to do, if anything.
	Text string
}

func (e *Error) Error() string { return e.Text }

// BrokenRule returns Rule.
func (e *Error) BrokenRule() rule.Rule { return e.Rule }

// refuse returns the refusal of a certificate; the text begins with its name.
func refuse(r Reason, broken rule.Rule, c *Certificate, format string, args ...any) *Error {
	return &Error{Reason: r, Rule: broken, Certificate: c, Text: c.Name() + " " + fmt.Sprintf(format, args...)}
}

// refuseText refuses input from which no certificate was read.
func refuseText(broken rule.Rule, format string, args ...any) *Error {
	return &Error{Reason: Unsupported, Rule: broken, Text: fmt.Sprintf(format, args...)}
}
