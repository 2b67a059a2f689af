package testbed

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"patchbay/am/file"
)

// newHostKey returns the private keys as OpenSSH PEM, one after the other, and their public
// lines. ECDSA is for old clients, such as those in Java, which do not know Ed25519.
func newHostKey() (private []byte, public string, err error) {
	_, first, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	second, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	for _, key := range []crypto.PrivateKey{first, second} {
		block, err := ssh.MarshalPrivateKey(key, "")
		if err != nil {
			return nil, "", err
		}
		private = append(private, pem.EncodeToMemory(block)...)
	}
	public, err = publicLines(private)
	return private, public, err
}

// publicLines returns one line per key, as in authorized_keys.
func publicLines(private []byte) (string, error) {
	var lines []string
	for len(lines) == 0 || len(private) > 0 {
		_, rest := pem.Decode(private)
		s, err := ssh.ParsePrivateKey(private[:len(private)-len(rest)])
		if err != nil {
			return "", err
		}
		lines = append(lines, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey()))))
		private = rest
	}
	return strings.Join(lines, "\n"), nil
}

// experimentBits is the size of an experiment's key. The key is RSA in the old PEM
// form, because scripts of other testbeds expect this form from geni-get key.
const experimentBits = 2048

// newExperimentKey returns a new private key as PEM. That takes a tenth of a second or more.
func newExperimentKey() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, experimentBits)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
}

// loadOrCreateKey reads a private key from its file. If the file does not exist, it saves and returns the
// result of generate; if generate fails, it returns that error.
func loadOrCreateKey(dir, name string, generate func() ([]byte, error)) (private []byte, public string, err error) {
	private, err = os.ReadFile(filepath.Join(dir, name))
	if err == nil {
		if public, err = publicLines(private); err != nil {
			err = fmt.Errorf("%s is not a private key; remove it, and a new one is created: %w", filepath.Join(dir, name), err)
		}
		return private, public, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	if private, err = generate(); err == nil {
		public, err = publicLines(private)
	}
	if err == nil {
		err = file.Write(filepath.Join(dir, name), private, 0o600)
	}
	return private, public, err
}
