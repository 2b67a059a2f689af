package create

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"

	"patchbay/am/urn"
)

// serverCertificateLife is long, because users must register a new certificate in their clients.
const serverCertificateLife = 10 * 365 * 24 * time.Hour

// newServerCertificate creates a private key and a self-signed certificate, both in PEM. kind is
// "ecdsa" or "rsa".
func newServerCertificate(kind string, manager urn.URN, hosts []string, ips []net.IP, now time.Time) (certificate, key []byte, err error) {
	var signer crypto.Signer
	usage := x509.KeyUsageDigitalSignature
	if kind == "rsa" {
		signer, err = rsa.GenerateKey(rand.Reader, 2048)
		usage |= x509.KeyUsageKeyEncipherment // the key exchange of old clients
	} else {
		signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	uri, err := url.Parse(manager.String())
	if err != nil {
		return nil, nil, err
	}
	// Java clients look up trusted certificates by subject. Two certificates with the same
	// subject but different keys cause a misleading error there. So the subject contains the kind
	// of the key.
	name := pkix.Name{CommonName: hosts[0], OrganizationalUnit: []string{strings.ToUpper(kind)}}
	template := &x509.Certificate{
		SerialNumber:          serial.Add(serial, big.NewInt(1)),
		Subject:               name,
		NotBefore:             now.Add(-time.Hour).UTC(), // an hour ago, for clients whose clock is slow
		NotAfter:              now.Add(serverCertificateLife).UTC(),
		KeyUsage:              usage,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              hosts,
		IPAddresses:           ips,
		URIs:                  []*url.URL{uri},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}
