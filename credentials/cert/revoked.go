package cert

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"

	"patchbay/am/urn"
	"patchbay/credentials/rule"
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
	aliases  map[string][]urn.URN      // of all anchors, by name and key
	// unknown are numbers of issuers none of which is among the anchors, by the
	// authority of the issuer.
	unknown map[string]Denial
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
		if l.signedBy(c) {
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
	return fmt.Sprintf("the CRL of %s does not count: the key of %s has not signed it; get it anew from that authority, or put the authority's new certificate into the folder", short(l.Issuer()), claimed[0].Name())
}

// newRevoked finds out what is revoked, first of all among the anchors.
func newRevoked(anchors []Anchor, lists []*RevocationList, denied []Denial) revoked {
	r := revoked{
		lists: lists, byIssuer: map[string][]*RevocationList{}, denied: newDenials(denied),
		byHash: map[[sha256.Size]byte]int{}, files: byName(anchors), aliases: map[string][]urn.URN{}, unknown: map[string]Denial{},
	}
	here := map[string]bool{}
	for _, a := range anchors {
		if u := a.Certificate.URN; !u.IsZero() {
			key := identity(a.Certificate)
			r.aliases[key] = append(r.aliases[key], u)
			here[u.Key()] = true
		}
	}
	for _, d := range r.denied {
		if !d.issuer.IsZero() && !here[d.issuer.Key()] {
			r.unknown[unknownKey(*d.serial, d.issuer)] = d
		}
	}
	for _, l := range lists {
		r.byIssuer[l.issuerKey] = append(r.byIssuer[l.issuerKey], l)
	}
	for _, a := range anchors {
		if file, line, ok := r.findAnchor(a.Certificate); rule.NotRevoked.Broken(ok) {
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

// find tells whether c is revoked, and where it says so. The issuer has really
// issued it; nil is one that is not known.
func (r *revoked) find(c, issuer *Certificate) (file string, line int, ok bool) {
	name := nameKey(c.RawIssuer)
	if d, ok := r.denies(c, name, issuer); ok {
		return d.File, d.Line, true
	}
	if issuer == nil {
		return "", 0, false
	}
	for _, l := range r.byIssuer[name] {
		if l.revokes(c, issuer) {
			return l.File, 0, true
		}
	}
	return "", 0, false
}

// denies looks c up in the deny list. Its issuer may have several certificates
// for one key, with other URNs, of which the client shows the one it likes: so
// the URNs of all that are anchors count, and where neither the issuer that an
// entry names nor the one that is shown is an anchor, both may be the same, if
// they are of one authority.
func (r *revoked) denies(c *Certificate, name string, issuer *Certificate) (Denial, bool) {
	if len(r.denied) == 0 {
		return Denial{}, false
	}
	var urns []urn.URN
	if issuer != nil {
		urns = r.aliases[identity(issuer)]
		if !issuer.URN.IsZero() {
			urns = append(slices.Clip(urns), issuer.URN)
		}
	}
	if d, ok := r.denied.find(c, name, issuer, urns); ok {
		return d, true
	}
	if issuer == nil || issuer.URN.IsZero() || len(r.aliases[identity(issuer)]) > 0 {
		return Denial{}, false
	}
	d, ok := r.unknown[unknownKey(serialKey(c), issuer.URN)]
	return d, ok
}

func unknownKey(serial string, issuer urn.URN) string {
	return urn.URN{Authority: issuer.Authority, Type: urn.Authority, Name: hex.EncodeToString([]byte(serial))}.Key()
}

// identity is the name and key of a certificate.
func identity(c *Certificate) string {
	return nameKey(c.RawSubject) + string(c.RawSubjectPublicKeyInfo)
}

// findAnchor is find for an anchor, of which the issuers are only known by the
// name: others may have the same.
func (r *revoked) findAnchor(c *Certificate) (file string, line int, ok bool) {
	if file, line, ok := r.find(c, nil); ok {
		return file, line, true
	}
	tried := map[string]bool{}
	for _, issuer := range r.files.issuersOf(c) {
		key := string(issuer.RawSubjectPublicKeyInfo)
		if tried[key] {
			continue
		}
		tried[key] = true
		if file, line, ok := r.find(c, issuer); ok && issued(issuer, c) {
			return file, line, true
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
		if file, line, ok := r.find(path[i], path[i+1]); rule.NotRevoked.Broken(ok) {
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
		return refuse(Revoked, rule.NotRevoked, c, "is refused by the operator of this server, in the list %s; ask there why", filepath.Base(file))
	}
	return refuse(Revoked, rule.NotRevoked, c, "is revoked by its issuer, in the list %s; ask it for a new certificate", filepath.Base(file))
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
		if named := cmp.Or(d.urn, d.issuer); !named.IsZero() && !covered(anchor.Covers(), named.Authority) || d.dn != "" && nameKey(c.RawSubject) != d.dn {
			continue
		}
		r.Vouchers = append(r.Vouchers, anchor)
	}
	return r
}
