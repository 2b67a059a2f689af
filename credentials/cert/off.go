//go:build attack

package cert

import (
	"patchbay/am/urn"
	"patchbay/credentials/rule"
)

// readSubject shows the effect of switching off rule.HasURN: a URN in the common name is
// used if the alternative names have no URN.
func (c *Certificate) readSubject() {
	if u, err := urn.Parse(c.Subject.CommonName); err == nil && c.nameErr == nil && c.URN.IsZero() && !rule.HasURN.Broken(true) {
		c.URN = u
	}
}

// failUntrusted shows the effect of switching off rule.Anchored: the last certificate of a
// path is trusted.
func (s *search) failUntrusted(path Chain, e *Error) Chain {
	if rule.Anchored.Broken(true) {
		return s.fail(len(path)-1, e)
	}
	return path
}
