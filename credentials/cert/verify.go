package cert

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"slices"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/am/urn"
	"patchbay/credentials/rule"
)

const (
	// DefaultMinRSABits replaces a zero Options.MinRSABits.
	DefaultMinRSABits = 2048
	// maxDepth is the maximum length of a chain, with leaf and anchor.
	maxDepth = 8
	// maxChecks limits the signature checks for one leaf.
	maxChecks = 32
	// maxClockSkew is how far an issuer's clock may be ahead of ours.
	maxClockSkew = 5 * time.Minute
)

// Options are the operator's settings.
type Options struct {
	// SHA1 accepts SHA-1 signatures on certificates below the anchor.
	SHA1 bool
	// MinRSABits is the minimum size of an RSA key; 0 means DefaultMinRSABits. Keys of less
	// than 1024 bits are never accepted.
	MinRSABits int
	// Budget limits the signature checks.
	Budget *Budget
}

// Chain begins with the leaf and ends with the anchor. It is shared and must not be
// changed.
type Chain []*Certificate

// Expires returns the earliest expiry of the chain's certificates.
func (c Chain) Expires() time.Time {
	var t time.Time
	for i, x := range c {
		if i == 0 || x.NotAfter.Before(t) {
			t = x.NotAfter
		}
	}
	return t
}

// SHA1 reports whether a certificate below the anchor is signed with SHA-1.
func (c Chain) SHA1() bool {
	below := c[:max(0, len(c)-1)]
	return slices.ContainsFunc(below, func(x *Certificate) bool { return usesSHA1(x.SignatureAlgorithm) })
}

// Verify returns a chain from the leaf to an anchor, valid at the time now. The candidates
// for issuers may come from any source, since Verify checks each candidate.
//
// The error is always an *Error. Verify refuses a leaf without a valid URN, even if the
// leaf is an anchor.
func Verify(leaf *Certificate, candidates []*Certificate, a *Anchors, o Options, now time.Time) (Chain, error) {
	key := cacheKey(leaf, candidates, o)
	if v, ok := a.verified.Get(key); ok && !now.Before(v.from) && !now.After(v.ends) {
		return v.chain, nil
	}
	if leaf.nameErr != nil {
		return nil, refuse(NoName, leaf.nameErr.Rule, leaf, "has %v", leaf.nameErr)
	}
	if leaf.URN.IsZero() {
		return nil, refuse(NoName, rule.HasURN, leaf, "contains no URN among its alternative names")
	}
	s := search{candidates: candidates, anchors: a, options: o, now: now, checks: maxChecks}
	chain := s.extend(leaf, nil)
	if chain == nil {
		return nil, s.best
	}
	a.store(key, chain, now)
	return chain, nil
}

// cacheKey returns the key of a verified chain in the cache of one generation of anchors. Verify
// compares the time itself.
func cacheKey(leaf *Certificate, candidates []*Certificate, o Options) [sha256.Size]byte {
	b := make([]byte, 0, (1+len(candidates))*sha256.Size+5)
	b = append(b, leaf.hash[:]...)
	for _, c := range candidates {
		b = append(b, c.hash[:]...)
	}
	if o.SHA1 {
		b = append(b, 1)
	}
	b = append(b, byte(o.MinRSABits>>24), byte(o.MinRSABits>>16), byte(o.MinRSABits>>8), byte(o.MinRSABits))
	return sha256.Sum256(b)
}

// search is the search for a chain of one leaf.
type search struct {
	candidates []*Certificate
	anchors    *Anchors
	options    Options
	now        time.Time
	checks     int    // signature checks left
	best       *Error // the error of the longest path
	depth      int    // the length of that path
}

// fail keeps only the error with the longest path. It always returns nil.
func (s *search) fail(depth int, e *Error) Chain {
	if s.best == nil || depth > s.depth {
		s.best, s.depth = e, depth
	}
	return nil
}

// extend returns a chain that begins with the path and c and ends with an anchor. If it finds
// none, it records the error and returns nil.
func (s *search) extend(c *Certificate, path Chain) Chain {
	if e := s.checkSelf(c); e != nil {
		return s.fail(len(path), e)
	}
	path = append(path[:len(path):len(path)], c)
	if anchor, ok := s.anchors.find(c); ok {
		if e := checkNames(path, anchor); e != nil {
			return s.fail(len(path), e)
		}
		if e := s.anchors.revoked.checkChain(path); e != nil {
			return s.fail(len(path), e)
		}
		return path
	}
	if e := s.anchors.revoked.checkAnchor(c); e != nil {
		return s.fail(len(path), e)
	}
	if len(path) == maxDepth {
		return s.fail(len(path), refuse(NotIssuer, rule.ChainLength, path[0], "has a chain of more than %d certificates", maxDepth))
	}
	for _, i := range s.anchors.bySubject[string(c.RawIssuer)] {
		if chain := s.tryIssuer(s.anchors.list[i].Certificate, true, path); chain != nil {
			return chain
		}
	}
	for _, issuer := range s.candidates {
		if s.isAnchor(issuer) || contains(path, issuer) || !bytes.Equal(issuer.RawSubject, c.RawIssuer) {
			continue
		}
		if chain := s.tryIssuer(issuer, false, path); chain != nil {
			return chain
		}
	}
	if e := s.anchors.revoked.checkIssuers(c); e != nil {
		return s.fail(len(path), e)
	}
	// One less, because an error of a possible issuer of c says more.
	return s.fail(len(path)-1, refuse(Untrusted, rule.Anchored, c, "is issued by %q, which is not an authority that this server trusts", display.Cut(c.Issuer.String(), 100)))
}

