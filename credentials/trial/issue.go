package trial

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"github.com/google/uuid"

	"patchbay/am/urn"
	"patchbay/credentials/cert"
)

const (
	rsaBits = 2048
	// lifetime is the lifetime of the root's certificate. All other certificates expire at the
	// same time.
	lifetime = 10 * 365 * 24 * time.Hour
	// predating is how long before its creation a certificate's validity begins. It
	// allows for servers whose clock is slow.
	predating = time.Hour
)

type subject struct {
	urn   urn.URN
	unit  string // distinguishes the subject from the root's of an earlier version
	email string
	key   crypto.PublicKey
	ca    bool
	// lifetime is for a certificate without issuer. Others expire together with the issuer's.
	lifetime   time.Duration
	pathLength int // of a CA
}

// issue issues a certificate. If the issuer has no certificate, the new one is self-signed.
func issue(h subject, issuer signer, now time.Time) (*cert.Certificate, error) {
	id := uuid.NewString()
	uris := []*url.URL{{Scheme: "urn", Opaque: h.urn.String()[len("urn:"):]}, {Scheme: "urn", Opaque: "uuid:" + id}}
	template := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{CommonName: commonName(h.urn, id)},
		NotBefore:             now.Add(-predating).UTC().Truncate(time.Second),
		NotAfter:              now.Add(h.lifetime).UTC().Truncate(time.Second),
		URIs:                  uris,
		EmailAddresses:        []string{h.email},
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		SignatureAlgorithm:    x509.SHA256WithRSA,
	}
	if h.unit != "" {
		template.Subject.OrganizationalUnit = []string{h.unit}
	}
	if h.ca {
		template.IsCA, template.MaxPathLen, template.MaxPathLenZero = true, h.pathLength, h.pathLength == 0
		template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
		template.ExtKeyUsage = nil
	}
	parent := template
	if issuer.cert != nil {
		parent = issuer.cert.Certificate
		template.NotAfter = issuer.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, h.key, issuer.key)
	if err != nil {
		return nil, fmt.Errorf("cannot issue the certificate of %s: %w", h.urn, err)
	}
	return cert.Parse(der)
}

// commonName returns a name that only people read. X.509 allows at most 64 characters.
func commonName(u urn.URN, id string) string {
	if name := u.Authority + "." + u.Type + "." + u.Name; len(name) <= 64 {
		return name
	}
	return id
}

// newSerial returns a random positive serial number of 16 bytes.
func newSerial() *big.Int {
	b := make([]byte, 16)
	rand.Read(b)
	b[0] = b[0]&0x7f | 0x40
	return new(big.Int).SetBytes(b)
}

// SelfSigned returns a certificate in PEM that only proves the possession of a key, for a client
// that has no other certificate yet.
func SelfSigned(key *rsa.PrivateKey, now time.Time) ([]byte, error) {
	c, err := issue(subject{
		urn: urn.URN{Authority: "localhost", Type: urn.User, Name: "new"}, email: "new@localhost", key: &key.PublicKey, lifetime: time.Hour,
	}, signer{key: key}, now)
	if err != nil {
		return nil, err
	}
	return EncodeCertificate(c), nil
}
