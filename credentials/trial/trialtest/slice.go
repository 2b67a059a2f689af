// Package trialtest makes slices of a trial authority, for tests.
package trialtest

import (
	"time"

	"patchbay/am/urn"
	"patchbay/credentials/trial"
)

// Slice is a slice and the credential of its owner.
type Slice struct {
	URN        urn.URN
	Credential []byte
	Expires    time.Time
}

// NewSlice creates a slice, and a credential of its owner that has all privileges.
func NewSlice(a *trial.Authority, name, owner string, expires, now time.Time) (Slice, error) {
	u := urn.URN{Authority: a.URN().Authority, Type: urn.Slice, Name: name}
	certificate, err := a.NewSlice(u, now)
	if err != nil {
		return Slice{}, err
	}
	credential, err := a.SliceCredential(certificate, owner, trial.OwnerPrivileges, expires, now)
	return Slice{u, credential, expires.UTC().Truncate(time.Second)}, err
}
