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

// Reason is why one credential, or the caller, was of no use.
type Reason struct {
	// Credential counts from 1 in the order presented; 0 is the caller, or the
	// list as a whole.
	Credential int
	// Detail is the finer code; am.NoDetail where a privilege is missing.
	Detail am.Detail
	// Rule is the one that is broken.
	Rule rule.Rule
	// Text is one line for the experimenter.
	Text string
}

// DeniedError is a refusal, with a reason for everything that was tried.
type DeniedError struct{ Reasons []Reason }

// maxReasons is how many reasons are spelled out to a client.
const maxReasons = 8

// Error is one line: "credential 1: expired 2026-11-21T21:41:26Z; credential 2: …".
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

// Detail is the code of the reason that came nearest to a grant: when one
// credential is junk and the other expired, the experimenter wants to know of
// the expired one.
func (e *DeniedError) Detail() am.Detail {
	best, rank := am.NoDetail, -1
	for _, r := range e.Reasons {
		if n := nearness[r.Detail]; n > rank {
			best, rank = r.Detail, n
		}
	}
	return best
}

var nearness = map[am.Detail]int{
	am.MissingArgs:         0,
	am.CredentialInvalid:   1,
	am.CredentialUntrusted: 2,
	am.CredentialMismatch:  3,
	am.CredentialExpired:   4,
	am.NoDetail:            5,
}

func deny(r rule.Rule, detail am.Detail, format string, args ...any) *DeniedError {
	return &DeniedError{Reasons: []Reason{{Detail: detail, Rule: r, Text: fmt.Sprintf(format, args...)}}}
}

// reasonOf is what is to be told of an error.
func reasonOf(credential int, err error) Reason {
	return Reason{Credential: credential, Detail: detailOf(err), Rule: rule.Of(err), Text: err.Error()}
}

// fault is a refusal that does not yet know which credential it is about.
type fault struct {
	detail am.Detail
	rule   rule.Rule
	text   string
}

func (f *fault) Error() string { return f.text }

// Breaks is the rule that is broken.
func (f *fault) BrokenRule() rule.Rule { return f.rule }

// refuse is a refusal by a rule.
func refuse(r rule.Rule, detail am.Detail, format string, args ...any) *fault {
	return &fault{rule: r, detail: detail, text: fmt.Sprintf(format, args...)}
}

// detailOf maps what the rooms below say to the finer code.
func detailOf(err error) am.Detail {
	if f, ok := errors.AsType[*fault](err); ok {
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
