//go:build attack

package cert

import (
	"patchbay/am/urn"
	"patchbay/credentials/rule"
)

// readSubject is what a reader without rule.NamesSomebody does: it takes the
// common name for a URN where there is none among the alternative names.
func (c *Certificate) readSubject() {
	if u, err := urn.Parse(c.Subject.CommonName); err == nil && c.nameErr == nil && c.URN.IsZero() && !rule.NamesSomebody.Broken(true) {
		c.URN = u
	}
}

// stranger is what a verifier without rule.Anchored does: it trusts the last of a
// path, whoever that is.
func (s *search) stranger(path Chain, e *Error) Chain {
	if rule.Anchored.Broken(true) {
		return s.fail(len(path)-1, e)
	}
	return path
}
