package cert

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"patchbay/am/display"
	"patchbay/am/urn"
	"patchbay/credentials/rule"
)

// MaxBytes is the maximum size in bytes of a certificate in DER, and of the text for
// ParsePEM.
const MaxBytes = 64 << 10

// Certificate is an X.509 certificate with its GENI name. Raw and RawTBSCertificate are as
// received.
type Certificate struct {
	*x509.Certificate
	// URN is the alternative name that begins with urn:publicid:. It is zero without such a
	// name, or if NameErr returns an error.
	URN urn.URN

	nameErr *Error
	hash    [sha256.Size]byte
}

// Parse reads one certificate in DER. Unlike the standard library, it accepts a malformed
// non-critical authorityInfoAccess extension.
func Parse(der []byte) (*Certificate, error) {
	if len(der) > MaxBytes {
		return nil, refuseText(rule.CertificateSize, "the certificate has %d bytes; at most %d are read", len(der), MaxBytes)
	}
	x, err := x509.ParseCertificate(der)
	if err != nil {
		cut, tbs, ok := cutAIA(der)
		if !ok {
			return nil, err
		}
		if x, err = x509.ParseCertificate(cut); err != nil {
			return nil, err
		}
		x.Raw = bytes.Clone(der)
		x.RawTBSCertificate = tbs
	}
	if !hasNothingAdded(x.Raw) {
		return nil, refuseText(rule.NoTrailingData, "it has data after its signature, or its signature has unused bits")
	}
	c := &Certificate{Certificate: x, hash: sha256.Sum256(x.Raw)}
	c.readNames()
	return c, nil
}

// hasNothingAdded reports whether a certificate has no data after the signature, and no
// unused bits in the signature. The standard library ignores such data and bits, which
// could give one certificate many fingerprints.
func hasNothingAdded(der cryptobyte.String) bool {
	var outer cryptobyte.String
	var signature []byte
	return der.ReadASN1(&outer, asn1.SEQUENCE) && outer.SkipASN1(asn1.SEQUENCE) && outer.SkipASN1(asn1.SEQUENCE) &&
		outer.ReadASN1BitStringAsBytes(&signature) && outer.Empty()
}

// Fingerprint returns the SHA-256 of the certificate in hexadecimal.
func (c *Certificate) Fingerprint() string { return hex.EncodeToString(c.hash[:]) }

// NameErr returns an *Error if the certificate has a malformed URN, or several different
// URNs.
func (c *Certificate) NameErr() error {
	if c.nameErr == nil {
		return nil
	}
	return c.nameErr
}

// Name returns the URN, or else the subject, for messages.
func (c *Certificate) Name() string {
	if !c.URN.IsZero() {
		return c.URN.String()
	}
	return fmt.Sprintf("certificate %q", display.Cut(c.Subject.String(), 100))
}

// readNames reads the raw bytes. The standard library parses alternative names with
// net/url, which changes case and escapes.
func (c *Certificate) readNames() {
	const uriTag = asn1.Tag(6 | 0x80)
	for _, ext := range c.Extensions {
		if !ext.Id.Equal(oidSubjectAltName) {
			continue
		}
		in := cryptobyte.String(ext.Value)
		var names cryptobyte.String
		if !in.ReadASN1(&names, asn1.SEQUENCE) {
			return
		}
		for !names.Empty() {
			var value cryptobyte.String
			var tag asn1.Tag
			if !names.ReadAnyASN1(&value, &tag) {
				c.setNameErr(rule.URNsWellFormed, "malformed alternative names")
				return
			}
			if tag == uriTag {
				c.readURI(string(value))
			}
		}
	}
}

// readURI ignores names that are not URNs. A second, different URN is an error.
func (c *Certificate) readURI(s string) {
	if _, ok := cutPrefixFold(s, "urn:publicid:"); !ok || c.nameErr != nil {
		return
	}
	u, err := urn.Parse(s)
	switch {
	case err != nil:
		c.setNameErr(rule.URNsWellFormed, "%v", err)
	case c.URN.IsZero():
		c.URN = u
	case !c.URN.Equal(u):
		c.setNameErr(rule.SingleURN, "two URNs, %s and %s", c.URN, u)
	}
}

// setNameErr also removes the URN.
func (c *Certificate) setNameErr(broken rule.Rule, format string, args ...any) {
	c.URN, c.nameErr = urn.URN{}, &Error{Reason: NoName, Rule: broken, Certificate: c, Text: fmt.Sprintf(format, args...)}
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return "", false
	}
	return s[len(prefix):], true
}
