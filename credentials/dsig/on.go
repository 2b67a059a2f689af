//go:build !attack

package dsig

import (
	"crypto/x509"

	"patchbay/credentials/cert"
	"patchbay/schemas/xmltree"
)

// lookup is what a name stands for, and whether it is on the list.
func lookup[T any](list map[string]T, name string) (T, bool) {
	found, ok := list[name]
	return found, ok
}

// examine is what a signature proves of e.
func examine(s *signature, doc *xmltree.Doc, e *xmltree.Element, budget *cert.Budget) (Signed, error) {
	return s.check(doc, e, budget)
}

// made tells whether the key of c made a signature.
func made(c *cert.Certificate, method x509.SignatureAlgorithm, info, value []byte) bool {
	return cert.CheckSignature(c.PublicKey, method, info, value) == nil
}