// tryIssuer checks that the issuer issued the last certificate of the path, and continues the
// chain with it. It returns nil, as extend does, if there is no complete chain.
func (s *search) tryIssuer(issuer *Certificate, isAnchor bool, path Chain) Chain {
	c := path[len(path)-1]
	if e := checkIssuer(issuer, isAnchor, len(path)-1); e != nil {
		return s.fail(len(path), e)
	}
	if usesSHA1(c.SignatureAlgorithm) && !s.options.SHA1 {
		return s.fail(len(path), refuse(WeakDigest, rule.CertificateDigest, c, "is signed with SHA-1, which this server does not accept; ask its authority for a new one"))
	}
	if e := checkKey(issuer, s.options); e != nil {
		return s.fail(len(path), e)
	}
	if s.checks == 0 {
		return s.fail(maxDepth, refuse(Untrusted, rule.SearchLength, path[0], "cannot be traced to a trusted authority with %d signature checks", maxChecks))
	}
	s.checks--
	if !s.options.Budget.Take(issuer.PublicKey) {
		return s.fail(maxDepth, refuse(Untrusted, rule.Budget, path[0], "is not traced to a trusted authority: %v", ErrBudget))
	}
	if err := CheckSignature(issuer.PublicKey, c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature); err != nil {
		return s.fail(len(path), refuse(BadSignature, rule.CertificateSignature, c, "is not signed by %s: %v", issuer.Name(), err))
	}
	return s.extend(issuer, path)
}

func (s *search) checkSelf(c *Certificate) *Error {
	switch {
	case s.now.After(c.NotAfter):
		return refuse(Expired, rule.CertificateExpired, c, "expired %s", c.NotAfter.UTC().Format(time.RFC3339))
	case s.now.Before(c.NotBefore.Add(-maxClockSkew)):
		return refuse(NotYetValid, rule.CertificateStarted, c, "is not valid before %s", c.NotBefore.UTC().Format(time.RFC3339))
	case c.nameErr != nil && !s.isAnchor(c):
		return refuse(NoName, c.nameErr.Rule, c, "has %v", c.nameErr)
	}
	for _, ext := range c.Extensions {
		if ext.Critical && !isEvaluated(ext.Id) {
			return refuse(Unsupported, rule.CriticalExtensions, c, "has a critical extension %s that this server does not evaluate", ext.Id)
		}
	}
	return checkKey(c, s.options)
}

// isAnchor returns false for a revoked anchor.
func (s *search) isAnchor(c *Certificate) bool {
	_, ok := s.anchors.find(c)
	return ok
}

// isEvaluated reports whether a critical extension is supported. Some are accepted without
// evaluation, since GENI does not use them as limits: key identifiers, extended key usage
// and policies.
func isEvaluated(oid asn1.ObjectIdentifier) bool {
	switch oid.String() {
	case "2.5.29.14", // subject key identifier
		"2.5.29.15", // key usage
		"2.5.29.17", // subject alternative name
		"2.5.29.19", // basic constraints
		"2.5.29.32", // certificate policies
		"2.5.29.35", // authority key identifier
		"2.5.29.37": // extended key usage
		return true
	}
	return false
}

// checkIssuer refuses a certificate that may not issue others. distance is the number of
// certificates between c and the leaf. An anchor need not be a CA, since certificates of X.509
// versions 1 and 2 cannot be marked as CAs.
func checkIssuer(c *Certificate, isAnchor bool, distance int) *Error {
	isCA := c.BasicConstraintsValid && c.IsCA
	switch {
	case !isCA && !isAnchor:
		return refuse(NotIssuer, rule.IssuerIsCA, c, "issued a certificate but is not a CA")
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return refuse(NotIssuer, rule.IssuerKeyUsage, c, "issued a certificate but its key usage does not allow it")
	case isCA && c.MaxPathLen >= 0 && (c.MaxPathLen > 0 || c.MaxPathLenZero) && distance > c.MaxPathLen:
		return refuse(NotIssuer, rule.PathLength, c, "allows only %d certificates between itself and the last certificate of a chain", c.MaxPathLen)
	case !c.URN.IsZero() && c.URN.Type != urn.Authority:
		return refuse(NotIssuer, rule.IssuerIsAuthority, c, "issued a certificate but is not an authority")
	}
	return nil
}

// checkNames requires every name to be within the authorities that the next certificate
// towards the anchor covers. A certificate without a URN covers the same authorities as the
// next one towards the anchor.
func checkNames(path Chain, anchor Anchor) *Error {
	scope := anchor.Covers()
	for i := len(path) - 2; i >= 0; i-- {
		c := path[i]
		if c.URN.IsZero() {
			continue
		}
		if !isCovered(scope, c.URN.Authority) {
			if len(scope) == 0 {
				return refuse(Namespace, rule.Namespace, c, "is issued under %s, which covers no authority on this server", anchor.Certificate.Name())
			}
			return refuse(Namespace, rule.Namespace, c, "is issued under %s, which covers only %s", path[i+1].Name(), strings.Join(scope, ", "))
		}
		scope = []string{c.URN.Authority}
	}
	return nil
}

func isCovered(scope []string, authority string) bool {
	return slices.ContainsFunc(scope, func(s string) bool { return urn.Covers(s, authority) })
}

func usesSHA1(alg x509.SignatureAlgorithm) bool {
	return alg == x509.SHA1WithRSA || alg == x509.ECDSAWithSHA1
}
