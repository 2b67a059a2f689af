package credentials

import (
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
)

// Grant is a verified right of a caller. Only Authorize makes one; the zero
// Grant is nobody's and grants nothing.
type Grant struct {
	caller  urn.URN
	right   Right
	expires time.Time // of the caller's own chain
	held    []held
	reasons []Reason // of the credentials that are not held
}

// held is a credential of the caller's own that carries the right.
type held struct {
	number int
	*statement
}

// Caller is who holds the right.
func (g Grant) Caller() urn.URN { return g.caller }

// Right is what the caller may do.
func (g Grant) Right() Right { return g.right }

// Over says until when the right extends over a slice: the earliest of the
// credential's own expiry and those of every certificate behind it and behind
// the caller. Of several credentials the one that admits most counts. Where
// none is for that slice the error is a *DeniedError.
func (g Grant) Over(slice urn.URN) (time.Time, error) {
	if g.caller.IsZero() {
		return time.Time{}, deny(am.CredentialInvalid, "no credential was checked")
	}
	if !g.right.overSlice() {
		return time.Time{}, deny(am.CredentialMismatch, "%s gives no right over a slice", g.right)
	}
	if slice.Type != urn.Slice {
		return time.Time{}, deny(am.CredentialMismatch, "%s is no slice", slice)
	}
	var latest time.Time
	reasons := append([]Reason(nil), g.reasons...)
	for _, h := range g.held {
		if !h.target.Equal(slice) {
			reasons = append(reasons, Reason{h.number, am.CredentialMismatch, h.mismatch(slice)})
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
// carry the right, for the audit log.
func (g Grant) Fingerprints() []string {
	list := make([]string, len(g.held))
	for i, h := range g.held {
		list[i] = h.fingerprint
	}
	return list
}

// SHA1 tells whether one of the credentials is signed with SHA-1, for the log.
func (g Grant) SHA1() bool {
	for _, h := range g.held {
		if h.sha1 {
			return true
		}
	}
	return false
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
