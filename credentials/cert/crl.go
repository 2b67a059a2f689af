package cert

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// Limits of certificate revocation lists.
const (
	maxListFile    = 16 << 20
	maxFileLists   = 1000
	maxListEntries = 1_000_000 // in all lists of a folder
	maxSerial      = 64        // bytes; RFC 5280 allows 20
)

// RevocationList is an immutable CRL. It applies to a certificate only if the certificate's
// issuer has the name of the list's issuer and has signed the list.
type RevocationList struct {
	// File is the file of the list; "" if there is none.
	File string
	// ThisUpdate is the time of the list. NextUpdate is the announced time of the next
	// list, or zero.
	ThisUpdate, NextUpdate time.Time

	issuer    distinguished
	issuerKey string
	keyID     string // the identifier of the issuer's key; "" if the list has none
	serials   map[string]struct{}
	algorithm x509.SignatureAlgorithm
	digest    []byte // of the signed bytes
	signature []byte
	hash      [sha256.Size]byte
}

// Issuer returns the issuer's name, in the format of openssl with -nameopt RFC2253.
func (l *RevocationList) Issuer() string { return l.issuer.String() }

// Len returns the number of revoked certificates.
func (l *RevocationList) Len() int { return len(l.serials) }

// sameSource reports whether the lists have the same issuer and key.
func (l *RevocationList) sameSource(m *RevocationList) bool {
	return l.issuerKey == m.issuerKey && l.keyID == m.keyID
}

// IsStale reports whether the next update of the list is overdue. A stale list still applies,
// because a certificate that was revoked stays revoked.
func (l *RevocationList) IsStale(now time.Time) bool {
	return !l.NextUpdate.IsZero() && now.After(l.NextUpdate)
}

func (l *RevocationList) isSignedBy(c *Certificate) bool {
	return checkDigest(c.PublicKey, l.algorithm, l.digest, l.signature) == nil
}

// revokes reports whether the list contains c and the issuer's key has signed the list. The
// key usage of the issuer does not matter, since a client can choose among several
// certificates with the same key.
func (l *RevocationList) revokes(c, issuer *Certificate) bool {
	_, listed := l.serials[serialKey(c)]
	return listed && l.isSignedBy(issuer)
}

// serialKey returns a key of RevocationList.serials.
func serialKey(c *Certificate) string { return numberKey(c.SerialNumber.Bytes()) }

// numberKey removes leading zero bytes.
func numberKey(b []byte) string { return strings.TrimLeft(string(b), "\x00") }

var (
	oidCRLNumber         = asn1.ObjectIdentifier{2, 5, 29, 20}
	oidReason            = asn1.ObjectIdentifier{2, 5, 29, 21}
	oidDelta             = asn1.ObjectIdentifier{2, 5, 29, 27}
	oidDistributionPoint = asn1.ObjectIdentifier{2, 5, 29, 28}
	oidCertificateIssuer = asn1.ObjectIdentifier{2, 5, 29, 29}
	oidAuthorityKeyID    = asn1.ObjectIdentifier{2, 5, 29, 35}
)

var listAlgorithms = map[string]x509.SignatureAlgorithm{
	"1.2.840.113549.1.1.5":  x509.SHA1WithRSA,
	"1.2.840.113549.1.1.11": x509.SHA256WithRSA,
	"1.2.840.113549.1.1.12": x509.SHA384WithRSA,
	"1.2.840.113549.1.1.13": x509.SHA512WithRSA,
	"1.2.840.10045.4.1":     x509.ECDSAWithSHA1,
	"1.2.840.10045.4.3.2":   x509.ECDSAWithSHA256,
	"1.2.840.10045.4.3.3":   x509.ECDSAWithSHA384,
	"1.2.840.10045.4.3.4":   x509.ECDSAWithSHA512,
}

var errListShape = errors.New("it cannot be read as a CRL")

