package trial

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
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
	root *cert.Certificate
	// sa signs certificates and credentials of slices, ma those of users and tools.
	sa, ma signer
	mu     sync.Mutex // held while files are checked and created
}

type signer struct {
	cert *cert.Certificate
	key  *rsa.PrivateKey
}

// rootName is the name of the files of the root.
const rootName = "authority"

// Create creates the folder dir and an authority in it. If dir contains an authority
// already, Create fails with fs.ErrExist and changes nothing.
func Create(dir, authority string, now time.Time) (*Authority, error) {
	if err := checkAuthority(authority); err != nil {
		return nil, err
	}
	for _, extension := range []string{".key", ".pem"} {
		if _, err := os.Lstat(filepath.Join(dir, rootName+extension)); err == nil {
			return nil, fmt.Errorf("cannot create an authority in %s: %w", dir, fs.ErrExist)
		}
	}
	a := &Authority{dir: dir}
	root, err := a.newSigner(rootName, subject{
		urn:      urn.URN{Authority: authority, Type: urn.Authority, Name: "root"},
		lifetime: lifetime, pathLength: 1,
	}, nil, now)
	if err != nil {
		return nil, err
	}
	a.root = root.cert
	return a, a.newServices(root, now)
}

// Open reads the authority in the folder dir. For the authority of an earlier version, which
// has one key, Open creates the certificates of the slice authority and the member authority.
func Open(dir string) (*Authority, error) {
	c, err := readCertificate(filepath.Join(dir, rootName+".pem"))
	if err != nil {
		return nil, fmt.Errorf("open authority: %w", err)
	}
	if c.URN.Type != urn.Authority {
		return nil, fmt.Errorf("open authority: the certificate in %s belongs to %s, which is not an authority", dir, c.Name())
	}
	a := &Authority{dir: dir, root: c}
	if a.ma, err = readSigner(dir, "ma"); err == nil {
		a.sa, err = readSigner(dir, "sa")
	}
	if isMissing(err) {
		var root signer
		if root, err = readSigner(dir, rootName); err == nil {
			err = a.newServices(root, time.Now())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open authority: %w", err)
	}
	return a, nil
}

func readSigner(dir, name string) (s signer, err error) {
	if s.cert, err = readCertificate(filepath.Join(dir, name+".pem")); err != nil {
		return s, err
	}
	if s.key, err = readKey(filepath.Join(dir, name+".key")); err != nil {
		return s, err
	}
	if !s.key.PublicKey.Equal(s.cert.PublicKey) {
		err = fmt.Errorf("the key %s does not belong to the certificate %s", filepath.Join(dir, name+".key"), filepath.Join(dir, name+".pem"))
	}
	return s, err
}

// newServices creates the keys and certificates of the slice authority and the member authority. It
// writes the certificate of the member authority last, so an authority with it is complete. It
// replaces files that an interrupted call has left.
func (a *Authority) newServices(root signer, now time.Time) (err error) {
	for _, x := range []struct {
		to         *signer
		name, unit string
	}{{&a.sa, "sa", "slice authority"}, {&a.ma, "ma", "member authority"}} {
		os.Remove(filepath.Join(a.dir, x.name+".pem"))
		os.Remove(filepath.Join(a.dir, x.name+".key"))
		u := urn.URN{Authority: a.root.URN.Authority, Type: urn.Authority, Name: x.name}
		if *x.to, err = a.newSigner(x.name, subject{urn: u, unit: x.unit}, &root, now); err != nil {
			return err
		}
	}
	return nil
}

// newSigner creates a key and its certificate, and writes the certificate after the key. Without
// an issuer, the certificate is self-signed.
func (a *Authority) newSigner(name string, h subject, issuer *signer, now time.Time) (s signer, err error) {
	if s.key, err = rsa.GenerateKey(rand.Reader, rsaBits); err != nil {
		return s, err
	}
	h.ca, h.key, h.email = true, &s.key.PublicKey, "authority@"+emailDomain(h.urn.Authority)
	mode := fs.FileMode(0o600)
	if issuer == nil {
		issuer, mode = &signer{key: s.key}, 0o400
	}
	if s.cert, err = issue(h, *issuer, now); err != nil {
		return s, err
	}
	if err := writeNew(filepath.Join(a.dir, name+".key"), encodeKey(s.key), mode); err != nil {
		return s, err
	}
	return s, writeNew(filepath.Join(a.dir, name+".pem"), EncodeCertificate(s.cert), 0o644)
}

// URN returns the name of the slice authority.
func (a *Authority) URN() urn.URN { return a.sa.cert.URN }

// Expires returns the expiry of the authority's certificate, and of all certificates that it
// has issued.
func (a *Authority) Expires() time.Time { return a.root.NotAfter }

// Certificate returns the root's certificate in PEM. A server that accepts the
// authority's users must have it as a trust anchor.
func (a *Authority) Certificate() []byte { return EncodeCertificate(a.root) }

// Services returns the certificates of the slice authority and the member authority in PEM.
func (a *Authority) Services() (sa, ma []byte) {
	return EncodeCertificate(a.sa.cert), EncodeCertificate(a.ma.cert)
}

// SignAsMember returns the member authority's signature of a text, RSA PKCS #1 version 1.5 with
// SHA-256.
func (a *Authority) SignAsMember(text []byte) ([]byte, error) {
	sum := sha256.Sum256(text)
	return a.ma.key.Sign(rand.Reader, sum[:], crypto.SHA256)
}

func (a *Authority) newURN(kind, name string) urn.URN {
	return urn.URN{Authority: a.root.URN.Authority, Type: kind, Name: name}
}

func (a *Authority) email(name string) string { return name + "@" + emailDomain(a.root.URN.Authority) }

// chainPEM returns a certificate that this authority has issued and the certificates above it.
func (a *Authority) chainPEM(c *cert.Certificate) []byte {
	for _, s := range []signer{a.sa, a.ma} {
		if bytes.Equal(c.RawIssuer, s.cert.RawSubject) {
			return encodeChain([]*cert.Certificate{c, s.cert, a.root})
		}
	}
	return encodeChain([]*cert.Certificate{c, a.root}) // issued by an earlier version
}

// path returns the same path for names that differ only in case.
func (a *Authority) path(folder, name, extension string) string {
	return filepath.Join(a.dir, folder, strings.ToLower(name)+extension)
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
