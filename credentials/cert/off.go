//go:build attack

package cert

import (
	"patchbay/am/urn"
	"patchbay/credentials/rule"
)

// readSubject uses a URN in the common name, while rule.HasURN is off, if the alternative
// names have no URN.
func (c *Certificate) readSubject() {
	if u, err := urn.Parse(c.Subject.CommonName); err == nil && c.nameErr == nil && c.URN.IsZero() && !rule.HasURN.Broken(true) {
		c.URN = u
	}
}

// failUntrusted trusts the last certificate of a path while rule.Anchored is off.
func (s *search) failUntrusted(path Chain, e *Error) Chain {
	if rule.Anchored.Broken(true) {
		return s.fail(len(path)-1, e)
	}
	return path
}
