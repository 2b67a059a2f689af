package lxd

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"patchbay/am/file"
)

// secret returns the site's secret, from which host keys are derived: so a node keeps its keys when
// it gets a new disk, and nothing else needs to store them.
func (p *program) secret() ([]byte, error) {
	path := p.folder.beside(".secret")
	text, err := os.ReadFile(path)
	if err == nil && len(text) >= 32 {
		return text, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	unlock, err := p.folder.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if text, err := os.ReadFile(path); err == nil && len(text) >= 32 {
		return text, nil
	}
	text = make([]byte, 32)
	_, _ = rand.Read(text) // never fails
	return text, file.Write(path, text, 0o600)
}

// hostKeys returns the node's private host keys by the names of their files, and the public lines.
// ECDSA is for old clients, such as those in Java, which do not know Ed25519.
func (p *program) hostKeys(id string) (private map[string]string, public []string, err error) {
	secret, err := p.secret()
	if err != nil {
		return nil, nil, err
	}
	keys := map[string]crypto.Signer{}
	seed, err := hkdf.Key(sha256.New, secret, nil, "ed25519 "+id, ed25519.SeedSize)
	if err != nil {
		return nil, nil, err
	}
	keys["ssh_host_ed25519_key"] = ed25519.NewKeyFromSeed(seed)
	for n := byte('0'); keys["ssh_host_ecdsa_key"] == nil; n++ { // a number above the order is rare
		scalar, err := hkdf.Key(sha256.New, secret, nil, "ecdsa "+string(n)+id, 32)
		if err != nil {
			return nil, nil, err
		}
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar); err == nil {
			keys["ssh_host_ecdsa_key"] = key
		}
	}
	private = map[string]string{}
	for name, key := range keys {
		block, err := ssh.MarshalPrivateKey(key, "")
		if err != nil {
			return nil, nil, err
		}
		private[name] = string(pem.EncodeToMemory(block))
		line, err := ssh.NewPublicKey(key.Public())
		if err != nil {
			return nil, nil, err
		}
		public = append(public, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line))))
	}
	slices.Sort(public)
	return private, public, nil
}
