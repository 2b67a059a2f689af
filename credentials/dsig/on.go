//go:build !attack

package dsig

import (
	"crypto/x509"

	"patchbay/credentials/cert"
	"patchbay/schemas/xmltree"
)

// lookup also reports whether the algorithm is accepted.
func lookup[T any](list map[string]T, name string) (T, bool) {
	found, ok := list[name]
	return found, ok
}

// examine returns e as a verified credential if s is its signature.
func examine(s *signature, doc *xmltree.Doc, e *xmltree.Element, budget *cert.Budget) (Signed, error) {
	return s.check(doc, e, budget)
}

// isSignedWith reports whether value is a signature of info with the key of c.
func isSignedWith(c *cert.Certificate, method x509.SignatureAlgorithm, info, value []byte) bool {
	return cert.CheckSignature(c.PublicKey, method, info, value) == nil
}
