package rspec

import (
	"cmp"
	"strings"
	"time"

	"patchbay/schemas/xmltree"
)

// Lease is the time for which nodes are requested, from an element lease of NITOS. It is immutable.
type Lease struct {
	Name        string
	From, Until time.Time // in UTC, in whole seconds; Until is later
	Line        int
}

// leaseElement is a lease of the request, which is read when an own node first refers to it: the leases of other
// aggregates' nodes may have mistakes.
type leaseElement struct {
	e     *xmltree.Element
	name  string
	used  bool
	lease *Lease // nil if it has a mistake
}

// addLease records a lease of the root under its names.
func (p *requestParser) addLease(e *xmltree.Element) {
	x := &leaseElement{e: e, name: cmp.Or(trimmed(e, "leaseID"), trimmed(e, "client_id"), trimmed(e, "id"))}
	p.leases = append(p.leases, x)
	for _, name := range []string{"leaseID", "client_id", "id"} {
		if name = trimmed(e, name); name != "" && p.leaseNames[name] == nil {
			p.leaseNames[name] = x
		}
	}
}

// readLeaseRef sets the lease of n from c, a reference to one. All references of a node must name the same lease.
func (p *requestParser) readLeaseRef(c *xmltree.Element, n *Node) {
	name := cmp.Or(trimmed(c, "id_ref"), trimmed(c, "leaseREF"), trimmed(c, "leaseIDRef"))
	x := p.leaseNames[name]
	if x == nil {
		p.badArgs(place{c, ""}, n.ClientID, "write its leaseID into id_ref", "node %.80q refers to the lease %.80q, which the request does not have", n.ClientID, name)
		return
	}
	if !x.used {
		x.used, x.lease = true, p.readLease(x)
	}
	if n.Lease != nil && x.lease != n.Lease {
		p.badArgs(place{c, ""}, n.ClientID, "write a node for each", "node %.80q refers to two leases, %.80q and %.80q", n.ClientID, n.Lease.Name, name)
		return
	}
	n.Lease = x.lease
}

// readLease returns nil if the lease has a mistake.
func (p *requestParser) readLease(x *leaseElement) *Lease {
	var times [2]time.Time
	for i, name := range []string{"valid_from", "valid_until"} {
		text := trimmed(x.e, name)
		t, err := time.Parse("2006-01-02T15:04:05Z07:00", text)
		if err != nil {
			t, err = time.Parse("2006-01-02T15:04:05", text) // xs:dateTime may have no offset; it means UTC
		}
		if err != nil || t.Year() < 1990 || t.Year() > 9999 {
			p.badArgs(place{x.e, name}, "", "write a time such as 2030-01-31T12:00:00Z", "the lease %.80q has %s=%.40q", x.name, name, text)
			return nil
		}
		times[i] = t.UTC().Truncate(time.Second)
	}
	if !times[1].After(times[0]) {
		p.badArgs(place{x.e, "valid_until"}, "", "write a later valid_until", "the lease %.80q does not end after it begins", x.name)
		return nil
	}
	return &Lease{Name: x.name, From: times[0], Until: times[1], Line: x.e.Line}
}

// remarkLeases adds remarks on what is copied only, if the request has nodes for this aggregate: leases without a node, leases in
// other namespaces, and NITOS' channels.
func (p *requestParser) remarkLeases(root *xmltree.Element) {
	for _, x := range p.leases {
		if !x.used && p.r.Foreign == 0 {
			p.remark(place{x.e, ""}, "", "refer to it by <lease_ref id_ref> in nodes; "+ignored, "no node refers to the lease %.80q", x.name)
		}
	}
	for e := range childElements(root) {
		switch {
		case e.Space == nitosSpace && e.Local == "channel":
			p.remark(place{e, ""}, "", ignored, "the request asks for a channel, which this aggregate does not offer")
		case e.Local == "lease" && e.Space != nitosSpace:
			p.remark(place{e, ""}, "", "use the namespace "+nitosSpace+"; "+ignored, "the request has a lease in the namespace %.80q, which is not read here", e.Space)
		}
	}
}

// isLeaseRef accepts the spellings lease_ref, leaseRef and leaseREF.
func isLeaseRef(e *xmltree.Element) bool {
	return e.Space == nitosSpace && strings.EqualFold(strings.Replace(e.Local, "_", "", 1), "leaseref")
}
