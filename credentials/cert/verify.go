package cert

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"slices"
	"strings"
	"time"

	"patchbay/am/urn"
	"patchbay/credentials/rule"
)

const (
	// DefaultMinRSABits is the smallest RSA key accepted unless Options say otherwise.
	DefaultMinRSABits = 2048
	// maxDepth is the longest chain, leaf and anchor included.
	maxDepth = 8
	// maxChecks bounds the signature checks for one leaf.
	maxChecks = 32
	// skew is how far an issuer's clock may run ahead of ours.
	skew = 5 * time.Minute
)

// Options are what an operator may allow.
type Options struct {
	// SHA1 accepts SHA-1 signatures on certificates below the anchor.
	SHA1 bool
	// MinRSABits is the smallest RSA key; zero means DefaultMinRSABits. Below
	// 1024 bits no signature verifies.
	MinRSABits int
	// Budget is what the checks are paid from.
	Budget *Budget
}

// Chain runs from the leaf, first, to the anchor, last. It is shared: read only.
type Chain []*Certificate

// Expires is when the first certificate of the chain expires.
func (c Chain) Expires() time.Time {
	var t time.Time
	for i, x := range c {
		if i == 0 || x.NotAfter.Before(t) {
			t = x.NotAfter
		}
	}
	return t
}

// SHA1 tells whether a certificate below the anchor is signed with SHA-1, for
// the log.
func (c Chain) SHA1() bool {
	below := c[:max(0, len(c)-1)]
	return slices.ContainsFunc(below, func(x *Certificate) bool { return usesSHA1(x.SignatureAlgorithm) })
}

// Verify finds a chain from leaf to one of the anchors, over the others where
// it needs them, that is good at the time now. The others may be junk: nothing
// is believed of them that is not verified.
//
// The error is always an *Error. A leaf that names nobody is refused, even
// where it is itself an anchor.
func Verify(leaf *Certificate, others []*Certificate, a *Anchors, o Options, now time.Time) (Chain, error) {
	key := memoryKey(leaf, others, o)
	if v, ok := a.verified.Get(key); ok && !now.Before(v.from) && !now.After(v.ends) {
		return v.chain, nil
	}
	if leaf.nameErr != nil {
		return nil, refuse(NoName, leaf.nameErr.Rule, leaf, "has %v", leaf.nameErr)
	}
	if rule.NamesSomebody.Broken(leaf.URN.IsZero()) {
		return nil, refuse(NoName, rule.NamesSomebody, leaf, "holds no URN among its alternative names")
	}
	s := search{others: others, anchors: a, options: o, now: now, checks: maxChecks}
	chain := s.from(leaf, nil)
	if chain == nil {
		return nil, s.best
	}
	a.remember(key, chain, now)
	return chain, nil
}

func memoryKey(leaf *Certificate, others []*Certificate, o Options) [sha256.Size]byte {
	b := make([]byte, 0, (1+len(others))*sha256.Size+5)
	b = append(b, leaf.hash[:]...)
	for _, c := range others {
		b = append(b, c.hash[:]...)
	}
	if o.SHA1 {
		b = append(b, 1)
	}
	b = append(b, byte(o.MinRSABits>>24), byte(o.MinRSABits>>16), byte(o.MinRSABits>>8), byte(o.MinRSABits))
	return sha256.Sum256(b)
}

// search is one walk from a leaf towards the anchors, depth first.
type search struct {
	others  []*Certificate
	anchors *Anchors
	options Options
	now     time.Time
	checks  int // signature checks left
	best    *Error
	depth   int // where best was found
}

// fail keeps the reason that came farthest up.
func (s *search) fail(depth int, e *Error) Chain {
	if s.best == nil || depth > s.depth {
		s.best, s.depth = e, depth
	}
	return nil
}

// from continues the path with c and gives the whole chain, or nil.
func (s *search) from(c *Certificate, path Chain) Chain {
	if e := s.checkSelf(c); e != nil {
		return s.fail(len(path), e)
	}
	path = append(path[:len(path):len(path)], c)
	if anchor, ok := s.anchors.find(c); ok {
		if e := checkNames(path, anchor); e != nil {
			return s.fail(len(path), e)
		}
		if e := s.anchors.revoked.among(path); e != nil {
			return s.fail(len(path), e)
		}
		return path
	}
	if e := s.anchors.revoked.anchor(c); e != nil {
		return s.fail(len(path), e)
	}
	if rule.ChainLength.Broken(len(path) == maxDepth) {
		return s.fail(len(path), refuse(NotIssuer, rule.ChainLength, path[0], "has a chain of more than %d certificates", maxDepth))
	}
	for _, i := range s.anchors.bySubject[string(c.RawIssuer)] {
		if chain := s.over(s.anchors.list[i].Certificate, true, path); chain != nil {
			return chain
		}
	}
	for _, issuer := range s.others {
		if s.isAnchor(issuer) || contains(path, issuer) || !bytes.Equal(issuer.RawSubject, c.RawIssuer) {
			continue
		}
		if chain := s.over(issuer, false, path); chain != nil {
			return chain
		}
	}
	if e := s.anchors.revoked.above(c); e != nil {
		return s.fail(len(path), e)
	}
	return s.stranger(path, refuse(Untrusted, rule.Anchored, c, "is issued by %q, which is no authority this server trusts", short(c.Issuer.String())))
}

