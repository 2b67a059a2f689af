package trial

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"patchbay/am/urn"
	"patchbay/credentials/cert"
)

// Authority names and certifies users, tools and slices. It is safe for concurrent use.
// If two processes create the same name at the same time, one gets an error.
type Authority struct {
	dir  string
	cert *cert.Certificate
	key  *rsa.PrivateKey
	mu   sync.Mutex // held while files are checked and created
}

// Create creates the folder dir and an authority in it. If dir contains an authority
// already, Create fails with fs.ErrExist and changes nothing.
func Create(dir, authority string, now time.Time) (*Authority, error) {
	if err := checkAuthority(authority); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(dir, "authority.key")); err == nil {
		return nil, fmt.Errorf("cannot create an authority in %s: %w", dir, fs.ErrExist)
	}
	key, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return nil, err
	}
	c, err := issue(subject{
		urn:   urn.URN{Authority: authority, Type: urn.Authority, Name: "sa"},
		email: "authority@" + emailDomain(authority),
		key:   &key.PublicKey,
		ca:    true,
	}, nil, key, now)
	if err != nil {
		return nil, err
	}
	if err := writeNew(filepath.Join(dir, "authority.key"), encodeKey(key), 0o600); err != nil {
		return nil, err
	}
	if err := writeNew(filepath.Join(dir, "authority.pem"), encodeCertificate(c), 0o644); err != nil {
		return nil, err
	}
	return &Authority{dir: dir, cert: c, key: key}, nil
}

// Open reads the authority in the folder dir.
func Open(dir string) (*Authority, error) {
	c, err := readCertificate(filepath.Join(dir, "authority.pem"))
	if err != nil {
		return nil, fmt.Errorf("open authority: %w", err)
	}
	key, err := readKey(filepath.Join(dir, "authority.key"))
	if err != nil {
		return nil, fmt.Errorf("open authority: %w", err)
	}
	if !key.PublicKey.Equal(c.PublicKey) {
		return nil, fmt.Errorf("open authority: the key in %s does not belong to the authority's certificate", dir)
	}
	if c.URN.Type != urn.Authority {
		return nil, fmt.Errorf("open authority: the certificate in %s belongs to %s, which is not an authority", dir, c.Name())
	}
	return &Authority{dir: dir, cert: c, key: key}, nil
}

// URN returns the authority's own name.
func (a *Authority) URN() urn.URN { return a.cert.URN }

// Expires returns the expiry of the authority's certificate, and of all certificates that it
// has issued.
func (a *Authority) Expires() time.Time { return a.cert.NotAfter }

// Certificate returns the authority's certificate in PEM. A server that accepts the
// authority's users must have it as a trust anchor.
func (a *Authority) Certificate() []byte { return encodeCertificate(a.cert) }

func (a *Authority) newURN(kind, name string) urn.URN {
	return urn.URN{Authority: a.cert.URN.Authority, Type: kind, Name: name}
}

func (a *Authority) email(name string) string { return name + "@" + emailDomain(a.cert.URN.Authority) }

// path returns the same path for names that differ only in case.
func (a *Authority) path(folder, name, extension string) string {
	return filepath.Join(a.dir, folder, strings.ToLower(name)+extension)
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
