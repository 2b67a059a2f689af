package credentials

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
)

// Limits of one call.
const (
	// MaxCredentials is the most credentials one call may present.
	MaxCredentials = 32
	// MaxBytes is the largest credential.
	MaxBytes = 1 << 20
)

// DefaultCacheSize is how many verified credentials are remembered unless
// Config says otherwise.
const DefaultCacheSize = 4096

// Config is what an operator may allow. The zero value is the strict one.
type Config struct {
	// SHA1Signatures accepts credentials signed with SHA-1. The credentials of
	// gcf and of old Emulab sites are.
	SHA1Signatures bool
	// SHA1Certificates accepts certificates signed with SHA-1.
	SHA1Certificates bool
	// MinRSABits is the smallest RSA key of a certificate; 0 means 2048, and
	// below 1024 nothing verifies.
	MinRSABits int
	// Signers are further names of authorities, the last part of the URN, that
	// may sign credentials, beside sa, ma, ca, ch and root. Case does not matter.
	Signers []string
	// CacheSize is how many verified credentials, and how many callers, are
	// remembered; 0 means DefaultCacheSize.
	CacheSize int
}

// Authorizer decides who may do what. It is safe for concurrent use.
type Authorizer struct {
	certificates cert.Options
	signatures   dsig.Options
	signers      []string
	cacheSize    int
	trust        atomic.Pointer[trust]
}

// trust is one generation of anchors and all that was verified under it, so
// that nothing verified outlives the anchor that vouched for it.
type trust struct {
	anchors    *cert.Anchors
	statements *memory[*statement]
	callers    *memory[knownCaller]
}

// New makes an Authorizer that trusts the given anchors.
func New(a *cert.Anchors, c Config) *Authorizer {
	z := &Authorizer{
		certificates: cert.Options{SHA1: c.SHA1Certificates, MinRSABits: c.MinRSABits},
		signatures:   dsig.Options{SHA1: c.SHA1Signatures},
		signers:      []string{"sa", "ma", "ca", "ch", "root"},
		cacheSize:    c.CacheSize,
	}
	z.signatures.Limits.Bytes = MaxBytes
	for _, name := range c.Signers {
		z.signers = append(z.signers, strings.ToLower(name))
	}
	if z.cacheSize <= 0 {
		z.cacheSize = DefaultCacheSize
	}
	z.SetAnchors(a)
	return z
}

// SetAnchors replaces the anchors. Where they are really others, all that was
// remembered is forgotten.
func (z *Authorizer) SetAnchors(a *cert.Anchors) {
	if t := z.trust.Load(); t != nil && t.anchors.Generation() == a.Generation() {
		return
	}
	z.trust.Store(&trust{anchors: a, statements: newMemory[*statement](z.cacheSize), callers: newMemory[knownCaller](z.cacheSize)})
}

// Presented is one credential as a client gave it.
type Presented struct {
	// Type is geni_sfa, sfa or, for a bare string, empty; in any case.
	Type string
	// Version is 2, 3 or empty.
	Version string
	// Text is the document.
	Text string
}

// Authorize says whether the credentials give the caller a right. speakingFor
// is the option geni_speaking_for, empty when absent. Which slice the right
// extends over, Grant.Over tells; here a credential for any target will do.
// The error is a *DeniedError.
func (z *Authorizer) Authorize(c Caller, p []Presented, speakingFor string, r Right, now time.Time) (Grant, error) {
	t := z.trust.Load()
	c = z.complete(t, c, p, now)
	if err := checkCaller(c, speakingFor, now); err != nil {
		return Grant{}, err
	}
	_, known := table[r]
	switch {
	case !known:
		return Grant{}, deny(am.NoDetail, "there is no right %.40q", string(r))
	case len(p) == 0:
		return Grant{}, deny(am.MissingArgs, "no credential was presented; get one from your slice authority")
	case len(p) > MaxCredentials:
		return Grant{}, deny(am.CredentialInvalid, "%d credentials were presented, at most %d are read", len(p), MaxCredentials)
	}
	g := Grant{caller: c.URN, right: r, expires: c.Chain.Expires()}
	for i, presented := range p {
		s, err := z.examine(t, presented, c.issuers(), now)
		if err == nil {
			err = s.admits(c, r)
		}
		if err != nil {
			g.reasons = append(g.reasons, Reason{Credential: i + 1, Detail: detailOf(err), Text: err.Error()})
			continue
		}
		g.held = append(g.held, held{number: i + 1, statement: s})
	}
	if len(g.held) == 0 {
		return Grant{}, &DeniedError{Reasons: g.reasons}
	}
	return g, nil
}

func checkCaller(c Caller, speakingFor string, now time.Time) error {
	switch {
	case c.Err != nil:
		return deny(detailOf(c.Err), "%v", c.Err)
	case len(c.Chain) == 0 || c.URN.IsZero() || c.Chain[0].URN != c.URN:
		return deny(am.CredentialInvalid, "the caller was not identified")
	case now.After(c.Chain.Expires()):
		return deny(am.CredentialExpired, "your certificate, or one above it, expired %s", c.Chain.Expires().UTC().Format(time.RFC3339))
	case speakingFor == "":
		return nil
	}
	if u, err := urn.Parse(speakingFor); err != nil || !u.Equal(c.URN) {
		return deny(am.CredentialMismatch,
			"geni_speaking_for names %.100q, but this server does not do speaks-for yet; connect with the certificate of that user", speakingFor)
	}
	return nil
}

