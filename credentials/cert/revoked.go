package cert

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"patchbay/am/display"
	"patchbay/am/urn"
	"patchbay/credentials/rule"
)

// RevokedAnchor is a certificate that would be an anchor if it were not revoked.
type RevokedAnchor struct {
	Anchor
	// File is the CRL or the deny list. Line is the line in the deny list; 0 for a CRL.
	File string
	Line int
}

// revoked has the revocations of one generation of trust.
type revoked struct {
	lists    []*RevocationList
	byIssuer map[string][]*RevocationList
	denied   denials
	anchors  []RevokedAnchor
	byHash   map[[sha256.Size]byte]int // certificate → index in anchors
	byName   certificatesByName        // all anchors, including revoked ones
	// anchorURNs has the URNs of all anchors, by nameAndKey.
	anchorURNs map[string][]urn.URN
	// unanchored has the entries with a serial number of an issuer that is not an anchor,
	// by unanchoredKey.
	unanchored map[string]Denial
}

// certificatesByName is keyed by the subject's name.
type certificatesByName map[string][]*Certificate

func byName(anchors []Anchor) certificatesByName {
	n := certificatesByName{}
	for _, a := range anchors {
		key := nameKey(a.Certificate.RawSubject)
		n[key] = append(n[key], a.Certificate)
	}
	return n
}

func (n certificatesByName) possibleIssuers(c *Certificate) []*Certificate {
	return n[nameKey(c.RawIssuer)]
}

func (n certificatesByName) signersOf(l *RevocationList) (signers []*Certificate) {
	for _, c := range n[l.issuerKey] {
		if l.isSignedBy(c) {
			signers = append(signers, c)
		}
	}
	return signers
}

// signatureProblem returns a text if the issuer that the list names is known but has not
// signed the list, else "".
func (n certificatesByName) signatureProblem(l *RevocationList) string {
	claimed := n[l.issuerKey]
	if len(claimed) == 0 || len(n.signersOf(l)) > 0 {
		return ""
	}
	return fmt.Sprintf("the CRL of %s is not used: the key of %s has not signed it; get a new one from that authority, or add the authority's new certificate to the folder", display.Cut(l.Issuer(), 100), claimed[0].Name())
}

// newRevoked indexes the revocations, and finds the anchors that they revoke.
func newRevoked(anchors []Anchor, lists []*RevocationList, denied []Denial) revoked {
	r := revoked{
		lists: lists, byIssuer: map[string][]*RevocationList{}, denied: newDenials(denied),
		byHash: map[[sha256.Size]byte]int{}, byName: byName(anchors), anchorURNs: map[string][]urn.URN{}, unanchored: map[string]Denial{},
	}
	isAnchorURN := map[string]bool{}
	for _, a := range anchors {
		if u := a.Certificate.URN; !u.IsZero() {
			key := nameAndKey(a.Certificate)
			r.anchorURNs[key] = append(r.anchorURNs[key], u)
			isAnchorURN[u.Key()] = true
		}
	}
	for _, d := range r.denied {
		if !d.issuer.IsZero() && !isAnchorURN[d.issuer.Key()] {
			r.unanchored[unanchoredKey(*d.serial, d.issuer)] = d
		}
	}
	for _, l := range lists {
		r.byIssuer[l.issuerKey] = append(r.byIssuer[l.issuerKey], l)
	}
	for _, a := range anchors {
		if file, line, ok := r.findAnchor(a.Certificate); ok {
			r.addRevokedAnchor(a, file, line)
		}
	}
	// An anchor that a denied anchor issued is denied, too. A CRL (line 0) revokes no more than it lists.
	for again := len(r.denied) > 0; again; {
		again = false
		for _, a := range anchors {
			for _, issuer := range r.byName.possibleIssuers(a.Certificate) {
				i, isRevoked := r.byHash[issuer.hash]
				if _, done := r.byHash[a.Certificate.hash]; done || !isRevoked || r.anchors[i].Line == 0 || !hasIssued(issuer, a.Certificate) {
					continue
				}
				r.addRevokedAnchor(a, r.anchors[i].File, r.anchors[i].Line)
				again = true
			}
		}
	}
	return r
}

