package cert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"

	"patchbay/am/urn"
)

// Struck is an anchor that is none, because it is revoked.
type Struck struct {
	Anchor
	// File is the CRL or the deny list that says so, Line the line of the deny
	// list; it is 0 for a CRL.
	File string
	Line int
}

// revoked is what is revoked in one generation of trust.
type revoked struct {
	lists    []*RevocationList
	byIssuer map[string][]*RevocationList
	denied   denials
	struck   []Struck
	byHash   map[[sha256.Size]byte]int // of struck
	files    named                     // all anchors, struck or not
}

// named is certificates by their subject's name.
type named map[string][]*Certificate

func byName(anchors []Anchor) named {
	n := named{}
	for _, a := range anchors {
		key := nameKey(a.Certificate.RawSubject)
		n[key] = append(n[key], a.Certificate)
	}
	return n
}

// issuersOf gives those that may have issued c, by its word.
func (n named) issuersOf(c *Certificate) []*Certificate { return n[nameKey(c.RawIssuer)] }

// makers gives those that have made a list.
func (n named) makers(l *RevocationList) (makers []*Certificate) {
	for _, c := range n[l.issuerKey] {
		if maySignLists(c) && l.signedBy(c) {
			makers = append(makers, c)
		}
	}
	return makers
}

// unmade says why a list that names one of them as its issuer is not from it;
// it is empty where all is well.
func (n named) unmade(l *RevocationList) string {
	claimed := n[l.issuerKey]
	if len(claimed) == 0 || len(n.makers(l)) > 0 {
		return ""
	}
	for _, c := range claimed {
		if l.signedBy(c) {
			return fmt.Sprintf("the CRL of %s does not count: the key usage of that certificate is not for signing CRLs; name what it revokes in the file %s", c.Name(), DeniedFile)
		}
	}
	return fmt.Sprintf("the CRL of %s does not count: the key of %s has not signed it; get it anew from that authority, or put the authority's new certificate into the folder", short(l.Issuer()), claimed[0].Name())
}

// newRevoked finds out what is revoked, first of all among the anchors.
func newRevoked(anchors []Anchor, lists []*RevocationList, denied []Denial) revoked {
	r := revoked{
		lists: lists, byIssuer: map[string][]*RevocationList{}, denied: newDenials(denied),
		byHash: map[[sha256.Size]byte]int{}, files: byName(anchors),
	}
	for _, l := range lists {
		r.byIssuer[l.issuerKey] = append(r.byIssuer[l.issuerKey], l)
	}
	for _, a := range anchors {
		if file, line, ok := r.find(a.Certificate, r.files.issuersOf(a.Certificate)...); ok {
			r.strike(a, file, line)
		}
	}
	// What the operator denies, with all that it issued, is denied as an anchor, too.
	for again := len(r.denied) > 0; again; {
		again = false
		for _, a := range anchors {
			for _, issuer := range r.files.issuersOf(a.Certificate) {
				i, struck := r.byHash[issuer.hash]
				if _, done := r.byHash[a.Certificate.hash]; done || !struck || r.struck[i].Line == 0 || !issued(issuer, a.Certificate) {
					continue
				}
				r.strike(a, r.struck[i].File, r.struck[i].Line)
				again = true
			}
		}
	}
	return r
}

