package credentials

import (
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/credentials/rule"
)

// Grant is a verified right of a caller. Only Authorize makes one; the zero
// Grant is nobody's and grants nothing.
type Grant struct {
	caller  urn.URN
	speaker urn.URN    // zero when nobody speaks for the caller
	speech  *statement // what lets the speaker speak
	right   Right
	expires time.Time // of the chain of whoever is connected, and of the speech
	held    []held
	reasons []Reason // of the credentials that are not held
}

// held is a credential of the caller's own that carries the right.
type held struct {
	number int
	*statement
}

// Caller is who holds the right: the user for whom a tool speaks, or else who
// is connected.
func (g Grant) Caller() urn.URN { return g.caller }

// Speaker is who speaks for the caller; zero when nobody does.
func (g Grant) Speaker() urn.URN { return g.speaker }

// Right is what the caller may do.
func (g Grant) Right() Right { return g.right }

// Over says until when the right extends over a slice: the earliest of the
// credential's own expiry, those of every credential it was delegated from, of
// the speaks-for credential, and of every certificate behind these and behind
// whoever is connected. Of several credentials the one that admits most counts.
// Where none is for that slice the error is a *DeniedError.
func (g Grant) Over(slice urn.URN) (time.Time, error) {
	if g.caller.IsZero() {
		return time.Time{}, deny(rule.Presented, am.CredentialInvalid, "no credential was checked")
	}
	if rule.RightOverSlice.Broken(!g.right.overSlice()) {
		return time.Time{}, deny(rule.RightOverSlice, am.CredentialMismatch, "%s gives no right over a slice", g.right)
	}
	if rule.TargetIsSlice.Broken(slice.Type != urn.Slice) {
		return time.Time{}, deny(rule.TargetIsSlice, am.CredentialMismatch, "%s is no slice", slice)
	}
	var latest time.Time
	reasons := append([]Reason(nil), g.reasons...)
	for _, h := range g.held {
		if rule.TargetAsked.Broken(!h.target.Equal(slice)) {
			reasons = append(reasons, Reason{Credential: h.number, Detail: am.CredentialMismatch, Rule: rule.TargetAsked, Text: h.mismatch(slice)})
			continue
		}
		if until := earlier(h.until, g.expires); until.After(latest) {
			latest = until
		}
	}
	if latest.IsZero() {
		slices.SortFunc(reasons, func(a, b Reason) int { return a.Credential - b.Credential })
		return time.Time{}, &DeniedError{Reasons: reasons}
	}
	return latest, nil
}

// Fingerprints are the SHA-256 sums, in hexadecimal, of the credentials that
// carry the right, and of the one that lets the speaker speak, for the audit
// log.
func (g Grant) Fingerprints() []string {
	list := make([]string, len(g.held), len(g.held)+1)
	for i, h := range g.held {
		list[i] = h.fingerprint
	}
	if g.speech != nil {
		list = append(list, g.speech.fingerprint)
	}
	return list
}

// SHA1 tells whether one of the credentials, or a certificate behind one, is
// signed with SHA-1, for the log.
func (g Grant) SHA1() bool {
	for _, h := range g.held {
		if h.sha1 {
			return true
		}
	}
	return g.speech != nil && g.speech.sha1
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
