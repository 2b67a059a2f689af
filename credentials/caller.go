package credentials

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/rule"
)

// Caller is who is at the other end of a connection. Only Identify makes one
// that Authorize accepts.
type Caller struct {
	// URN is the name of the user, tool or authority; zero when Err is not nil.
	URN urn.URN
	// Chain is the verified chain of its certificate.
	Chain cert.Chain
	// Err says why nobody vouches for the certificate, in one line for the user.
	// Such a caller may ask for nothing that needs credentials.
	Err error

	// leaf is the certificate of a user or tool that could not be traced to an anchor
	// over the others that were shown; nil when that was not the trouble.
	leaf   *cert.Certificate
	others []*cert.Certificate

	// generation is that of the anchors it was identified under, shown what it was
	// identified by.
	generation string
	shown      [][]byte
}

// issuers are the certificates that came with the caller's own.
func (c Caller) issuers() []*cert.Certificate {
	if len(c.Chain) > 0 {
		return c.Chain[1:]
	}
	return c.others
}

// How many credentials, and bytes of them, are searched for a stranger's issuers.
const (
	maxBorrowed      = 4
	maxBorrowedBytes = 256 << 10
)

// complete vouches for a caller whose client sent less than its chain, when
// verified credentials of that very owner hold the certificates in between. It
// works for strangers, so it looks at few.
func (z *Authorizer) complete(t *trust, c Caller, p []Presented, now time.Time) Caller {
	if c.leaf == nil {
		return c
	}
	x := examination{t, cert.NewBudget(strangerBudget), now}
	options := z.certificates
	options.Budget = x.budget
	size := 0
	for _, presented := range p[:min(len(p), maxBorrowed)] {
		if size += len(presented.Text); size > maxBorrowedBytes {
			break
		}
		s, err := z.examine(x, presented, c.issuers())
		if err != nil || !s.owner.Equal(c.leaf.URN) {
			continue
		}
		if chain, err := cert.Verify(c.leaf, slices.Concat(c.others, s.issuers), t.anchors, options, now); err == nil {
			return Caller{URN: c.leaf.URN, Chain: chain}
		}
	}
	return c
}

const tooMuchShown = "the client showed more than %d certificates or %d bytes"

// Identify judges the certificates a TLS peer has shown, in DER, its own first.
// It is for any bytes: what cannot be vouched for is in Caller.Err.
func (z *Authorizer) Identify(rawChain [][]byte, now time.Time) Caller {
	t := z.trust.Load()
	if err := checkShown(rawChain); err != nil {
		return Caller{Err: err}
	}
	key := chainKey(rawChain)
	c, ok := t.known(key, now)
	if !ok {
		c = z.meet(t, key, rawChain, strangerBudget, now)
	}
	c.generation, c.shown = t.anchors.Generation(), rawChain
	return c
}

// glanceAgain is for how long Glance does not look again at a chain that it did
// not know.
const glanceAgain = time.Minute

// Glance is Identify for those who count callers before they serve them: it
// costs strangers little, for it looks at few certificates, and but once a minute
// at the same. Some whom Identify would know it knows only after Identify.
func (z *Authorizer) Glance(rawChain [][]byte, now time.Time) (urn.URN, bool) {
	t := z.trust.Load()
	if checkShown(rawChain) != nil {
		return urn.URN{}, false
	}
	key := chainKey(rawChain)
	c, ok := t.known(key, now)
	if ok {
		return c.URN, true
	}
	if at, ok := t.glanced.Get(key); ok && !now.Before(at) && now.Sub(at) < glanceAgain {
		return urn.URN{}, false
	}
	if c = z.meet(t, key, rawChain, glanceBudget, now); c.Err != nil {
		t.glanced.Put(key, now)
	}
	return c.URN, c.Err == nil
}

// checkShown refuses what is too much to be looked at, and nothing.
func checkShown(rawChain [][]byte) error {
	size := 0
	for _, raw := range rawChain {
		size += len(raw)
	}
	switch {
	case len(rawChain) == 0:
		return refuse(rule.Presented, am.CredentialInvalid, "no client certificate was shown; use the one your authority issued to you")
	case rule.CertificateCount.Broken(len(rawChain) > cert.MaxCertificates):
		return refuse(rule.CertificateCount, am.CredentialInvalid, tooMuchShown, cert.MaxCertificates, cert.MaxBytes)
	case rule.CertificateSize.Broken(size > cert.MaxBytes):
		return refuse(rule.CertificateSize, am.CredentialInvalid, tooMuchShown, cert.MaxCertificates, cert.MaxBytes)
	}
	return nil
}

// known is the caller of a chain that was vouched for, and still is.
func (t *trust) known(key [sha256.Size]byte, now time.Time) (Caller, bool) {
	c, ok := t.callers.Get(key)
	return c.Caller, ok && !now.Before(c.since) && now.Before(c.Chain.Expires())
}

// meet identifies a caller who is not known, and remembers one vouched for.
func (z *Authorizer) meet(t *trust, key [sha256.Size]byte, rawChain [][]byte, budget int, now time.Time) Caller {
	c := z.identify(t, rawChain, budget, now)
	if c.Err == nil {
		t.callers.Put(key, knownCaller{Caller: c, since: now})
	}
	return c
}

// knownCaller is a caller with the time it was identified.
type knownCaller struct {
	Caller
	since time.Time
}

func (z *Authorizer) identify(t *trust, rawChain [][]byte, budget int, now time.Time) Caller {
	leaf, err := cert.Parse(rawChain[0])
	if err != nil {
		return Caller{Err: refuse(rule.Of(err), am.CredentialInvalid, "the client certificate cannot be read: %v", err)}
	}
	var others []*cert.Certificate
	for _, raw := range rawChain[1:] {
		if c, err := cert.Parse(raw); err == nil {
			others = append(others, c)
		}
	}
	options := z.certificates
	options.Budget = cert.NewBudget(budget)
	chain, err := cert.Verify(leaf, others, t.anchors, options, now)
	if err != nil {
		c := Caller{Err: refuse(rule.Of(err), detailOf(err), "your certificate is not accepted: %v", err)}
		if e, ok := errors.AsType[*cert.Error](err); ok && e.Reason == cert.Untrusted && (leaf.URN.Type == urn.User || leaf.URN.Type == urn.Tool) {
			c.leaf, c.others = leaf, others
		}
		return c
	}
	if rule.CallerKind.Broken(leaf.URN.Type != urn.User && leaf.URN.Type != urn.Tool && leaf.URN.Type != urn.Authority) {
		return Caller{Err: refuse(rule.CallerKind, am.CredentialInvalid, "%s is neither a user nor a tool; connect with the certificate of a user", leaf.URN)}
	}
	return Caller{URN: leaf.URN, Chain: chain}
}

func chainKey(rawChain [][]byte) [sha256.Size]byte {
	h := sha256.New()
	var n [8]byte
	for _, raw := range rawChain {
		binary.BigEndian.PutUint64(n[:], uint64(len(raw)))
		h.Write(n[:])
		h.Write(raw)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
