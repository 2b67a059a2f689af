package mtls

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// KeyPair names the files of one server certificate and its private key, both PEM.
type KeyPair struct {
	// CertFile holds the server's certificate, followed by the intermediates
	// that clients need to reach a root they know.
	CertFile string
	// KeyFile holds the private key of that certificate, without a pass
	// phrase. Only its owner and its group may read it: mode 0600 or 0640.
	// It may be the same file as CertFile.
	KeyFile string
}

// Config holds the settings of the listener.
type Config struct {
	// Keys are the server's key pairs, at most one of each algorithm. With an ECDSA and an
	// RSA pair, each client gets the pair that it can use; clients too old for elliptic
	// curves need the RSA pair.
	Keys []KeyPair

	// SHA1Handshakes admits old clients that can sign the handshake only with SHA-1
	// (OpenSSL's security level 0 instead of 2). With either value, the package accepts RSA
	// keys of 1024 bits or more, and does not check the signatures on the clients'
	// certificates.
	SHA1Handshakes bool

	// HandshakeTimeout limits the time from Accept to the end of the handshake, even if the
	// deadlines of the connection are later; 0 for no limit.
	HandshakeTimeout time.Duration

	// OnHandshakeError, if not nil, is called for each connection that ended before its
	// handshake was done. The error wraps an *Error, a net.Error or io.EOF. Calls may be
	// concurrent.
	OnHandshakeError func(remote net.Addr, err error)
}

// Validate checks that key pairs are configured; New reads the files.
func (c Config) Validate() error {
	if len(c.Keys) == 0 {
		return errors.New("no server certificate is configured: give at least one pair of certificate and key files")
	}
	for i, k := range c.Keys {
		if k.CertFile == "" || k.KeyFile == "" {
			return fmt.Errorf("key pair %d needs both a certificate file and a key file", i+1)
		}
	}
	return nil
}
