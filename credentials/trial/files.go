package trial

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"patchbay/am/file"
	"patchbay/credentials/cert"
)

// EncodeCertificate returns the certificate in PEM.
func EncodeCertificate(c *cert.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func encodeChain(list []*cert.Certificate) []byte {
	var b []byte
	for _, c := range list {
		b = append(b, EncodeCertificate(c)...)
	}
	return b
}

// encodeKey uses PKCS #1, because old clients read nothing else.
func encodeKey(k *rsa.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
}

func readCertificate(file string) (*cert.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	list, err := cert.ParsePEM(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list[0], nil
}

func readKey(file string) (*rsa.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	k, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return k, nil
}

func parseKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no key")
	}
	return x509.ParsePKCS1PrivateKey(block.Bytes)
}

// writeNew writes a new file completely or not at all. It fails if path exists.
func writeNew(path string, content []byte, mode fs.FileMode) error {
	return file.AsOwner(filepath.Dir(path), func() error { return writeAndLink(path, content, mode) })
}

// writeAndLink writes a temporary file and links it to path. It fails if path exists, because a
// hard link, unlike a rename, never replaces a file.
func writeAndLink(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return file.SyncFolder(filepath.Dir(path))
}