// over tries issuer as the issuer of the last certificate of the path.
func (s *search) over(issuer *Certificate, anchor bool, path Chain) Chain {
	c := path[len(path)-1]
	if e := checkIssuer(issuer, anchor, len(path)-1); e != nil {
		return s.fail(len(path), e)
	}
	if rule.CertificateDigest.Broken(usesSHA1(c.SignatureAlgorithm) && !s.options.SHA1) {
		return s.fail(len(path), refuse(WeakDigest, rule.CertificateDigest, c, "is signed with SHA-1, which this server does not accept; ask its authority for a new one"))
	}
	if e := checkKey(issuer, s.options); e != nil {
		return s.fail(len(path), e)
	}
	if rule.SearchLength.Broken(s.checks == 0) {
		return s.fail(maxDepth, refuse(Untrusted, rule.SearchLength, path[0], "cannot be traced to a trusted authority within %d signatures", maxChecks))
	}
	s.checks--
	if rule.Budget.Broken(!s.options.Budget.Take(issuer.PublicKey)) {
		return s.fail(maxDepth, refuse(Untrusted, rule.Budget, path[0], "is not traced to a trusted authority: %v", ErrBudget))
	}
	if err := CheckSignature(issuer.PublicKey, c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature); rule.CertificateSignature.Broken(err != nil) {
		return s.fail(len(path), refuse(BadSignature, rule.CertificateSignature, c, "is not signed by %s: %v", issuer.Name(), err))
	}
	return s.from(issuer, path)
}

// checkSelf judges what a certificate says of itself.
func (s *search) checkSelf(c *Certificate) *Error {
	switch {
	case rule.CertificateExpired.Broken(s.now.After(c.NotAfter)):
		return refuse(Expired, rule.CertificateExpired, c, "expired %s", c.NotAfter.UTC().Format(time.RFC3339))
	case rule.CertificateBegun.Broken(s.now.Before(c.NotBefore.Add(-skew))):
		return refuse(NotYetValid, rule.CertificateBegun, c, "is not valid before %s", c.NotBefore.UTC().Format(time.RFC3339))
	case c.nameErr != nil && !s.isAnchor(c):
		return refuse(NoName, c.nameErr.Rule, c, "has %v", c.nameErr)
	}
	for _, ext := range c.Extensions {
		if rule.Evaluated.Broken(ext.Critical && !evaluated(ext.Id)) {
			return refuse(Unsupported, rule.Evaluated, c, "has a critical extension %s that this server does not evaluate", ext.Id)
		}
	}
	return checkKey(c, s.options)
}

func (s *search) isAnchor(c *Certificate) bool {
	_, ok := s.anchors.find(c)
	return ok
}

// evaluated tells whether a critical extension is taken into account, or (key
// identifiers, extended usage, policies) says nothing that GENI limits by.
func evaluated(oid asn1.ObjectIdentifier) bool {
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

// checkIssuer judges whether a certificate may issue at all, with below
// certificates between it and the leaf. An anchor need not be a CA; others must
// be, which those of the versions 1 and 2 of X.509 have no place to say.
func checkIssuer(c *Certificate, anchor bool, below int) *Error {
	isCA := c.BasicConstraintsValid && c.IsCA
	switch {
	case rule.IssuerIsCA.Broken(!isCA && !anchor):
		return refuse(NotIssuer, rule.IssuerIsCA, c, "issued a certificate but is no CA")
	case rule.IssuerKeyUsage.Broken(c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0):
		return refuse(NotIssuer, rule.IssuerKeyUsage, c, "issued a certificate but its key usage does not allow it")
	case rule.PathLength.Broken(isCA && c.MaxPathLen >= 0 && (c.MaxPathLen > 0 || c.MaxPathLenZero) && below > c.MaxPathLen):
		return refuse(NotIssuer, rule.PathLength, c, "allows only %d certificates between it and the last", c.MaxPathLen)
	case rule.IssuerIsAuthority.Broken(!c.URN.IsZero() && c.URN.Type != urn.Authority):
		return refuse(NotIssuer, rule.IssuerIsAuthority, c, "issued a certificate but is no authority")
	}
	return nil
}

// checkNames walks a complete path down from its anchor: every name must lie
// within what the one above it may speak for. A certificate without URN passes
// on the limits it is under.
func checkNames(path Chain, anchor Anchor) *Error {
	scope := anchor.Covers()
	for i := len(path) - 2; i >= 0; i-- {
		c := path[i]
		if c.URN.IsZero() {
			continue
		}
		if rule.Namespace.Broken(!covered(scope, c.URN.Authority)) {
			if len(scope) == 0 {
				return refuse(Namespace, rule.Namespace, c, "is issued under %s, which this server does not let speak for any authority", anchor.Certificate.Name())
			}
			return refuse(Namespace, rule.Namespace, c, "is issued under %s, which speaks only for %s", path[i+1].Name(), strings.Join(scope, ", "))
		}
		scope = []string{c.URN.Authority}
	}
	return nil
}

func covered(scope []string, authority string) bool {
	return slices.ContainsFunc(scope, func(s string) bool { return urn.Covers(s, authority) })
}

func usesSHA1(alg x509.SignatureAlgorithm) bool {
	return alg == x509.SHA1WithRSA || alg == x509.ECDSAWithSHA1
}

func short(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}
