package client

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
)

// loadIdentity reads the caller's certificate, its chain and its key. It does not parse the
// certificates, because Go's parser refuses some certificates of the federation.
func loadIdentity(certFile, keyFile string) (*tls.Certificate, error) {
	if keyFile == "" {
		keyFile = certFile
	}
	text, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate: %w", err)
	}
	var chain [][]byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			chain = append(chain, block.Bytes)
		}
	}
	if len(chain) == 0 {
		return nil, fmt.Errorf("%s holds no certificate as PEM", certFile)
	}
	key, err := loadKey(keyFile)
	if err != nil {
		return nil, err
	}
	for i, der := range chain {
		if belongs(key, der) {
			// TLS sends the leaf first; the file may have another order.
			copy(chain[1:i+1], chain[:i])
			chain[0] = der
			return &tls.Certificate{Certificate: chain, PrivateKey: key}, nil
		}
	}
	return nil, fmt.Errorf("the key in %s belongs to no certificate in %s", keyFile, certFile)
}

func loadKey(file string) (crypto.Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the key: %w", err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		if block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return nil, fmt.Errorf("the key in %[1]s is protected by a passphrase; make a copy without one and use that:\n"+
				"(umask 077; openssl pkey -in %[1]s -out plain.key)", file)
		}
		key, err := parseKey(block)
		if err != nil {
			return nil, fmt.Errorf("cannot use the key in %s: %w", file, err)
		}
		return key, nil
	}
	return nil, fmt.Errorf("%s holds no private key as PEM", file)
}

func parseKey(block *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "OPENSSH PRIVATE KEY":
		return nil, fmt.Errorf("it is for ssh; use the TLS key that belongs to the certificate")
	default:
		return nil, fmt.Errorf("the PEM type %s is unknown", block.Type)
	}
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", key)
	}
	return signer, nil
}

// belongs reports whether the key is that of the certificate der. It does not parse the
// certificate, which contains the encoded public key unchanged.
func belongs(key crypto.Signer, der []byte) bool {
	var public []byte
	switch k := key.Public().(type) {
	case *rsa.PublicKey:
		public = x509.MarshalPKCS1PublicKey(k)
	case *ecdsa.PublicKey:
		public, _ = k.Bytes()
	case ed25519.PublicKey:
		public = k
	}
	return len(public) > 0 && bytes.Contains(der, public)
}
