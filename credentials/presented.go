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

// Presented is a credential as a client sent it. Type and Version must have values of known
// clients. They have no other effect, since the signed text determines the kind of
// credential.
type Presented struct {
	// Type is one of knownTypes, in any case. It is "" for a credential that was sent as a
	// bare string. The client omni sends geni_unknown for a delegated credential.
	Type string
	// Version is 0, 1, 2, 3 or "".
	Version string
	// Text is the document.
	Text string
}

// Fingerprint returns the SHA-256 of the document in hexadecimal, as Grant.Fingerprints
// does.
func (p Presented) Fingerprint() string {
	key := sha256Of(trimDocument(p.Text))
	return hex.EncodeToString(key[:])
}

var (
	knownTypes    = []string{"", "geni_sfa", "sfa", "geni_abac", "abac", "speaksfor", "geni_speaksfor", "geni_unknown"}
	knownVersions = []string{"", "0", "1", "2", "3"}
)

type examined struct {
	*statement
	err error
}

// These limit signature checks, in units of cert.Budget. A credential needs about ten
// units, and more with long chains and delegations. 768 units take about 25 ms.
const (
	callBudget      = 4096
	untrustedBudget = 768
	cheapBudget     = 64
)

// examination is shared by all credentials of a call.
type examination struct {
	*trust
	budget *cert.Budget
	now    time.Time
}

// examineAll examines every credential; see examine.
func (z *Authorizer) examineAll(x examination, p []Presented, candidates []*cert.Certificate) []examined {
	list := make([]examined, len(p))
	for i, presented := range p {
		list[i].statement, list[i].err = z.examine(x, presented, candidates)
	}
	return list
}

// examine verifies a credential, or returns the cached result of an earlier call. The candidates
// for issuers may come from any source, since examine verifies each candidate.
func (z *Authorizer) examine(x examination, p Presented, candidates []*cert.Certificate) (*statement, error) {
	text := trimDocument(p.Text)
	switch {
	case !slices.Contains(knownTypes, strings.ToLower(p.Type)):
		return nil, refuse(rule.Label, am.CredentialInvalid, "credentials of the type %.40q are not used here, only geni_sfa and geni_abac", p.Type)
	case !slices.Contains(knownVersions, p.Version):
		return nil, refuse(rule.Label, am.CredentialInvalid, "version %.40q of credentials is not known, only 2 and 3 of geni_sfa and 1 of geni_abac", p.Version)
	case len(p.Text) > MaxBytes:
		return nil, refuse(rule.Bytes, am.CredentialInvalid, "it has %d bytes, at most %d are read", len(p.Text), MaxBytes)
	case text == "":
		return nil, refuse(rule.Presented, am.CredentialInvalid, "it is empty")
	}
	key := sha256Of(text)
	if s, ok := x.statements.Get(key); ok && s.isValid(x.now) {
		return s, nil
	}
	if x.budget.IsSpent() {
		return nil, refuse(rule.Budget, am.CredentialInvalid, "it is not read: %v", cert.ErrBudget)
	}
	s, err := z.verify(x, []byte(text), candidates)
	if err != nil {
		return nil, err
	}
	s.fingerprint = hex.EncodeToString(key[:])
	x.statements.Put(key, s)
	return s, nil
}

// examineAgain repeats the examination of credentials without a chain to an anchor, with
// further candidates for issuers.
func (z *Authorizer) examineAgain(x examination, p []Presented, list []examined, first, further []*cert.Certificate) {
	known := func(c *cert.Certificate) bool {
		return slices.ContainsFunc(first, func(b *cert.Certificate) bool { return b.Fingerprint() == c.Fingerprint() })
	}
	if further = slices.DeleteFunc(slices.Clone(further), known); len(further) == 0 {
		return
	}
	for i, e := range list {
		if e.err != nil && detailOf(e.err) == am.CredentialUntrusted {
			list[i].statement, list[i].err = z.examine(x, p[i], slices.Concat(further, first))
		}
	}
}

// sha256Of does not copy the whole document.
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

// trimDocument removes white space and a byte order mark.
func trimDocument(s string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s), "\ufeff"))
}
