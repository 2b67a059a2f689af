package trial

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
)

// userCredential is how long a user credential lasts.
const userCredential = 365 * 24 * time.Hour

// User is all a user needs to call an aggregate manager.
type User struct {
	URN urn.URN
	// Certificate is the chain in PEM, the user's own first; Key is its key.
	Certificate, Key []byte
	// Credential is the user credential, a signed XML document.
	Credential []byte
	// SSHKey is a private key for logging in to nodes, in OpenSSH's form;
	// SSHPublicKey is the line of its public half.
	SSHKey, SSHPublicKey []byte
}

// User gives the user of that name, making one when there is none, with a
// fresh credential of one year. A name is a letter and up to 7 letters, digits
// or underscores.
func (a *Authority) User(name string, now time.Time) (User, error) {
	if err := checkUser(name); err != nil {
		return User{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := os.Lstat(a.path("users", name, ".pem")); missing(err) {
		if err := a.makeUser(name, now); err != nil {
			return User{}, err
		}
	}
	c, err := a.userCertificate(name)
	if err != nil {
		return User{}, err
	}
	key, err := os.ReadFile(a.path("users", name, ".key"))
	if err != nil {
		return User{}, err
	}
	sshKey, err := os.ReadFile(a.path("users", name, ".ssh"))
	if err != nil {
		return User{}, err
	}
	signer, err := ssh.ParsePrivateKey(sshKey)
	if err != nil {
		return User{}, fmt.Errorf("SSH key of %s: %w", c.URN, err)
	}
	expires := now.Add(userCredential)
	if a.Expires().Before(expires) {
		expires = a.Expires()
	}
	credential, err := a.credential(c, c, userPrivileges, expires)
	if err != nil {
		return User{}, err
	}
	return User{
		URN: c.URN, Certificate: a.chainPEM(c), Key: key, Credential: credential,
		SSHKey: sshKey, SSHPublicKey: ssh.MarshalAuthorizedKey(signer.PublicKey()),
	}, nil
}

// sign signs the credential of that id with the user's key.
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

// makeUser writes the certificate last: it is the mark that a user is whole.
func (a *Authority) makeUser(name string, now time.Time) error {
	c, key, err := a.certify(a.name(urn.User, name), now)
	if err != nil {
		return err
	}
	_, login, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(login, a.email(name))
	if err != nil {
		return err
	}
	for _, extension := range []string{".key", ".ssh"} { // left by a run that was cut off
		os.Remove(a.path("users", name, extension))
	}
	if err := writeNew(a.path("users", name, ".key"), encodeKey(key), 0o600); err != nil {
		return err
	}
	if err := writeNew(a.path("users", name, ".ssh"), pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	return writeNew(a.path("users", name, ".pem"), a.chainPEM(c), 0o644)
}

// certify makes a key and its certificate.
func (a *Authority) certify(u urn.URN, now time.Time) (*cert.Certificate, *rsa.PrivateKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return nil, nil, err
	}
	c, err := issue(holder{urn: u, email: a.email(u.Name), key: &key.PublicKey}, a.cert, a.key, now)
	return c, key, err
}

func (a *Authority) userCertificate(name string) (*cert.Certificate, error) {
	c, err := readCertificate(a.path("users", name, ".pem"))
	if missing(err) {
		return nil, fmt.Errorf("there is no user %s of %s yet", name, a.URN().Authority)
	}
	return c, err
}