// admits checks what differs from call to call.
func (s *statement) admits(c Caller, r Right) error {
	if !s.owner.Equal(c.URN) {
		return faultf(am.CredentialMismatch, "it belongs to %s, but %s is calling", s.owner, c.URN)
	}
	if r.overSlice() && !r.carriedBy(s.privileges) {
		return faultf(am.NoDetail, "its privileges (%.100q) do not allow %s; one of %s would",
			strings.Join(s.privileges, ", "), r, strings.Join(table[r], ", "))
	}
	return nil
}

// examine verifies one credential, or remembers having done so. The certificates
// beside it may lie between its own and an anchor; what they prove is true
// whoever showed them.
func (z *Authorizer) examine(t *trust, p Presented, beside []*cert.Certificate, now time.Time) (*statement, error) {
	switch strings.ToLower(p.Type) {
	case "", "geni_sfa", "sfa":
	default:
		return nil, faultf(am.CredentialInvalid, "credentials of the type %.40q are not used here", p.Type)
	}
	if p.Version != "" && p.Version != "2" && p.Version != "3" {
		return nil, faultf(am.CredentialInvalid, "version %.40q of SFA credentials is not known, only 2 and 3", p.Version)
	}
	text := trim(p.Text)
	switch {
	case len(p.Text) > MaxBytes:
		return nil, faultf(am.CredentialInvalid, "it has %d bytes, at most %d are read", len(p.Text), MaxBytes)
	case text == "":
		return nil, faultf(am.CredentialInvalid, "it is empty")
	}
	key := sum(text)
	if s, ok := t.statements.get(key); ok && s.holds(now) {
		return s, nil
	}
	s, err := z.verify(t, []byte(text), beside, now)
	if err != nil {
		return nil, err
	}
	s.fingerprint = hex.EncodeToString(key[:])
	t.statements.put(key, s)
	return s, nil
}

// sum is the SHA-256 of a document, without a second copy of it.
func sum(text string) (key [sha256.Size]byte) {
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

// trim drops white space and a byte order mark around a document.
func trim(s string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s), "\ufeff"))
}

// verify checks all of a credential that does not depend on who presents it.
func (z *Authorizer) verify(t *trust, document []byte, beside []*cert.Certificate, now time.Time) (*statement, error) {
	chain, err := dsig.Verify(document, z.signatures)
	if err != nil {
		return nil, err
	}
	if len(chain) > 1 {
		return nil, faultf(am.CredentialInvalid, "delegated credentials are not accepted yet; present the slice authority's own")
	}
	signed := chain[0]
	c, err := readContent(signed)
	if err != nil {
		return nil, err
	}
	if !now.Before(c.expires) {
		return nil, faultf(am.CredentialExpired, "expired %s", c.expires.Format(time.RFC3339))
	}
	owner, target := c.owner[0], c.target[0]
	if err := sameName("owner", c.ownerURN, owner); err != nil {
		return nil, err
	}
	if err := sameName("target", c.targetURN, target); err != nil {
		return nil, err
	}
	if err := z.maySign(signed.Signer, target); err != nil {
		return nil, err
	}
	s := &statement{owner: owner.URN, target: target.URN, privileges: c.privileges, since: now, until: c.expires, sha1: signed.SHA1}
	others := slices.Concat([]*cert.Certificate{signed.Signer}, signed.Others, c.target[1:], c.owner[1:], beside)
	for _, part := range []struct {
		role string
		leaf *cert.Certificate
	}{{"signer", signed.Signer}, {"target", target}, {"owner", owner}} {
		chain, err := cert.Verify(part.leaf, others, t.anchors, z.certificates, now)
		if err != nil {
			return nil, faultf(detailOf(err), "its %s is not accepted: %v", part.role, err)
		}
		s.until = earlier(s.until, chain.Expires())
		s.issuers = chain[1:] // of the last one, the owner
	}
	return s, nil
}

// sameName checks the name that is written beside a certificate.
func sameName(role, written string, c *cert.Certificate) error {
	if err := c.NameErr(); err != nil {
		return faultf(am.CredentialInvalid, "the certificate of its %s has %v", role, err)
	}
	if c.URN.IsZero() {
		return faultf(am.CredentialInvalid, "the certificate of its %s holds no URN", role)
	}
	if written == "" {
		return nil
	}
	if u, err := urn.Parse(written); err != nil || !u.Equal(c.URN) {
		return faultf(am.CredentialMismatch, "its %s_urn is %.100q, but the certificate is that of %s", role, written, c.URN)
	}
	return nil
}

// maySign checks that the signer is an authority that speaks for the target.
// That its certificate is genuine is checked elsewhere.
func (z *Authorizer) maySign(signer, target *cert.Certificate) error {
	switch {
	case signer.URN.Type != urn.Authority:
		return faultf(am.CredentialUntrusted, "it is signed by %s, which is no authority", signer.Name())
	case !urn.Covers(signer.URN.Authority, target.URN.Authority):
		return faultf(am.CredentialUntrusted, "it is signed by %s, which does not speak for %s", signer.URN, target.URN)
	case !slices.Contains(z.signers, strings.ToLower(signer.URN.Name)):
		return faultf(am.CredentialUntrusted, "it is signed by %s, which is not among the authorities that sign credentials (%s)",
			signer.URN, strings.Join(z.signers, ", "))
	}
	return nil
}
