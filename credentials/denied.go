package credentials

import (
	"errors"
	"fmt"
	"strings"

	"patchbay/am"
	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
	"patchbay/credentials/rule"
)

// Reason is why a credential or the caller was refused.
type Reason struct {
	// Credential is the number in the presented list, from 1. It is 0 for the caller, and
	// for the whole list.
	Credential int
	// Detail is the detailed code; am.NoDetail for a missing privilege.
	Detail am.Detail
	// Rule is the broken rule.
	Rule rule.Rule
	// Text is one line for the experimenter.
	Text string
}

// DeniedError is a refusal, with a reason for each credential.
type DeniedError struct{ Reasons []Reason }

// maxReasons is the maximum number of reasons in a message.
const maxReasons = 8

// Error returns one line: "credential 1: expired 2026-11-21T21:41:26Z; credential 2: …".
func (e *DeniedError) Error() string {
	var b strings.Builder
	for i, r := range e.Reasons {
		if i == maxReasons {
			fmt.Fprintf(&b, "; and %d more", len(e.Reasons)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		if r.Credential > 0 {
			fmt.Fprintf(&b, "credential %d: ", r.Credential)
		}
		b.WriteString(r.Text)
	}
	return b.String()
}

// Detail returns the code of the credential that came closest to a grant. For example, an
// expired credential comes closer than an invalid one, and its code is more useful to the
// experimenter.
func (e *DeniedError) Detail() am.Detail {
	best, highest := am.NoDetail, -1
	for _, r := range e.Reasons {
		if n := closeness[r.Detail]; n > highest {
			best, highest = r.Detail, n
		}
	}
	return best
}

// closeness is higher for a code closer to a grant.
var closeness = map[am.Detail]int{
	am.MissingArgs:         0,
	am.CredentialInvalid:   1,
	am.CredentialUntrusted: 2,
	am.CredentialMismatch:  3,
	am.CredentialExpired:   4,
	am.NoDetail:            5,
}

// deny refuses the caller or the whole list.
func deny(r rule.Rule, detail am.Detail, format string, args ...any) *DeniedError {
	return &DeniedError{Reasons: []Reason{{Detail: detail, Rule: r, Text: fmt.Sprintf(format, args...)}}}
}

// reasonOf returns the reason of a refusal. credential is the number of the credential that
// err is about, or 0 if err is about the caller.
func reasonOf(credential int, err error) Reason {
	return Reason{Credential: credential, Detail: detailOf(err), Rule: rule.Of(err), Text: err.Error()}
}

type refusal struct {
	detail am.Detail
	rule   rule.Rule
	text   string
}

func (f *refusal) Error() string { return f.text }

// BrokenRule returns the broken rule.
func (f *refusal) BrokenRule() rule.Rule { return f.rule }

func refuse(r rule.Rule, detail am.Detail, format string, args ...any) *refusal {
	return &refusal{rule: r, detail: detail, text: fmt.Sprintf(format, args...)}
}

// detailOf accepts errors of this package, cert and dsig.
func detailOf(err error) am.Detail {
	if f, ok := errors.AsType[*refusal](err); ok {
		return f.detail
	}
	if e, ok := errors.AsType[*cert.Error](err); ok {
		switch e.Reason {
		case cert.Expired, cert.NotYetValid:
			return am.CredentialExpired
		case cert.NoName:
			return am.CredentialInvalid
		}
		return am.CredentialUntrusted
	}
	if e, ok := errors.AsType[*dsig.Error](err); ok && e.Reason == dsig.WeakDigest {
		return am.CredentialUntrusted
	}
	return am.CredentialInvalid
}