func hasIssued(issuer, c *Certificate) bool {
	return CheckSignature(issuer.PublicKey, c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

func (r *revoked) addRevokedAnchor(a Anchor, file string, line int) {
	r.byHash[a.Certificate.hash] = len(r.anchors)
	r.anchors = append(r.anchors, RevokedAnchor{a, file, line})
}

// find reports whether c is revoked. The line is 0 for a CRL. The issuer is nil if unknown.
// Otherwise, the caller must verify that the issuer signed c.
func (r *revoked) find(c, issuer *Certificate) (file string, line int, ok bool) {
	issuerName := nameKey(c.RawIssuer)
	if d, ok := r.findDenial(c, issuerName, issuer); ok {
		return d.File, d.Line, true
	}
	if issuer == nil {
		return "", 0, false
	}
	for _, l := range r.byIssuer[issuerName] {
		if l.revokes(c, issuer) {
			return l.File, 0, true
		}
	}
	return "", 0, false
}

// findDenial returns the entry of the deny list for c. The parameter issuerName is the key of
// the issuer's name in c; the issuer is nil if unknown. A client can choose among an issuer's
// certificates with the same key and different URNs. So findDenial tries the URNs of all
// anchors with the issuer's name and key.
func (r *revoked) findDenial(c *Certificate, issuerName string, issuer *Certificate) (Denial, bool) {
	if len(r.denied) == 0 {
		return Denial{}, false
	}
	var urns []urn.URN
	if issuer != nil {
		urns = r.anchorURNs[nameAndKey(issuer)]
		if !issuer.URN.IsZero() {
			urns = append(slices.Clip(urns), issuer.URN)
		}
	}
	if d, ok := r.denied.find(c, issuerName, issuer, urns); ok {
		return d, true
	}
	return r.findUnanchoredDenial(c, issuer)
}

// findUnanchoredDenial returns the entry for c with another URN of the same authority, if
// neither the entry's issuer nor the issuer of c is an anchor.
func (r *revoked) findUnanchoredDenial(c, issuer *Certificate) (Denial, bool) {
	if issuer == nil || issuer.URN.IsZero() || len(r.anchorURNs[nameAndKey(issuer)]) > 0 {
		return Denial{}, false
	}
	d, ok := r.unanchored[unanchoredKey(serialKey(c), issuer.URN)]
	return d, ok
}

// unanchoredKey returns a key of revoked.unanchored: the issuer's authority and the serial number.
func unanchoredKey(serial string, issuer urn.URN) string {
	return urn.URN{Authority: issuer.Authority, Type: urn.Authority, Name: hex.EncodeToString([]byte(serial))}.Key()
}

// nameAndKey joins subject and key.
func nameAndKey(c *Certificate) string {
	return nameKey(c.RawSubject) + string(c.RawSubjectPublicKeyInfo)
}

// findAnchor is like find, for an anchor, whose issuer is unknown. It tries every anchor
// that has the issuer's name and whose key verifies the signature.
func (r *revoked) findAnchor(c *Certificate) (file string, line int, ok bool) {
	if file, line, ok := r.find(c, nil); ok {
		return file, line, true
	}
	tried := map[string]bool{}
	for _, issuer := range r.byName.possibleIssuers(c) {
		key := string(issuer.RawSubjectPublicKeyInfo)
		if tried[key] {
			continue
		}
		tried[key] = true
		if file, line, ok := r.find(c, issuer); ok && hasIssued(issuer, c) {
			return file, line, true
		}
	}
	return "", 0, false
}

// checkChain checks the certificates below the anchor of a complete chain.
func (r *revoked) checkChain(path Chain) *Error {
	if len(r.byIssuer) == 0 && len(r.denied) == 0 {
		return nil
	}
	for i := len(path) - 2; i >= 0; i-- {
		if file, line, ok := r.find(path[i], path[i+1]); ok {
			return refuseRevoked(path[i], file, line)
		}
	}
	return nil
}

func (r *revoked) checkAnchor(c *Certificate) *Error {
	i, ok := r.byHash[c.hash]
	if !ok {
		return nil
	}
	return refuseRevoked(c, r.anchors[i].File, r.anchors[i].Line)
}

// checkIssuers checks every anchor that could have issued c.
func (r *revoked) checkIssuers(c *Certificate) *Error {
	for _, issuer := range r.byName.possibleIssuers(c) {
		if e := r.checkAnchor(issuer); e != nil {
			return e
		}
	}
	return nil
}

// refuseRevoked returns the error for a certificate that a file revokes; line is 0 for a CRL. The
// text has only the base name of the file, since untrusted callers can read the text.
func refuseRevoked(c *Certificate, file string, line int) *Error {
	if line > 0 {
		return refuse(Revoked, rule.NotRevoked, c, "is refused by the operator of this server, in the list %s; ask the operator for the reason", filepath.Base(file))
	}
	return refuse(Revoked, rule.NotRevoked, c, "is revoked by its issuer, in the list %s; ask it for a new certificate", filepath.Base(file))
}

// lines returns a line for each CRL, denial and revoked anchor, in any order: the caller computes the generation's
// identifier from them.
func (r *revoked) lines() (lines []string) {
	for _, l := range r.lists {
		lines = append(lines, "list "+hex.EncodeToString(l.hash[:])+"\n")
	}
	for key := range r.denied {
		lines = append(lines, "denied "+key+"\n")
	}
	for _, s := range r.anchors {
		lines = append(lines, "revoked "+s.Certificate.Fingerprint()+"\n")
	}
	return lines
}

// RevocationLists returns the CRLs in force, in the order they were read.
func (a *Anchors) RevocationLists() []*RevocationList { return slices.Clone(a.revoked.lists) }

// Denials returns the entries of the deny list that are in force.
func (a *Anchors) Denials() []Denial { return a.revoked.denied.sorted() }

// RevokedAnchors returns the certificates that are no anchors because they are revoked.
func (a *Anchors) RevokedAnchors() []RevokedAnchor { return slices.Clone(a.revoked.anchors) }

// SignersOf returns the anchors, including revoked anchors, that signed a list. If there
// are none, the issuer may be an authority below an anchor. Clients send the certificate of
// such an authority.
func (a *Anchors) SignersOf(l *RevocationList) []*Certificate { return a.revoked.byName.signersOf(l) }

// Denies reports whether the deny list has the URN of u, which is a user or a slice, or of its authority or one above it.
// Entries with a fingerprint or a serial number apply only to certificates.
func (a *Anchors) Denies(u urn.URN) bool {
	if _, ok := a.revoked.denied[Denial{urn: u}.key()]; ok {
		return true
	}
	of := urn.Lower(u.Authority)
	for _, d := range a.revoked.denied {
		if d.urn.Type != urn.Authority {
			continue
		}
		if rest, ok := strings.CutPrefix(of, urn.Lower(d.urn.Authority)); ok && (rest == "" || rest[0] == ':') {
			return true
		}
	}
	return false
}

// Effect describes the effect of an entry of the deny list.
type Effect struct {
	// RevokedAnchors are the anchors that the entry revokes.
	RevokedAnchors []RevokedAnchor
	// Anchors are the anchors below which a denied certificate can exist: all anchors for a
	// fingerprint. If Anchors and RevokedAnchors are empty, the entry has no effect yet.
	Anchors []Anchor
	// IsIntermediate means that the entry has the URN of an authority, and no anchor has
	// that URN. The entry then applies to an authority with that URN below an anchor. It
	// does not apply to certificates that an anchor has issued.
	IsIntermediate bool
}

// Effect returns the effect of an entry of the deny list.
func (a *Anchors) Effect(d Denial) (r Effect) {
	for _, s := range a.revoked.anchors {
		if s.Line == d.Line && s.File == d.File {
			r.RevokedAnchors = append(r.RevokedAnchors, s)
		}
	}
	authority := d.issuer
	if d.urn.Type == urn.Authority {
		authority = d.urn
	}
	r.IsIntermediate = !authority.IsZero() && len(r.RevokedAnchors) == 0
	named := cmp.Or(d.urn, d.issuer)
	for _, anchor := range a.list {
		c := anchor.Certificate
		r.IsIntermediate = r.IsIntermediate && !c.URN.Equal(authority)
		coversURN := named.IsZero() || isCovered(anchor.Covers(), named.Authority)
		hasIssuerName := d.dn == "" || nameKey(c.RawSubject) == d.dn
		if coversURN && hasIssuerName {
			r.Anchors = append(r.Anchors, anchor)
		}
	}
	return r
}
