package trial

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"sync"
	"time"

	"patchbay/am/urn"
	"patchbay/credentials/cert"
)

// sliceKey is the public key in the certificates of all slices. Nobody has the private key, since
// nothing uses it.
var sliceKey = sync.OnceValues(func() (*rsa.PublicKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return nil, err
	}
	return &key.PublicKey, nil
})

// NewSlice returns the certificate of a new slice. The authority of the slice's URN must be this
// authority or below it.
func (a *Authority) NewSlice(slice urn.URN, now time.Time) (*cert.Certificate, error) {
	if err := CheckSlice(slice.Name); err != nil {
		return nil, err
	}
	if slice.Type != urn.Slice || !urn.Covers(a.root.URN.Authority, slice.Authority) {
		return nil, fmt.Errorf("%s is no slice of %s", slice, a.root.URN.Authority)
	}
	key, err := sliceKey()
	if err != nil {
		return nil, err
	}
	return issue(subject{urn: slice, email: a.email(slice.Name), key: key}, a.sa, now)
}

// SliceCredential returns a credential for a slice with the certificate from NewSlice. owner is
// the name of an existing user. The credential is valid until expires, which must not be after
// the authority's own expiry.
func (a *Authority) SliceCredential(slice *cert.Certificate, owner string, privileges []string, expires, now time.Time) ([]byte, error) {
	if err := CheckUser(owner); err != nil {
		return nil, err
	}
	if !expires.After(now) || expires.After(a.Expires()) {
		return nil, fmt.Errorf("a slice must expire in the future, and not after its authority, which expires %s", a.Expires().Format(time.RFC3339))
	}
	o, err := a.userCertificate(owner)
	if err != nil {
		return nil, err
	}
	return a.credential(a.sa, o, slice, privileges, expires.UTC().Truncate(time.Second))
}