func issued(issuer, c *Certificate) bool {
	return CheckSignature(issuer.PublicKey, c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

func (r *revoked) strike(a Anchor, file string, line int) {
	r.byHash[a.Certificate.hash] = len(r.struck)
	r.struck = append(r.struck, Struck{a, file, line})
}

// find tells whether c, issued by one of the issuers, is revoked, and where it
// says so.
func (r *revoked) find(c *Certificate, issuers ...*Certificate) (file string, line int, ok bool) {
	name := nameKey(c.RawIssuer)
	if d, ok := r.denied.find(c, name, issuers); ok {
		return d.File, d.Line, true
	}
	for _, l := range r.byIssuer[name] {
		for _, issuer := range issuers {
			if l.revokes(c, issuer) {
				return l.File, 0, true
			}
		}
	}
	return "", 0, false
}

// among judges a complete path, from its anchor down.
func (r *revoked) among(path Chain) *Error {
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

// anchor says why c, an anchor by its file, is none.
func (r *revoked) anchor(c *Certificate) *Error {
	i, ok := r.byHash[c.hash]
	if !ok {
		return nil
	}
	return refuseRevoked(c, r.struck[i].File, r.struck[i].Line)
}

// above says that an anchor which could have issued c is revoked.
func (r *revoked) above(c *Certificate) *Error {
	for _, issuer := range r.files.issuersOf(c) {
		if e := r.anchor(issuer); e != nil {
			return e
		}
	}
	return nil
}

// refuseRevoked tells a stranger no more than the name of the list.
func refuseRevoked(c *Certificate, file string, line int) *Error {
	if line > 0 {
		return refuse(Revoked, c, "is refused by the operator of this server, in the list %s; ask there why", filepath.Base(file))
	}
	return refuse(Revoked, c, "is revoked by its issuer, in the list %s; ask it for a new certificate", filepath.Base(file))
}

// lines are what a generation depends on.
func (r *revoked) lines() (lines []string) {
	for _, l := range r.lists {
		lines = append(lines, "list "+hex.EncodeToString(l.hash[:])+"\n")
	}
	for key := range r.denied {
		lines = append(lines, "denied "+key+"\n")
	}
	for _, s := range r.struck {
		lines = append(lines, "struck "+s.Certificate.Fingerprint()+"\n")
	}
	return lines
}

// RevocationLists gives the CRLs that are in force, in the order they were read.
func (a *Anchors) RevocationLists() []*RevocationList { return slices.Clone(a.revoked.lists) }

// Denials gives the entries of the deny list that are in force.
func (a *Anchors) Denials() []Denial { return a.revoked.denied.sorted() }

// Struck gives the anchors that are none, because they are revoked.
func (a *Anchors) Struck() []Struck { return slices.Clone(a.revoked.struck) }

// Makers gives the certificates among the anchors, struck or not, that have
// made a revocation list. Where there is none, the list is for an authority
// between an anchor and its users, which shows its certificate with theirs.
func (a *Anchors) Makers(l *RevocationList) []*Certificate { return a.revoked.files.makers(l) }

// Reach is what an entry of the deny list can refuse.
type Reach struct {
	// Struck are the anchors it takes away.
	Struck []Struck
	// Vouchers are the anchors without which what it names would be strangers
	// anyway. Where they are none, and nothing is struck, the entry does nothing
	// yet. A fingerprint may be that of anybody: it has all anchors.
	Vouchers []Anchor
	// Below says that the entry is about an authority by a URN that no anchor has:
	// it counts where one with that URN lies below an anchor, and does not touch
	// what the Vouchers issue themselves.
	Below bool
}

// Reach tells what an entry of the deny list does.
func (a *Anchors) Reach(d Denial) (r Reach) {
	for _, s := range a.revoked.struck {
		if s.Line == d.Line && s.File == d.File {
			r.Struck = append(r.Struck, s)
		}
	}
	authority := d.issuer
	if d.urn.Type == urn.Authority {
		authority = d.urn
	}
	r.Below = !authority.IsZero() && len(r.Struck) == 0
	for _, anchor := range a.list {
		c := anchor.Certificate
		r.Below = r.Below && !c.URN.Equal(authority)
		switch {
		case !d.urn.IsZero():
			if !covered(anchor.Covers(), d.urn.Authority) {
				continue
			}
		case d.dn != "":
			if nameKey(c.RawSubject) != d.dn {
				continue
			}
		case !d.issuer.IsZero():
			if !covered(anchor.Covers(), d.issuer.Authority) {
				continue
			}
		}
		r.Vouchers = append(r.Vouchers, anchor)
	}
	return r
}
