package cert

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"patchbay/am/urn"
)

// Anchor is one certificate that the operator trusts.
type Anchor struct {
	Certificate *Certificate
	// Authorities are covered in addition to the authority in the anchor's URN.
	Authorities []string
	// File is the file of the certificate; "" if there is none.
	File string
}

// Covers returns the authorities that the anchor may certify, each with its subordinate
// authorities.
func (a Anchor) Covers() []string {
	var list []string
	if a.Certificate.URN.Type == urn.Authority {
		list = append(list, a.Certificate.URN.Authority)
	}
	return append(list, a.Authorities...)
}

// Anchors is one generation of trust: anchors with revocations. It is immutable and safe
// for concurrent use. A generation uses no chain that another generation has verified.
type Anchors struct {
	list       []Anchor
	byHash     map[[sha256.Size]byte]int
	bySubject  map[string][]int
	revoked    revoked
	generation string
	verified   *Cache[verified]
	shared     *Cache[*Certificate] // certificates of the verified chains
}

// verified is a chain that may be used from the verification until the first expiry of a
// certificate.
type verified struct {
	chain      Chain
	from, ends time.Time
}

// maxCached limits each of two caches: of verified chains, and of certificates.
const maxCached = 4096

// store lets cached chains share one copy of a certificate.
func (a *Anchors) store(key [sha256.Size]byte, chain Chain, now time.Time) {
	for i, c := range chain {
		if known, ok := a.shared.Get(c.hash); ok {
			chain[i] = known
		} else {
			a.shared.Put(c.hash, c)
		}
	}
	a.verified.Put(key, verified{chain, now, chain.Expires()})
}

// NewAnchors returns a generation without revocations. Anchors with the same certificate
// become one anchor that covers the authorities of all.
func NewAnchors(list ...Anchor) *Anchors { return newAnchors(list, nil, nil) }

func newAnchors(list []Anchor, lists []*RevocationList, denied []Denial) *Anchors {
	a := &Anchors{byHash: map[[sha256.Size]byte]int{}, bySubject: map[string][]int{}, verified: NewCache[verified](maxCached), shared: NewCache[*Certificate](maxCached)}
	var distinct []Anchor
	seen := map[[sha256.Size]byte]int{}
	for _, anchor := range list {
		if i, ok := seen[anchor.Certificate.hash]; ok {
			distinct[i].Authorities = slices.Concat(distinct[i].Authorities, anchor.Authorities)
			continue
		}
		seen[anchor.Certificate.hash] = len(distinct)
		distinct = append(distinct, anchor)
	}
	a.revoked = newRevoked(distinct, lists, denied)
	for _, anchor := range distinct {
		if _, ok := a.revoked.byHash[anchor.Certificate.hash]; ok {
			continue
		}
		i := len(a.list)
		a.list = append(a.list, anchor)
		a.byHash[anchor.Certificate.hash] = i
		subject := string(anchor.Certificate.RawSubject)
		a.bySubject[subject] = append(a.bySubject[subject], i)
	}
	a.generation = a.fingerprint()
	return a
}

// fingerprint returns the identifier of the generation. It does not depend on the order or the
// names of files.
func (a *Anchors) fingerprint() string {
	var lines []string
	for _, anchor := range a.list {
		names := slices.Clone(anchor.Authorities)
		for j := range names {
			names[j] = strings.ToLower(names[j])
		}
		slices.Sort(names)
		lines = append(lines, anchor.Certificate.Fingerprint()+" "+strings.Join(slices.Compact(names), " ")+"\n")
	}
	lines = append(lines, a.revoked.lines()...)
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(lines), "")))
	return hex.EncodeToString(sum[:])
}

// Generation returns an identifier, equal for equal anchors and revocations.
func (a *Anchors) Generation() string { return a.generation }

// List returns the anchors that are not revoked, in the order they were read.
func (a *Anchors) List() []Anchor { return slices.Clone(a.list) }

func (a *Anchors) find(c *Certificate) (Anchor, bool) {
	i, ok := a.byHash[c.hash]
	if !ok {
		return Anchor{}, false
	}
	return a.list[i], true
}
