package rspec

import (
	"net/netip"
	"slices"
	"time"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// ReadOptions say how a request is to be read.
type ReadOptions struct {
	// Managers are the URNs by which nodes may call this aggregate; +cm and +am
	// of one authority are the same. Without any, every node is somebody else's
	// that names a manager.
	Managers []urn.URN
	Limits   Limits
	// LinkTypes are the kinds of link that own links may ask for, compared
	// without case; nil accepts every kind.
	LinkTypes []string
	// CopyCrossLinks takes a link between our nodes and another aggregate's for
	// something to copy, with a notice, instead of refusing it.
	CopyCrossLinks bool
	// PacketLoss is the unit in which links ask for packet loss.
	PacketLoss LossUnit
	// Stored is for a request that was taken once: what it is to be refused for
	// is left out of it or left alone, so that a rule or setting that came later
	// never makes it unreadable. Limits, LinkTypes and CopyCrossLinks do not count.
	Stored bool
	// Judge asks the schemas, too, for Request.Findings: they inform and refuse
	// nothing. Requests above 256 KiB are not judged, for the time it takes, nor
	// are those that wait too long for others to be judged.
	Judge bool
}

// LossUnit is how packet_loss is read: the RSpec text says per cent, the schema
// says fraction.
type LossUnit int

// Units of packet loss.
const (
	Percent  LossUnit = iota // 1 is one per cent
	Fraction                 // 1 is everything
)

// Request is a request that was checked. It is immutable.
type Request struct {
	// Nodes and Links are this aggregate's, in document order. There may be
	// none: whether that is an error is the caller's to say.
	Nodes []Node
	Links []Link
	// Foreign counts the nodes of other aggregates.
	Foreign int
	// Monitoring is what the whole request asks for; nil if it asks for none.
	Monitoring *Monitoring
	// Notices are remarks for the experimenter, by line; at most twenty.
	Notices []Problem
	// Findings are what the schemas have against the request, by line; see
	// ReadOptions.Judge.
	Findings []xmltree.Finding
	// Managers are those of the ReadOptions by which Nodes were found.
	Managers []urn.URN
	// GeneratedBy is the client's word about itself; no decision may depend on it.
	GeneratedBy string

	doc   *document
	links []ownLink
	// numbers are those of Nodes by client_id; nil in a Request made by hand.
	numbers map[string]int
}

// Text is the request as it was received.
func (r *Request) Text() []byte { return r.doc.given }

// Elements is the number of the request's elements.
func (r *Request) Elements() int { return len(r.doc.elements) }

// Node finds an own node by its client_id.
func (r *Request) Node(clientID string) (*Node, bool) {
	if r.numbers != nil {
		i, found := r.numbers[clientID]
		if !found {
			return nil, false
		}
		return &r.Nodes[i], true
	}
	i := slices.IndexFunc(r.Nodes, func(n Node) bool { return n.ClientID == clientID })
	if i < 0 {
		return nil, false
	}
	return &r.Nodes[i], true
}

// Node is a node that this aggregate is asked for.
type Node struct {
	ClientID string
	// ComponentID is the component the node is bound to, as written; empty if
	// it is not bound. Component is the same, parsed.
	ComponentID string
	Component   urn.URN
	// Exclusive is nil where the request leaves it open.
	Exclusive *bool
	// SliverType, and the image in it, are empty where the site may choose.
	SliverType              string
	DiskImage, DiskImageURL string
	// HardwareType constrains the choice of a component.
	HardwareType string
	// Colocate: nodes of equal, non-empty value share a host.
	Colocate   string
	Interfaces []Interface
	// RoutableIP asks for an address that can be reached from everywhere
	// (Emulab's routable_control_ip).
	RoutableIP bool
	// Monitoring is nil where the node asks for none.
	Monitoring *Monitoring
	// Installs and Executes are those that can be done, in document order.
	Installs []Install
	Executes []Execute
	// Line and Column are where the node begins in the request, counted from 1.
	Line, Column int

	element int
}

// Interface is one interface of a node.
type Interface struct {
	ClientID string
	// ComponentID is the physical interface it is bound to, as written; empty if
	// it is not bound. Component is the same, parsed.
	ComponentID string
	Component   urn.URN
	// Addresses are those asked for on the experiment's network, each with its
	// network's length: 24 bits (IPv6: 64) where the request has no netmask. An
	// IPv4 address written as IPv6 is an IPv4 address here.
	Addresses []netip.Prefix
	Line      int
}

// Monitoring is the wish for infrastructure monitoring (Fed4FIRE's monitoring
// extension, in either of its namespaces).
type Monitoring struct {
	Enabled bool
	// Endpoint is where measurements go, for OML [tcp:]host[:port].
	Endpoint string
	Type     string
	// Metrics are the ids asked for, each once whatever its case; empty means all.
	Metrics []string
}

// Link is a link all of whose interfaces are on own nodes.
type Link struct {
	ClientID string
	// Type is the kind asked for; empty where the request leaves it open.
	Type string
	// Interfaces are the client_ids of its ends; at least one.
	Interfaces []string
	// Properties are those that ask for something, at most one for a direction.
	Properties []Property
	// SharedVLAN is the name of the VLAN that the link joins, shared with other
	// slices; empty for none. SharedTag is the tag asked for with it, as written.
	SharedVLAN, SharedTag string
	// Monitoring is nil where the link asks for none.
	Monitoring *Monitoring
	// Line and Column are where the link begins in the request, counted from 1.
	Line, Column int
}

// Property shapes one direction of a link. What is zero is not asked for.
type Property struct {
	// Source and Dest are client_ids of interfaces of the link. An empty one, of
	// which there is at most one, stands for all its other interfaces: a client
	// that shapes what goes into a LAN writes the link's own client_id there.
	Source, Dest string
	// Capacity is in kbit/s, rounded up.
	Capacity int64
	Latency  time.Duration
	// Loss is the part of the packets that is lost, from 0 to 1.
	Loss float64
}
