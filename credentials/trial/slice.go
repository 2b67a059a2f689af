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

// Slice gives the slice of that name, making one when there is none, with a
// fresh credential for the user owner, who must exist. The credential is valid
// from now on until expires, which must lie before the authority's own end. A
// slice may have several owners. A name is a letter or digit and up to 18
// letters, digits or hyphens.
func (a *Authority) Slice(name, owner string, expires, now time.Time) (Slice, error) {
	if err := checkSlice(name); err != nil {
		return Slice{}, err
	}
	if err := checkUser(owner); err != nil {
		return Slice{}, err
	}
	if !expires.After(now) || expires.After(a.Expires()) {
		return Slice{}, fmt.Errorf("a slice must expire after now and before the authority does, %s", a.Expires().Format(time.RFC3339))
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

// HasSlice tells whether a slice of that name was made.
func (a *Authority) HasSlice(name string) bool {
	if checkSlice(name) != nil {
		return false
	}
	_, err := os.Stat(a.path("slices", name, ".pem"))
	return err == nil
}

// HasUser tells whether the authority has made a user of that name.
func (a *Authority) HasUser(name string) bool {
	if checkUser(name) != nil {
		return false
	}
	_, err := os.Stat(a.path("users", name, ".pem"))
	return err == nil
}

// sliceCertificate reads or makes the certificate of a slice. Nobody ever acts
// by the key of a slice, so it is not kept.
func (a *Authority) sliceCertificate(name, email string, now time.Time) (*cert.Certificate, error) {
	file := a.path("slices", name, ".pem")
	c, err := readCertificate(file)
	if !missing(err) {
		return c, err
	}
	key, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return nil, err
	}
	c, err = issue(holder{urn: a.name(urn.Slice, name), email: email, key: &key.PublicKey}, a.cert, a.key, now)
	if err != nil {
		return nil, err
	}
	return c, writeNew(file, a.chainPEM(c), 0o644)
}
