package credentials

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
	"patchbay/credentials/rule"
)

// Limits of one call.
const (
	// MaxCredentials is the number of credentials that one call may present.
	MaxCredentials = 32
	// MaxBytes is the maximum size of a credential in bytes.
	MaxBytes = 1 << 20
)

// DefaultCacheSize replaces a zero Config.CacheSize.
const DefaultCacheSize = 4096

// Config is the operator's settings. The zero value is the strictest.
type Config struct {
	// SHA1Signatures accepts credentials signed with SHA-1, which gcf and old Emulab
	// sites still issue.
	SHA1Signatures bool
	// SHA1Certificates accepts certificates signed with SHA-1.
	SHA1Certificates bool
	// MinRSABits is the minimum size of an RSA key; 0 means 2048. Keys of less than 1024
	// bits are never accepted.
	MinRSABits int
	// Signers are the names of further authorities that may sign credentials, besides sa,
	// ma, ca, ch and root. A name is the last part of an authority's URN. Case does not
	// matter.
	Signers []string
	// Speakers are the URNs of the tools, authorities and users that may speak for a user
	// with a credential signed by that user. If Speakers is empty, every tool and authority
	// under the anchors may do so.
	Speakers []string
	// CacheSize is the maximum number of entries in each of two caches, of credentials and
	// of callers; 0 means DefaultCacheSize.
	CacheSize int
}

// Validate returns an error if a speaker is not the URN of a tool, an authority or a user.
func (c Config) Validate() error {
	for _, name := range c.Speakers {
		u, err := urn.Parse(name)
		switch {
		case err != nil:
			return fmt.Errorf("speaker %.100q: %w; write the URN of a tool, such as urn:publicid:IDN+example.org+tool+portal", name, err)
		case u.Type != urn.Tool && u.Type != urn.Authority && u.Type != urn.User:
			return fmt.Errorf("speaker %s is not a tool, an authority or a user, and only these can speak for users", u)
		}
	}
	return nil
}

// Authorizer decides which rights callers have. It is safe for concurrent use.
type Authorizer struct {
	certificates cert.Options
	signatures   dsig.Options
	signers      []string
	speakers     map[string]bool // by urn.URN.Key; nil if none is listed
	cacheSize    int
	trust        atomic.Pointer[trust]
}

// trust is one generation of anchors with its own caches. So no cached result is used under
// other anchors.
type trust struct {
	anchors      *cert.Anchors
	statements   *cert.Cache[*statement]
	callers      *cert.Cache[cachedCaller]
	failedChains *cert.Cache[time.Time] // the time of the last failed IdentifyCheaply of a chain
}

// New returns an Authorizer that trusts the anchors.
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
	if len(c.Speakers) > 0 {
		z.speakers = map[string]bool{}
	}
	for _, name := range c.Speakers {
		if u, err := urn.Parse(name); err == nil {
			z.speakers[u.Key()] = true
		}
	}
	if z.cacheSize <= 0 {
		z.cacheSize = DefaultCacheSize
	}
	z.SetAnchors(a)
	return z
}

// SetAnchors replaces the anchors. If the new anchors differ, it drops all cached results.
func (z *Authorizer) SetAnchors(a *cert.Anchors) {
	if t := z.trust.Load(); t != nil && t.anchors.Generation() == a.Generation() {
		return
	}
	z.trust.Store(&trust{
		anchors: a, statements: cert.NewCache[*statement](z.cacheSize),
		callers: cert.NewCache[cachedCaller](z.cacheSize), failedChains: cert.NewCache[time.Time](z.cacheSize),
	})
}

// Authorize checks whether the credentials give the caller a right. The parameter
// speakingFor is the option geni_speaking_for, or "". If it names another user, a
// credential must let the caller speak for that user, and the credentials must give the
// right to that user. Authorize accepts credentials for any target; Grant.Over checks the
// target. The error is a *DeniedError.
func (z *Authorizer) Authorize(c Caller, p []Presented, speakingFor string, r Right, now time.Time) (Grant, error) {
	t := z.trust.Load()
	c, err := z.checkedCaller(t, c, p, now)
	if err != nil {
		return Grant{}, err
	}
	_, known := allowedBy[r]
	switch {
	case !known:
		return Grant{}, deny(rule.Presented, am.NoDetail, "there is no right %.40q", string(r))
	case len(p) == 0:
		return Grant{}, deny(rule.Presented, am.MissingArgs, "no credential was presented; get one from your slice authority")
	case len(p) > MaxCredentials:
		return Grant{}, deny(rule.CredentialCount, am.CredentialInvalid, "%d credentials were presented, at most %d are allowed", len(p), MaxCredentials)
	}
	user, err := z.speakingFor(c, speakingFor)
	if err != nil {
		return Grant{}, err
	}
	x := examination{t, cert.NewBudget(callBudget), now}
	list := z.examineAll(x, p, c.issuers())
	g := Grant{caller: c.URN, right: r, expires: c.Chain.Expires()}
	if !user.IsZero() {
		if err := g.setSpeaker(user, c, list); err != nil {
			return Grant{}, err
		}
		z.examineAgain(x, p, list, c.issuers(), g.speaksFor.issuers)
	}
	return g.addCredentials(list)
}

