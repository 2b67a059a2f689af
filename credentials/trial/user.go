package trial

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/ssh"

	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
)

// userCredential is the lifetime of a user credential.
const userCredential = 365 * 24 * time.Hour

// User is everything that a user needs to call an aggregate manager.
type User struct {
	URN urn.URN
	// Certificate is the certificate chain in PEM, beginning with the user's own
	// certificate. Key is the user's private key in PEM.
	Certificate, Key []byte
	// Credential is the user credential, a signed XML document.
	Credential []byte
	// SSHPublicKey has one line for each of the user's public SSH keys. SSHKey is the
	// private key in OpenSSH's form; it is empty if the user supplied the public keys.
	SSHKey, SSHPublicKey []byte
}

// User returns the user of that name with a new credential, which is valid for at most
// one year. If there is no such user, User creates it with an SSH key.
func (a *Authority) User(name string, now time.Time) (User, error) {
	return a.UserWithKeys(name, nil, now)
}

// UserWithKeys is like User, for users that supply their own SSH keys. keys contains
// public keys in the format of ParseSSHKeys, which replace the user's former keys. If
// keys is empty, an existing user keeps the former keys, and a new user gets a generated
// key.
func (a *Authority) UserWithKeys(name string, keys []byte, now time.Time) (User, error) {
	if err := CheckUser(name); err != nil {
		return User{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.ensureUser(name, keys, now); err != nil {
		return User{}, err
	}
	c, err := a.userCertificate(name)
	if err != nil {
		return User{}, err
	}
	key, err := os.ReadFile(a.path("users", name, ".key"))
	if isMissing(err) {
		return User{}, fmt.Errorf("%s has the key of their certificate on another machine, so their files cannot be written here", name)
	}
	if err != nil {
		return User{}, err
	}
	private, public, err := a.sshKeys(name)
	if err != nil {
		return User{}, fmt.Errorf("SSH key of %s: %w", c.URN, err)
	}
	credential, err := a.UserCredential(name, now.Add(userCredential))
	if err != nil {
		return User{}, err
	}
	return User{URN: c.URN, Certificate: a.chainPEM(c), Key: key, Credential: credential, SSHKey: private, SSHPublicKey: public}, nil
}

// UserCredential returns a new credential of an existing user. It is valid until expires, or until
// the authority's own expiry if that is earlier.
func (a *Authority) UserCredential(name string, expires time.Time) ([]byte, error) {
	c, err := a.userCertificate(name)
	if err != nil {
		return nil, err
	}
	if a.Expires().Before(expires) {
		expires = a.Expires()
	}
	return a.credential(a.ma, c, c, userPrivileges, expires)
}

// CertifyUser creates a user whose private key is elsewhere, and returns the certificate and
// those above it, in PEM. key is an RSA key of 2048 to 8192 bits, or an ECDSA key of the curves
// P-256 or P-384. If the user exists with this key, CertifyUser returns the same certificate; with
// another key, it fails with fs.ErrExist.
func (a *Authority) CertifyUser(name string, key crypto.PublicKey, now time.Time) ([]byte, error) {
	if err := CheckUser(name); err != nil {
		return nil, err
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c, err := a.userCertificate(name)
	if err == nil {
		if k, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !k.Equal(key) {
			return nil, fmt.Errorf("there is a user %s already: %w", name, fs.ErrExist)
		}
		return a.chainPEM(c), nil
	}
	if !isMissing(err) {
		return nil, err
	}
	if c, err = issue(subject{urn: a.newURN(urn.User, name), email: a.email(name), key: key}, a.ma, now); err != nil {
		return nil, err
	}
	return a.chainPEM(c), writeNew(a.path("users", name, ".pem"), a.chainPEM(c), 0o644)
}

func checkKey(key crypto.PublicKey) error {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits >= rsaBits && bits <= 8192 {
			return nil
		}
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() || k.Curve == elliptic.P384() {
			return nil
		}
	}
	return errors.New("the key must be RSA with 2048 to 8192 bits, or ECDSA with the curve P-256 or P-384")
}

// UserCertificate returns the certificate of an existing user and those above it, in PEM.
func (a *Authority) UserCertificate(name string) ([]byte, error) {
	if err := CheckUser(name); err != nil {
		return nil, err
	}
	c, err := a.userCertificate(name)
	if err != nil {
		return nil, err
	}
	return a.chainPEM(c), nil
}

// Users returns the certificates of all users, and of the slices of an earlier version.
func (a *Authority) Users() (users, slices []*cert.Certificate, err error) {
	for _, x := range []struct {
		folder string
		list   *[]*cert.Certificate
	}{{"users", &users}, {"slices", &slices}} {
		entries, err := os.ReadDir(filepath.Join(a.dir, x.folder))
		if err != nil && !isMissing(err) {
			return nil, nil, err
		}
		for _, e := range entries {
			if filepath.Ext(e.Name()) != ".pem" {
				continue
			}
			c, err := readCertificate(filepath.Join(a.dir, x.folder, e.Name()))
			if err != nil {
				return nil, nil, err
			}
			*x.list = append(*x.list, c)
		}
	}
	return users, slices, nil
}

// HasUser reports whether a user of that name exists.
func (a *Authority) HasUser(name string) bool {
	if CheckUser(name) != nil {
		return false
	}
	_, err := os.Stat(a.path("users", name, ".pem"))
	return err == nil
}

// ParseSSHKeys reads public SSH keys, one on each line, and returns a normalized line for
// each. It skips empty lines and comments. It fails if another line is not a public key
// without options, or if there is no key.
func ParseSSHKeys(text []byte) (normalized []byte, err error) {
	if bytes.Contains(text, []byte("PRIVATE KEY-----")) {
		return nil, errors.New("it is a private key; give the public half, whose file ends in .pub")
	}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		key, comment, options, _, err := ssh.ParseAuthorizedKey(line)
		switch {
		case err != nil || strings.ContainsFunc(comment, func(r rune) bool { return !unicode.IsPrint(r) }):
			return nil, errors.New("it has a line that is not a public SSH key such as: ssh-ed25519 AAAA… alice@example.org")
		case len(options) > 0:
			return nil, fmt.Errorf("a key has options before it (%s); remove them", options[0])
		}
		normalized = append(normalized, bytes.TrimSuffix(ssh.MarshalAuthorizedKey(key), []byte("\n"))...)
		if comment != "" {
			normalized = append(append(normalized, ' '), comment...)
		}
		normalized = append(normalized, '\n')
	}
	if len(normalized) == 0 {
		return nil, errors.New("it contains no public SSH key")
	}
	return normalized, nil
}

// SSHKeys returns the public SSH keys of a user that this authority or "patchbay user" has written,
// one a line. It returns none for a user that CertifyUser has created.
func (a *Authority) SSHKeys(name string) ([]byte, error) {
	_, public, err := a.sshKeys(name)
	if isMissing(err) {
		return nil, nil
	}
	return public, err
}

// sshKeys returns the generated private key and its public key. If the user supplied public keys,
// it returns these, and no private key.
func (a *Authority) sshKeys(name string) (private, public []byte, err error) {
	public, err = os.ReadFile(a.path("users", name, ".pub"))
	if !isMissing(err) {
		return nil, public, err
	}
	if private, err = os.ReadFile(a.path("users", name, ".ssh")); err != nil {
		return nil, nil, err
	}
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return private, ssh.MarshalAuthorizedKey(signer.PublicKey()), nil
}

// sign signs the credential in document whose xml:id is the parameter id.
func (u User) sign(document []byte, id string) ([]byte, error) {
	key, err := parseKey(u.Key)
	if err != nil {
		return nil, fmt.Errorf("key of %s: %w", u.URN, err)
	}
	chain, err := cert.ParsePEM(u.Certificate)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", u.URN, err)
	}
	return dsig.Sign(document, id, key, chain, dsig.SignOptions{})
}

