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
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"patchbay/am/durable"
)

// newHostKey is what a host shows that it is itself with: its private keys,
// OpenSSH PEM one after the other, and their public lines. Old clients, like
// those in Java, do not know Ed25519.
func newHostKey() (private []byte, public string, err error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	if private, err = inPEM(key); err != nil {
		return nil, "", err
	}
	return withECDSA(private)
}

// withECDSA adds a key for old clients to a host's.
func withECDSA(private []byte) ([]byte, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	second, err := inPEM(key)
	if err != nil {
		return nil, "", err
	}
	private = slices.Concat(private, second)
	public, err := publicLines(private)
	return private, public, err
}

func inPEM(key crypto.PrivateKey) ([]byte, error) {
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(block), nil
}

// publicLines are what known_hosts and authorized_keys have of private keys.
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

// keptHostKey is the host key in dir/name, made by fresh unless it is there. One
// of an older version gets what it lacks.
func keptHostKey(dir, name string, fresh func() ([]byte, error)) (private []byte, public string, err error) {
	private, public, err = keptKey(dir, name, fresh)
	if err != nil || strings.Contains(public, ssh.KeyAlgoECDSA256) {
		return private, public, err
	}
	if private, public, err = withECDSA(private); err == nil {
		err = durable.WriteFile(filepath.Join(dir, name), private, 0o600)
	}
	return private, public, err
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
	private, err = readState(dir, name)
	if err == nil {
		if public, err = publicLines(private); err != nil {
			err = fmt.Errorf("%s is no private key; remove it and a new one is made: %w", filepath.Join(dir, name), err)
		}
		return private, public, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	if private, err = make(); err == nil {
		public, err = publicLines(private)
	}
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, name), private, 0o600)
	}
	return private, public, err
}