// ParseRevocationList reads one CRL in DER, of version 1 or 2. It fails if the CRL is a
// delta, has entries of other issuers, or covers only some certificates or reasons. It also
// fails for an unknown critical extension. It does not check the signature.
//
// The parser of the standard library is not used: it cannot read lists of version 1, which
// openssl writes by default, and it needs ten times the memory.
func ParseRevocationList(der []byte) (*RevocationList, error) {
	if len(der) > maxListFile {
		return nil, fmt.Errorf("the CRL has %d bytes; at most %d are read", len(der), maxListFile)
	}
	in := cryptobyte.String(der)
	var outer, element, tbs, algorithm, inner, issuer cryptobyte.String
	l := &RevocationList{hash: sha256.Sum256(der)}
	if !in.ReadASN1(&outer, cbasn1.SEQUENCE) || !in.Empty() ||
		!outer.ReadASN1Element(&element, cbasn1.SEQUENCE) ||
		!outer.ReadASN1Element(&algorithm, cbasn1.SEQUENCE) ||
		!outer.ReadASN1BitStringAsBytes(&l.signature) || !outer.Empty() {
		return nil, errListShape
	}
	signed := element // ReadASN1 advances element
	if !element.ReadASN1(&tbs, cbasn1.SEQUENCE) {
		return nil, errListShape
	}
	version := int64(0)
	if tbs.PeekASN1Tag(cbasn1.INTEGER) && !tbs.ReadASN1Integer(&version) {
		return nil, errListShape
	}
	if version > 1 {
		return nil, fmt.Errorf("it is a CRL of version %d; only versions 1 and 2 are supported", version+1)
	}
	if !tbs.ReadASN1Element(&inner, cbasn1.SEQUENCE) || !tbs.ReadASN1Element(&issuer, cbasn1.SEQUENCE) || !readTime(&tbs, &l.ThisUpdate) {
		return nil, errListShape
	}
	if isTime(tbs) && !readTime(&tbs, &l.NextUpdate) {
		return nil, errListShape
	}
	if string(inner) != string(algorithm) {
		return nil, errors.New("it names two different algorithms of its signature")
	}
	if len(issuer) > MaxBytes {
		return nil, errors.New("the name of its issuer is too long")
	}
	var err error
	if l.issuer, err = readDN(issuer); err != nil {
		return nil, errListShape
	}
	l.issuerKey = l.issuer.key()
	if err := l.readAlgorithm(algorithm); err != nil {
		return nil, err
	}
	if err := l.readEntries(&tbs); err != nil {
		return nil, err
	}
	if err := l.readExtensions(&tbs, version); err != nil {
		return nil, err
	}
	if !tbs.Empty() {
		return nil, errListShape
	}
	h := digests[l.algorithm].New()
	h.Write(signed)
	l.digest = h.Sum(nil)
	return l, nil
}

func (l *RevocationList) readAlgorithm(element cryptobyte.String) error {
	var algorithm cryptobyte.String
	var oid asn1.ObjectIdentifier
	if !element.ReadASN1(&algorithm, cbasn1.SEQUENCE) || !algorithm.ReadASN1ObjectIdentifier(&oid) {
		return errListShape
	}
	var ok bool
	if l.algorithm, ok = listAlgorithms[oid.String()]; !ok {
		return fmt.Errorf("the algorithm %s of its signature is not accepted", oid)
	}
	return nil
}

// readEntries sets the serial numbers of the revoked certificates. It ignores the revocation
// dates, since a listed certificate is revoked in any case.
func (l *RevocationList) readEntries(tbs *cryptobyte.String) error {
	var entries cryptobyte.String
	if !tbs.ReadOptionalASN1(&entries, nil, cbasn1.SEQUENCE) {
		return errListShape
	}
	l.serials = make(map[string]struct{}, min(len(entries)/40, maxListEntries))
	for !entries.Empty() {
		var entry, serial, date, extensions cryptobyte.String
		var tag cbasn1.Tag
		var extended bool
		if !entries.ReadASN1(&entry, cbasn1.SEQUENCE) || !entry.ReadASN1(&serial, cbasn1.INTEGER) || len(serial) == 0 ||
			!isTime(entry) || !entry.ReadAnyASN1(&date, &tag) ||
			!entry.ReadOptionalASN1(&extensions, &extended, cbasn1.SEQUENCE) || !entry.Empty() {
			return errListShape
		}
		if len(serial) > maxSerial {
			return fmt.Errorf("it has a serial number of %d bytes; at most %d are read", len(serial), maxSerial)
		}
		if extended {
			if err := entryExtensions(extensions, serial); err != nil {
				return err
			}
		}
		if serial[0] < 0x80 { // Parse refuses certificates with negative numbers
			l.serials[numberKey(serial)] = struct{}{}
		}
	}
	return nil
}

