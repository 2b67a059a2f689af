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

// Caller is the peer of a connection. Authorize accepts only values made by Identify.
type Caller struct {
	// URN is the name of the user, tool or authority; zero when Err is not nil.
	URN urn.URN
	// Chain is the verified chain of its certificate.
	Chain cert.Chain
	// Err says, in one line for the user, why the certificate is not accepted. Such a
	// caller may only use methods that need no credentials.
	Err error

	// leaf is the certificate of a user or tool that has no chain to an anchor with
	// the certificates shown; nil after any other error.
	leaf   *cert.Certificate
	others []*cert.Certificate

	// generation identifies the anchors used; shown is the chain as received.
	generation string
	shown      [][]byte
}

// issuers returns the certificates that came with the caller's own.
func (c Caller) issuers() []*cert.Certificate {
	if len(c.Chain) > 0 {
		return c.Chain[1:]
	}
	return c.others
}

// Limits of the search for missing issuers of a caller in credentials.
const (
	maxBorrowed      = 4
	maxBorrowedBytes = 256 << 10
)

// complete identifies a caller whose client sent an incomplete chain, if verified
// credentials of the same owner contain the missing certificates. It examines only a
// few credentials, since it works for callers without a trusted certificate.
func (z *Authorizer) complete(t *trust, c Caller, p []Presented, now time.Time) Caller {
	if c.leaf == nil {
		return c
	}
	x := examination{t, cert.NewBudget(untrustedBudget), now}
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

// Identify verifies the certificates of a TLS peer, in DER, its own first. It accepts
// any bytes; an error is in Caller.Err.
func (z *Authorizer) Identify(rawChain [][]byte, now time.Time) Caller {
	t := z.trust.Load()
	if err := checkShown(rawChain); err != nil {
		return Caller{Err: err}
	}
	key := chainKey(rawChain)
	c, ok := t.known(key, now)
	if !ok {
		c = z.identifyNew(t, key, rawChain, untrustedBudget, now)
	}
	c.generation, c.shown = t.anchors.Generation(), rawChain
	return c
}

// glanceAgain is the time in which Glance does not repeat a failed check of a chain.
const glanceAgain = time.Minute

// Glance is a cheap Identify for counting callers before they are served. It examines
// few certificates, and the same unknown chain only once a minute. Some callers are
// known to it only after Identify.
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
	if c = z.identifyNew(t, key, rawChain, glanceBudget, now); c.Err != nil {
		t.glanced.Put(key, now)
	}
	return c.URN, c.Err == nil
}

// checkShown refuses chains that are empty or too large.
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

// known returns the cached caller of a chain while it is valid.
func (t *trust) known(key [sha256.Size]byte, now time.Time) (Caller, bool) {
	c, ok := t.callers.Get(key)
	return c.Caller, ok && !now.Before(c.since) && now.Before(c.Chain.Expires())
}

// identifyNew identifies an unknown caller and caches one with a valid chain.
func (z *Authorizer) identifyNew(t *trust, key [sha256.Size]byte, rawChain [][]byte, budget int, now time.Time) Caller {
	c := z.identify(t, rawChain, budget, now)
	if c.Err == nil {
		t.callers.Put(key, knownCaller{Caller: c, since: now})
	}
	return c
}

// knownCaller is a caller with the time of its identification.
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
