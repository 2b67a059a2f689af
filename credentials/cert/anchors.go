package cert

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"patchbay/am/urn"
)

// Anchor is one certificate the operator trusts as such.
type Anchor struct {
	Certificate *Certificate
	// Authorities are those it may speak for beside the one in its own URN.
	Authorities []string
	// File is where it came from; empty when it came from no file.
	File string
}

// Covers lists the authorities the anchor vouches for; each covers the
// authorities below it too.
func (a Anchor) Covers() []string {
	var list []string
	if a.Certificate.URN.Type == urn.Authority {
		list = append(list, a.Certificate.URN.Authority)
	}
	return append(list, a.Authorities...)
}

// Anchors is one generation of trust, with what is revoked in it: immutable,
// safe for concurrent use. It remembers chains it has verified, so those never
// outlive the generation.
type Anchors struct {
	list       []Anchor
	byHash     map[[sha256.Size]byte]int
	bySubject  map[string][]int
	revoked    revoked
	generation string
	verified   *Memory[verified]
	shared     *Memory[*Certificate] // of the verified chains
}

// verified is a chain with the time in which every certificate of it is known
// to be valid: since it was verified, until the first one expires.
type verified struct {
	chain      Chain
	from, ends time.Time
}

// remembered is how many verified chains, and certificates of them, are kept.
const remembered = 4096

// remember keeps a verified chain. However often a certificate was read, and
// however many chains it is in, it is kept once.
func (a *Anchors) remember(key [sha256.Size]byte, chain Chain, now time.Time) {
	for i, c := range chain {
		if known, ok := a.shared.Get(c.hash); ok {
			chain[i] = known
		} else {
			a.shared.Put(c.hash, c)
		}
	}
	a.verified.Put(key, verified{chain, now, chain.Expires()})
}

// NewAnchors trusts the given anchors, and nothing is revoked. The same
// certificate given twice is one anchor that covers what both cover.
func NewAnchors(list ...Anchor) *Anchors { return newAnchors(list, nil, nil) }

func newAnchors(list []Anchor, lists []*RevocationList, denied []Denial) *Anchors {
	a := &Anchors{byHash: map[[sha256.Size]byte]int{}, bySubject: map[string][]int{}, verified: NewMemory[verified](remembered), shared: NewMemory[*Certificate](remembered)}
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

// fingerprint depends on the anchors, what they cover and what is revoked, not
// on the order or the names of files.
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

// Generation names this state of trust: equal sets of anchors and of what is
// revoked have equal generations.
func (a *Anchors) Generation() string { return a.generation }

// List gives the anchors, in the order they were read, without those that are
// revoked.
func (a *Anchors) List() []Anchor { return slices.Clone(a.list) }

func (a *Anchors) find(c *Certificate) (Anchor, bool) {
	i, ok := a.byHash[c.hash]
	if !ok {
		return Anchor{}, false
	}
	return a.list[i], true
}