// entryExtensions refuses extensions that change the meaning of an entry.
func entryExtensions(list, serial cryptobyte.String) error {
	return eachExtension(list, func(oid asn1.ObjectIdentifier, critical bool, value cryptobyte.String) error {
		switch {
		case oid.Equal(oidReason):
			var reason int
			if !value.ReadASN1Enum(&reason) || !value.Empty() {
				return errListShape
			}
			if reason == 8 {
				return fmt.Errorf("it withdraws the revocation of %X, so it is a delta CRL; get the complete list of its issuer", serial)
			}
		case oid.Equal(oidCertificateIssuer):
			return errors.New("it is an indirect CRL, with entries of other issuers; get the list of each issuer")
		case critical:
			return fmt.Errorf("its entry %X has a critical extension %s that is not evaluated here", serial, oid)
		}
		return nil
	})
}

// readExtensions sets the issuer's key ID, and refuses incomplete lists.
func (l *RevocationList) readExtensions(tbs *cryptobyte.String, version int64) error {
	var wrapped, list cryptobyte.String
	var present bool
	if !tbs.ReadOptionalASN1(&wrapped, &present, cbasn1.Tag(0).Constructed().ContextSpecific()) {
		return errListShape
	}
	if !present {
		return nil
	}
	if version == 0 || !wrapped.ReadASN1(&list, cbasn1.SEQUENCE) || !wrapped.Empty() {
		return errListShape
	}
	return eachExtension(list, func(oid asn1.ObjectIdentifier, critical bool, value cryptobyte.String) error {
		switch {
		case oid.Equal(oidDelta):
			return errors.New("it is a delta CRL; get the complete list of its issuer")
		case oid.Equal(oidDistributionPoint):
			return errors.New("it covers only some certificates, or certificates of other issuers (issuing distribution point); get the complete list of its issuer")
		case oid.Equal(oidAuthorityKeyID):
			l.keyID = string(value)
		case oid.Equal(oidCRLNumber):
		case critical:
			return fmt.Errorf("it has a critical extension %s that is not evaluated here", oid)
		}
		return nil
	})
}

func eachExtension(list cryptobyte.String, f func(oid asn1.ObjectIdentifier, critical bool, value cryptobyte.String) error) error {
	for !list.Empty() {
		var extension, value cryptobyte.String
		var oid asn1.ObjectIdentifier
		critical := false
		if !list.ReadASN1(&extension, cbasn1.SEQUENCE) || !extension.ReadASN1ObjectIdentifier(&oid) ||
			extension.PeekASN1Tag(cbasn1.BOOLEAN) && !extension.ReadASN1Boolean(&critical) ||
			!extension.ReadASN1(&value, cbasn1.OCTET_STRING) || !extension.Empty() {
			return errListShape
		}
		if err := f(oid, critical, value); err != nil {
			return err
		}
	}
	return nil
}

func isTime(s cryptobyte.String) bool {
	return s.PeekASN1Tag(cbasn1.UTCTime) || s.PeekASN1Tag(cbasn1.GeneralizedTime)
}

func readTime(s *cryptobyte.String, t *time.Time) bool {
	if s.PeekASN1Tag(cbasn1.UTCTime) {
		return s.ReadASN1UTCTime(t)
	}
	return s.ReadASN1GeneralizedTime(t)
}
