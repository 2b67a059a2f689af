//go:build attack

package cert

import (
	"patchbay/am/urn"
	"patchbay/credentials/rule"
)

// readSubject shows the effect of switching off rule.HasURN: it takes the common name as
// the URN if there is none among the alternative names.
func (c *Certificate) readSubject() {
	if u, err := urn.Parse(c.Subject.CommonName); err == nil && c.nameErr == nil && c.URN.IsZero() && !rule.HasURN.Broken(true) {
		c.URN = u
	}
}

// failUntrusted shows what happens without rule.Anchored: it trusts the last
// certificate of a path.
func (s *search) failUntrusted(path Chain, e *Error) Chain {
	if rule.Anchored.Broken(true) {
		return s.fail(len(path)-1, e)
	}
	return path
}
