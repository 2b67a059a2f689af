package cert

import (
	"fmt"

	"patchbay/credentials/rule"
)

// Reason is the kind of a refusal.
type Reason int

// Untrusted means that there is no chain to an anchor. If several chains were tried, the
// reason is that of the longest chain.
const (
	Untrusted Reason = iota
	Expired
	NotYetValid
	NoName       // no URN, a malformed URN, or two URNs
	NotIssuer    // the issuer may not issue: not a CA, not an authority, wrong key usage, chain too long
	Namespace    // the issuer does not cover the authority in the URN
	WeakKey      // size or kind of the key
	WeakDigest   // SHA-1, which the operator does not allow
	BadSignature // also if the algorithm is never accepted
	Unsupported  // an unknown critical extension, or too much data
	Revoked      // by a CRL or the deny list of the trust folder
)

// Error is the refusal of a certificate.
type Error struct {
	Reason Reason
	// Rule is the broken rule.
	Rule rule.Rule
	// Certificate breaks the rule. It may be an issuer. It is nil if no certificate could
	// be read.
	Certificate *Certificate
	// Text is one line that names the certificate, and the remedy if there is one.
	Text string
}

func (e *Error) Error() string { return e.Text }

// BrokenRule returns Rule.
func (e *Error) BrokenRule() rule.Rule { return e.Rule }

// refuse begins the text with the certificate's name.
func refuse(r Reason, broken rule.Rule, c *Certificate, format string, args ...any) *Error {
	return &Error{Reason: r, Rule: broken, Certificate: c, Text: c.Name() + " " + fmt.Sprintf(format, args...)}
}

func refuseText(broken rule.Rule, format string, args ...any) *Error {
	return &Error{Reason: Unsupported, Rule: broken, Text: fmt.Sprintf(format, args...)}
}
