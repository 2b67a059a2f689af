package testbed

import (
	"crypto/ed25519"
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
)

// newHostKey is a private key, OpenSSH PEM, and its public line.
func newHostKey() (private []byte, public string, err error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, "", err
	}
	private = pem.EncodeToMemory(block)
	public, err = publicLine(private)
	return private, public, err
}

// publicLine is what known_hosts and authorized_keys have of a private key.
func publicLine(private []byte) (string, error) {
	s, err := ssh.ParsePrivateKey(private)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey()))), nil
}

// experimentBits is the size of an experiment's key. It is RSA in the old PEM
// form since that is what scripts of other testbeds expect of geni-get key.
const experimentBits = 2048

// newExperimentKey takes a tenth of a second or more.
func newExperimentKey() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, experimentBits)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
}

// keptKey is the key in dir/name, made unless it is there.
func keptKey(dir, name string, make func() ([]byte, error)) (private []byte, public string, err error) {
	path := filepath.Join(dir, name)
	private, err = os.ReadFile(path)
	if err == nil {
		if public, err = publicLine(private); err != nil {
			err = fmt.Errorf("%s is no private key; remove it and a new one is made: %w", path, err)
		}
		return private, public, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	if private, err = make(); err == nil {
		public, err = publicLine(private)
	}
	if err == nil {
		err = writeDurably(dir, name, private)
	}
	return private, public, err
}
