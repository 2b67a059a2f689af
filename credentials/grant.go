package credentials

import (
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/credentials/rule"
)

// Grant is a verified right of a caller. Only Authorize creates one. The zero Grant grants
// nothing.
type Grant struct {
	caller      urn.URN
	speaker     urn.URN    // the tool that speaks for the caller; zero if there is none
	speaksFor   *statement // the speaks-for credential of the speaker; nil if there is none
	right       Right
	expires     time.Time // the expiry of the peer's chain, or of speaksFor if that is earlier
	credentials []usableCredential
	reasons     []Reason // a reason for each presented credential that does not give the right
}

// usableCredential gives the right. The number is its position among the presented
// credentials, from 1.
type usableCredential struct {
	number int
	*statement
}

// Caller returns the connected peer. If that is a tool that speaks for a user, it returns the
// user.
func (g Grant) Caller() urn.URN { return g.caller }

// Speaker returns the tool that speaks for the caller, or zero if there is none.
func (g Grant) Speaker() urn.URN { return g.speaker }

// Right returns the granted right.
func (g Grant) Right() Right { return g.right }

// Over returns the time until which the right covers a slice. For one credential, this is
// the earliest expiry of all credentials and certificates involved: the credential, its
// parents, the speaks-for credential, and all chains, including the peer's. For several
// credentials, it is the latest of these times. If no credential is for the slice, the
// error is a *DeniedError.
func (g Grant) Over(slice urn.URN) (time.Time, error) {
	if g.caller.IsZero() {
		return time.Time{}, deny(rule.Presented, am.CredentialInvalid, "no credential was checked")
	}
	if !g.right.isOverSlice() {
		return time.Time{}, deny(rule.RightOverSlice, am.CredentialMismatch, "%s gives no right over a slice", g.right)
	}
	if slice.Type != urn.Slice {
		return time.Time{}, deny(rule.TargetIsSlice, am.CredentialMismatch, "%s is no slice", slice)
	}
	var latest time.Time
	reasons := append([]Reason(nil), g.reasons...)
	for _, h := range g.credentials {
		if !h.target.Equal(slice) {
			reasons = append(reasons, Reason{Credential: h.number, Detail: am.CredentialMismatch, Rule: rule.MatchingTarget, Text: h.mismatch(slice)})
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

// Fingerprints returns the SHA-256 sums, in hexadecimal, of the grant's credentials,
// including the speaks-for credential.
func (g Grant) Fingerprints() []string {
	list := make([]string, len(g.credentials), len(g.credentials)+1)
	for i, h := range g.credentials {
		list[i] = h.fingerprint
	}
	if g.speaksFor != nil {
		list = append(list, g.speaksFor.fingerprint)
	}
	return list
}

// SHA1 reports whether a credential of the grant, or a certificate in its chain, is signed
// with SHA-1.
func (g Grant) SHA1() bool {
	for _, h := range g.credentials {
		if h.sha1 {
			return true
		}
	}
	return g.speaksFor != nil && g.speaksFor.sha1
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
