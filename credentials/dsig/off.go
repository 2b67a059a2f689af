//go:build attack

package dsig

import (
	"bytes"
	"crypto"
	"crypto/hmac"
	"crypto/md5"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"

	"patchbay/credentials/cert"
	"patchbay/credentials/rule"
	"patchbay/schemas/xmltree"
)

// Pretended is the signer of an unsigned credential while rule.Signed is off.
var Pretended *cert.Certificate

// These methods are accepted only while rule.Algorithm is off.
const (
	byHMAC x509.SignatureAlgorithm = 1000 + iota
	byNothing
)

// unlisted has the algorithms that are accepted only while rule.Algorithm is off.
var unlisted = map[string]any{
	nsMore + "md5":           crypto.MD5,
	nsMore + "rsa-md5":       x509.MD5WithRSA,
	nsDS + "hmac-sha1":       byHMAC,
	"none":                   byNothing,
	"":                       byNothing,
	c14n10 + "#WithComments": xmltree.C14N10,
}

// lookup also reports whether the algorithm is accepted.
func lookup[T any](list map[string]T, name string) (T, bool) {
	found, ok := list[name]
	if !ok {
		if u, known := unlisted[name].(T); known {
			return u, false
		}
	}
	return found, ok
}

// examine returns e as a verified credential if s is its signature. While rule.Signed is
// off, s may be nil, and nothing is checked.
func examine(s *signature, doc *xmltree.Doc, e *xmltree.Element, budget *cert.Budget) (Signed, error) {
	if s != nil {
		return s.check(doc, e, budget)
	}
	canonical, err := doc.Canonical(e, xmltree.C14N10, nil)
	return Signed{Canonical: canonical, Signer: Pretended}, err
}

// isSignedWith also accepts the unlisted methods while rule.Algorithm is off; HMAC uses the
// public key as the secret.
func isSignedWith(c *cert.Certificate, method x509.SignatureAlgorithm, info, value []byte) bool {
	if rule.Algorithm.Broken(true) {
		return cert.CheckSignature(c.PublicKey, method, info, value) == nil
	}
	switch method {
	case byNothing:
		return true
	case byHMAC:
		h := hmac.New(sha1.New, c.RawSubjectPublicKeyInfo)
		h.Write(info)
		return bytes.Equal(h.Sum(nil), value)
	case x509.MD5WithRSA:
		sum := md5.Sum(info)
		k, ok := c.PublicKey.(*rsa.PublicKey)
		return ok && rsa.VerifyPKCS1v15(k, crypto.MD5, sum[:], value) == nil
	}
	return cert.CheckSignature(c.PublicKey, method, info, value) == nil
}
