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

// Caller is the peer of a connection. Authorize accepts only a Caller from Identify.
type Caller struct {
	// URN is the name of the user, tool or authority; zero when Err is not nil.
	URN urn.URN
	// Chain is the verified chain of the caller's certificate.
	Chain cert.Chain
	// Err is the reason why the certificate is not accepted, as one line for the user. A
	// caller with an error may only use methods that need no credentials.
	Err error

	// leaf is set only if a user's or tool's client sent no chain to an anchor. The field
	// others has the other certificates from that client.
	leaf   *cert.Certificate
	others []*cert.Certificate

	// generation is the generation of the anchors that identified the caller. rawChain is
	// the chain as received.
	generation string
	rawChain   [][]byte
}

// issuers returns the rest of the caller's verified chain. Without such a chain, it returns
// the other certificates from the client.
func (c Caller) issuers() []*cert.Certificate {
	if len(c.Chain) > 0 {
		return c.Chain[1:]
	}
	return c.others
}

// These limit the credentials that completeChain examines: their number, and their total
// size in bytes.
const (
	maxBorrowed      = 4
	maxBorrowedBytes = 256 << 10
)

// completeChain returns an accepted caller if the client sent an incomplete chain and verified
// credentials of the caller have the missing certificates. Otherwise it returns c. It examines only
// a few credentials, since the caller has no trusted certificate.
func (z *Authorizer) completeChain(t *trust, c Caller, p []Presented, now time.Time) Caller {
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

const chainTooLarge = "the client sent more than %d certificates or %d bytes"

// Identify identifies a TLS peer by a chain of certificates in DER, the peer's own first.
// If the chain is not accepted, Caller.Err has the reason.
func (z *Authorizer) Identify(rawChain [][]byte, now time.Time) Caller {
	t := z.trust.Load()
	if err := checkRawChain(rawChain); err != nil {
		return Caller{Err: err}
	}
	key := chainKey(rawChain)
	c, ok := t.cached(key, now)
	if !ok {
		c = z.identifyNew(t, key, rawChain, untrustedBudget, now)
	}
	c.generation, c.rawChain = t.anchors.Generation(), rawChain
	return c
}

// cheapRetry is how long IdentifyCheaply does not repeat a failed check of a chain.
const cheapRetry = time.Minute

// IdentifyCheaply returns the name of a caller, for limits that apply before a call is
// served. It makes few signature checks, so some callers are unknown until Identify has
// cached them.
func (z *Authorizer) IdentifyCheaply(rawChain [][]byte, now time.Time) (urn.URN, bool) {
	t := z.trust.Load()
	if checkRawChain(rawChain) != nil {
		return urn.URN{}, false
	}
	key := chainKey(rawChain)
	c, ok := t.cached(key, now)
	if ok {
		return c.URN, true
	}
	if at, ok := t.failedChains.Get(key); ok && !now.Before(at) && now.Sub(at) < cheapRetry {
		return urn.URN{}, false
	}
	if c = z.identifyNew(t, key, rawChain, cheapBudget, now); c.Err != nil {
		t.failedChains.Put(key, now)
	}
	return c.URN, c.Err == nil
}

// checkRawChain refuses an empty or too large chain.
func checkRawChain(rawChain [][]byte) error {
	size := 0
	for _, raw := range rawChain {
		size += len(raw)
	}
	switch {
	case len(rawChain) == 0:
		return refuse(rule.Presented, am.CredentialInvalid, "the client sent no certificate; use the one that your authority issued to you")
	case len(rawChain) > cert.MaxCertificates:
		return refuse(rule.CertificateCount, am.CredentialInvalid, chainTooLarge, cert.MaxCertificates, cert.MaxBytes)
	case size > cert.MaxBytes:
		return refuse(rule.CertificateSize, am.CredentialInvalid, chainTooLarge, cert.MaxCertificates, cert.MaxBytes)
	}
	return nil
}

// cached returns the caller of a chain from the cache. It returns false if the chain is not
// cached, or is not valid at the time now.
func (t *trust) cached(key [sha256.Size]byte, now time.Time) (Caller, bool) {
	c, ok := t.callers.Get(key)
	return c.Caller, ok && !now.Before(c.since) && now.Before(c.Chain.Expires())
}

// identifyNew identifies the caller of a chain that is not cached, with a budget of signature
// checks. It caches the caller if the chain is valid.
func (z *Authorizer) identifyNew(t *trust, key [sha256.Size]byte, rawChain [][]byte, budget int, now time.Time) Caller {
	c := z.identify(t, rawChain, budget, now)
	if c.Err == nil {
		t.callers.Put(key, cachedCaller{Caller: c, since: now})
	}
	return c
}

// cachedCaller has the time of its identification.
type cachedCaller struct {
	Caller
	since time.Time
}

// identify verifies the chain and returns its caller, without the cache. If a user's or tool's
// chain does not lead to an anchor, the result keeps the certificates for completeChain.
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
	if leaf.URN.Type != urn.User && leaf.URN.Type != urn.Tool && leaf.URN.Type != urn.Authority {
		return Caller{Err: refuse(rule.CallerKind, am.CredentialInvalid, "%s is neither a user nor a tool; connect with the certificate of a user", leaf.URN)}
	}
	return Caller{URN: leaf.URN, Chain: chain}
}

// chainKey hashes all certificates of the chain with their lengths.
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