// checkedCaller returns the caller with a chain that is verified under the anchors of t. It
// identifies the caller again if the anchors have changed since, and completes an incomplete
// chain with certificates from the credentials. It fails if the caller is not accepted.
func (z *Authorizer) checkedCaller(t *trust, c Caller, p []Presented, now time.Time) (Caller, error) {
	if c.generation != t.anchors.Generation() && len(c.rawChain) > 0 {
		c = z.identify(t, c.rawChain, untrustedBudget, now)
	}
	c = z.completeChain(t, c, p, now)
	return c, checkCaller(c, now)
}

// SpeakFor returns the user for whom the caller acts: the caller themselves if speakingFor is
// empty. Otherwise one of the credentials must let the caller speak for the user whom speakingFor
// names. Other credentials are ignored. The error is a *DeniedError.
func (z *Authorizer) SpeakFor(c Caller, p []Presented, speakingFor string, now time.Time) (urn.URN, error) {
	t := z.trust.Load()
	c, err := z.checkedCaller(t, c, p, now)
	if err != nil {
		return urn.URN{}, err
	}
	if len(p) > MaxCredentials {
		return urn.URN{}, deny(rule.CredentialCount, am.CredentialInvalid, "%d credentials were presented, at most %d are allowed", len(p), MaxCredentials)
	}
	user, err := z.speakingFor(c, speakingFor)
	if err != nil || user.IsZero() {
		return c.URN, err
	}
	g := Grant{caller: c.URN}
	err = g.setSpeaker(user, c, z.examineAll(examination{t, cert.NewBudget(callBudget), now}, p, c.issuers()))
	return g.caller, err
}

// addCredentials returns the grant with the credentials that give the right, and the reasons of
// the others. If no credential gives the right, the error has the reasons.
func (g Grant) addCredentials(list []examined) (Grant, error) {
	for i, e := range list {
		err := e.err
		if err == nil {
			err = e.checkCall(g)
		}
		switch {
		case err == nil && e.permission == nil:
			g.credentials = append(g.credentials, usableCredential{number: i + 1, statement: e.statement})
		case err != nil:
			g.reasons = append(g.reasons, reasonOf(i+1, err))
		}
	}
	switch {
	case len(g.credentials) > 0:
		return g, nil
	case len(g.reasons) == 0:
		return Grant{}, deny(rule.Presented, am.CredentialInvalid, "only a speaks-for credential was presented; present also a credential that gives %s a right", g.caller)
	}
	return Grant{}, &DeniedError{Reasons: g.reasons}
}

// checkCaller refuses a caller with an error or without identification. It also refuses a
// caller whose chain has expired since the identification.
func checkCaller(c Caller, now time.Time) error {
	switch {
	case c.Err != nil:
		return &DeniedError{[]Reason{reasonOf(0, c.Err)}}
	case len(c.Chain) == 0 || c.URN.IsZero() || c.Chain[0].URN != c.URN:
		return deny(rule.Presented, am.CredentialInvalid, "the caller was not identified")
	case now.After(c.Chain.Expires()):
		return deny(rule.CertificateExpired, am.CredentialExpired, "your certificate, or one above it, expired %s", c.Chain.Expires().UTC().Format(time.RFC3339))
	}
	return nil
}

// checkCall checks the owner and the privileges for this call. The results depend on the
// call, so they are not cached.
func (s *statement) checkCall(g Grant) error {
	switch {
	case s.permission != nil && g.speaksFor == nil:
		return refuse(rule.CallerIsOwner, am.CredentialMismatch, "it lets a tool speak for %s, but the option geni_speaking_for does not name that user", s.permission.user)
	case s.permission != nil:
		return nil // speaks-for credentials carry no right of their own
	case !s.owner.Equal(g.caller) && !g.speaker.IsZero():
		return refuse(rule.CallerIsOwner, am.CredentialMismatch, "it belongs to %s, but geni_speaking_for names %s; present a credential of that user", s.owner, g.caller)
	case !s.owner.Equal(g.caller) && g.caller.Type == urn.Tool:
		return refuse(rule.CallerIsOwner, am.CredentialMismatch, "it belongs to %s, but %s is calling; have it delegated to the tool, or %s", s.owner, g.caller, howToSpeak)
	case !s.owner.Equal(g.caller):
		return refuse(rule.CallerIsOwner, am.CredentialMismatch, "it belongs to %s, but %s is calling", s.owner, g.caller)
	case g.right.isOverSlice() && !g.right.isAllowedBy(s.privilegeNames()):
		return refuse(rule.Privilege, am.NoDetail, "its privileges (%.100q) do not allow %s; one of these is needed: %s",
			strings.Join(s.privilegeNames(), ", "), g.right, strings.Join(allowedBy[g.right], ", "))
	}
	return nil
}
