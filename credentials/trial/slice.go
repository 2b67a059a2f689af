package trial

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"os"
	"time"

	"patchbay/am/urn"
	"patchbay/credentials/cert"
)

// Slice is a slice and the credential of one of its owners.
type Slice struct {
	URN, Owner urn.URN
	// Credential is the slice credential, a signed XML document.
	Credential []byte
	Expires    time.Time
}

// Slice returns the slice of that name with a new credential for owner, who must be an
// existing user. It creates the slice if necessary. A slice may have several owners.
// The credential is valid until expires, which must not be after the authority's own
// expiry.
func (a *Authority) Slice(name, owner string, expires, now time.Time) (Slice, error) {
	if err := CheckSlice(name); err != nil {
		return Slice{}, err
	}
	if err := CheckUser(owner); err != nil {
		return Slice{}, err
	}
	if !expires.After(now) || expires.After(a.Expires()) {
		return Slice{}, fmt.Errorf("a slice must expire in the future, and not after its authority, which expires %s", a.Expires().Format(time.RFC3339))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	o, err := a.userCertificate(owner)
	if err != nil {
		return Slice{}, err
	}
	c, err := a.sliceCertificate(name, a.email(owner), now)
	if err != nil {
		return Slice{}, err
	}
	expires = expires.UTC().Truncate(time.Second)
	credential, err := a.credential(o, c, slicePrivileges, expires)
	if err != nil {
		return Slice{}, err
	}
	return Slice{URN: c.URN, Owner: o.URN, Credential: credential, Expires: expires}, nil
}

// HasSlice reports whether a slice of that name exists.
func (a *Authority) HasSlice(name string) bool {
	if CheckSlice(name) != nil {
		return false
	}
	_, err := os.Stat(a.path("slices", name, ".pem"))
	return err == nil
}

// sliceCertificate does not store the key of a new certificate, because nothing uses
// the key.
func (a *Authority) sliceCertificate(name, email string, now time.Time) (*cert.Certificate, error) {
	file := a.path("slices", name, ".pem")
	c, err := readCertificate(file)
	if !isMissing(err) {
		return c, err
	}
	key, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return nil, err
	}
	c, err = issue(subject{urn: a.newURN(urn.Slice, name), email: email, key: &key.PublicKey}, a.cert, a.key, now)
	if err != nil {
		return nil, err
	}
	return c, writeNew(file, a.chainPEM(c), 0o644)
}
