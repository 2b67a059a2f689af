package trial

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"encoding/xml"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// minPassphrase is in characters.
const minPassphrase = 8

// EncryptedPEM returns a file with the encrypted private key and the certificate chain, with which
// a user logs in to jFed. key is an RSA key in the PEM form of PKCS #1.
//
// The encryption is that of traditional PEM with AES-128, which all of these read: jFed, which has
// a reader of its own for RSA PRIVATE KEY, Java with BouncyCastle since version 8, and OpenSSL 1.1
// to 3. OpenJDK 8 does not read PKCS #8 with PBES2. Its key derivation is weak, so the passphrase
// must be long.
func EncryptedPEM(chain, key []byte, passphrase string) ([]byte, error) {
	if len(passphrase) < minPassphrase {
		return nil, fmt.Errorf("the passphrase has fewer than %d characters; choose a longer one", minPassphrase)
	}
	block, _ := pem.Decode(key)
	if block == nil || block.Type != "RSA PRIVATE KEY" || len(block.Headers) > 0 {
		return nil, errors.New("the key is no RSA PRIVATE KEY without a passphrase")
	}
	//lint:ignore SA1019 jFed reads no better form; see above
	encrypted, err := x509.EncryptPEMBlock(rand.Reader, block.Type, block.Bytes, []byte(passphrase), x509.PEMCipherAES128)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(encrypted), chain...), nil
}

// JFedAuthority describes an authority and its aggregate for jFed.
type JFedAuthority struct {
	// Name is the authority's name in URNs.
	Name string
	// URL is https://HOST:PORT.
	URL string
	// ServerCertificate is the certificate that Java clients see, in PEM.
	ServerCertificate []byte
}

// XML returns the list of authorities for the file authorities.xml in jFed's folder .jFed. jFed's
// public library (version 2.0, the classes SfaAuthority and ServerType) reads elements of one
// namespace, and the roles Slice Authority, Aggregate Manager and PlanetLab registry; any other role
// stops it. A Slice Authority is that of ProtoGENI, where jFed logs in.
func (a JFedAuthority) XML() ([]byte, error) {
	u, err := url.Parse(a.URL)
	if err != nil {
		return nil, err
	}
	type serverType struct {
		Role    string `xml:"role,attr"`
		Version string `xml:"version,attr"`
	}
	type server struct {
		Type serverType `xml:"servertype"`
		URL  string     `xml:"url"`
	}
	var entry struct {
		XMLName xml.Name `xml:"http://jfed.iminds.be/authority authorities"`
		One     struct {
			HRN         string   `xml:"hrn"`
			URN         string   `xml:"urn"`
			Servers     []server `xml:"urls>serverurl"`
			Proxies     string   `xml:"proxies"`
			Certificate string   `xml:"pemSslTrustCert"`
			Aliases     []string `xml:"allowedCertificateHostnameAliases>alias"`
			Type        string   `xml:"type"`
		} `xml:"authority"`
	}
	one := &entry.One
	one.HRN, one.URN, one.Type = a.Name, "urn:publicid:IDN+"+a.Name+"+authority+cm", "patchbay"
	one.Certificate, one.Aliases = string(bytes.TrimSpace(a.ServerCertificate)), []string{u.Hostname()}
	for _, s := range []struct{ role, version, path string }{
		{"Slice Authority", "1", "/protogeni/xmlrpc/sa"}, {"Aggregate Manager", "2", "/am/2.0"}, {"Aggregate Manager", "3", "/am/3.0"},
	} {
		one.Servers = append(one.Servers, server{serverType{s.role, s.version}, strings.TrimSuffix(a.URL, "/") + s.path})
	}
	text, err := xml.MarshalIndent(entry, "", "  ")
	return append([]byte(xml.Header), append(text, '\n')...), err
}