// ensureUser creates the user if there is none. For an existing user, it replaces the SSH keys
// unless keys is empty. It writes the certificate of a new user last, so a user with a
// certificate is complete.
func (a *Authority) ensureUser(name string, keys []byte, now time.Time) error {
	_, err := os.Lstat(a.path("users", name, ".pem"))
	if !isMissing(err) {
		return errors.Join(err, a.replaceSSHKeys(name, keys))
	}
	c, key, err := a.certify(a.newURN(urn.User, name), now)
	if err != nil {
		return err
	}
	for _, extension := range []string{".key", ".ssh", ".pub"} { // an interrupted call may have left them
		os.Remove(a.path("users", name, extension))
	}
	if err := writeNew(a.path("users", name, ".key"), encodeKey(key), 0o600); err != nil {
		return err
	}
	if len(keys) > 0 {
		err = a.replaceSSHKeys(name, keys)
	} else {
		err = a.createSSHKey(name)
	}
	if err != nil {
		return err
	}
	return writeNew(a.path("users", name, ".pem"), a.chainPEM(c), 0o644)
}

func (a *Authority) createSSHKey(name string) error {
	private, _, err := NewSSHKey(a.email(name))
	if err != nil {
		return err
	}
	return writeNew(a.path("users", name, ".ssh"), private, 0o600)
}

// NewSSHKey returns a new Ed25519 key in OpenSSH's form, and the line of its public half.
func NewSSHKey(comment string) (private, public []byte, err error) {
	half, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return nil, nil, err
	}
	line, err := ssh.NewPublicKey(half)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(line), nil
}

// replaceSSHKeys writes the public keys of a user, and then removes a generated private key. It
// does nothing if keys is empty.
func (a *Authority) replaceSSHKeys(name string, keys []byte) error {
	if len(keys) == 0 {
		return nil
	}
	file := a.path("users", name, ".pub")
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, keys) {
		return nil
	}
	fresh := a.path("users", name, ".pub.new")
	os.Remove(fresh) // an interrupted call may have left it
	if err := writeNew(fresh, keys, 0o644); err != nil {
		return err
	}
	if err := os.Rename(fresh, file); err != nil {
		return err
	}
	if err := os.Remove(a.path("users", name, ".ssh")); err != nil && !isMissing(err) {
		return err
	}
	return nil
}

func (a *Authority) certify(u urn.URN, now time.Time) (*cert.Certificate, *rsa.PrivateKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return nil, nil, err
	}
	c, err := issue(subject{urn: u, email: a.email(u.Name), key: &key.PublicKey}, a.ma, now)
	return c, key, err
}

func (a *Authority) userCertificate(name string) (*cert.Certificate, error) {
	c, err := readCertificate(a.path("users", name, ".pem"))
	if isMissing(err) {
		return nil, noUserError{name, a.URN().Authority}
	}
	return c, err
}

type noUserError struct{ name, authority string }

func (e noUserError) Error() string {
	return fmt.Sprintf("there is no user %s of %s yet", e.name, e.authority)
}
func (noUserError) Unwrap() error { return fs.ErrNotExist }

// HasKey reports whether the authority has the private key of a user's certificate.
func (a *Authority) HasKey(name string) bool {
	_, err := os.Stat(a.path("users", name, ".key"))
	return err == nil
}
