package credentials

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/credentials/cert"
	"patchbay/credentials/rule"
)

// Presented is one credential as sent by a client. The label, Type and Version, must be one
// that known clients write, but has no other effect: the signed text determines the kind.
type Presented struct {
	// Type is geni_sfa, geni_abac, sfa, abac, speaksfor, geni_unknown (omni's word
	// for a delegated credential) or, for a bare string, empty; in any case.
	Type string
	// Version is 0, 1, 2, 3 or empty.
	Version string
	// Text is the document.
	Text string
}

// Fingerprint returns the SHA-256 of the document in hexadecimal, as in
// Grant.Fingerprints.
func (p Presented) Fingerprint() string {
	key := sha256Of(trimDocument(p.Text))
	return hex.EncodeToString(key[:])
}

var (
	knownTypes    = []string{"", "geni_sfa", "sfa", "geni_abac", "abac", "speaksfor", "geni_speaksfor", "geni_unknown"}
	knownVersions = []string{"", "0", "1", "2", "3"}
)

// examined is the result for one presented credential.
type examined struct {
	*statement
	err error
}

// Limits of signature checks, in units of cert.Budget. A credential needs about ten units,
// and more with long chains and delegations. The search for the chain of a caller without a
// trusted certificate gets about 25 ms.
const (
	callBudget      = 4096
	untrustedBudget = 768
	cheapBudget     = 64
)

// examination is the common input for examining all credentials of one call.
type examination struct {
	*trust
	budget *cert.Budget
	now    time.Time
}

// examine verifies one credential or returns the cached result. The certificates in beside
// may be issuers. They are verified, so they may come from any source.
func (z *Authorizer) examine(x examination, p Presented, beside []*cert.Certificate) (*statement, error) {
	text := trimDocument(p.Text)
	switch {
	case rule.Label.Broken(!slices.Contains(knownTypes, strings.ToLower(p.Type))):
		return nil, refuse(rule.Label, am.CredentialInvalid, "credentials of the type %.40q are not used here, only geni_sfa and geni_abac", p.Type)
	case rule.Label.Broken(!slices.Contains(knownVersions, p.Version)):
		return nil, refuse(rule.Label, am.CredentialInvalid, "version %.40q of credentials is not known, only 2 and 3 of geni_sfa and 1 of geni_abac", p.Version)
	case rule.Bytes.Broken(len(p.Text) > MaxBytes):
		return nil, refuse(rule.Bytes, am.CredentialInvalid, "it has %d bytes, at most %d are read", len(p.Text), MaxBytes)
	case text == "":
		return nil, refuse(rule.Presented, am.CredentialInvalid, "it is empty")
	}
	key := sha256Of(text)
	if s, ok := x.statements.Get(key); ok && s.isValid(x.now) {
		return s, nil
	}
	if rule.Budget.Broken(x.budget.IsSpent()) {
		return nil, refuse(rule.Budget, am.CredentialInvalid, "it is not read: %v", cert.ErrBudget)
	}
	s, err := z.verify(x, []byte(text), beside)
	if err != nil {
		return nil, err
	}
	s.fingerprint = hex.EncodeToString(key[:])
	x.statements.Put(key, s)
	return s, nil
}

// examineAgain examines again the credentials that have no chain to an anchor, if more
// contains possible issuers that are not in beside.
func (z *Authorizer) examineAgain(x examination, p []Presented, list []examined, beside, more []*cert.Certificate) {
	known := func(c *cert.Certificate) bool {
		return slices.ContainsFunc(beside, func(b *cert.Certificate) bool { return b.Fingerprint() == c.Fingerprint() })
	}
	if more = slices.DeleteFunc(slices.Clone(more), known); len(more) == 0 {
		return
	}
	for i, e := range list {
		if e.err != nil && detailOf(e.err) == am.CredentialUntrusted {
			list[i].statement, list[i].err = z.examine(x, p[i], slices.Concat(more, beside))
		}
	}
}

// sha256Of returns the SHA-256 of a document without copying it.
func sha256Of(text string) (key [sha256.Size]byte) {
	h := sha256.New()
	var part [1024]byte
	for len(text) > 0 {
		n := copy(part[:], text)
		h.Write(part[:n])
		text = text[n:]
	}
	h.Sum(key[:0])
	return key
}

// trimDocument removes white space and a byte order mark around a document.
func trimDocument(s string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s), "\ufeff"))
}
