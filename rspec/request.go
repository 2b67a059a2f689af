package rspec

import (
	"net/netip"
	"slices"
	"time"

	"patchbay/am/urn"
	"patchbay/rspec/match"
	"patchbay/rspec/step"
	"patchbay/schemas/xmltree"
)

// ReadOptions select how a request is read.
type ReadOptions struct {
	// Managers are the URNs by which nodes may name this aggregate; +cm and +am of
	// one authority are equal. If it is empty, every node that names a manager
	// belongs to another aggregate.
	Managers []urn.URN
	Limits   Limits
	// LinkTypes are the types that own links may have, compared without case; nil
	// accepts every type.
	LinkTypes []string
	// CopyCrossLinks copies a link between our nodes and another aggregate's to the
	// manifest, with a remark, instead of refusing it.
	CopyCrossLinks bool
	// PacketLoss is the unit of packet_loss in requests.
	PacketLoss LossUnit
	// Stored marks a request that was accepted before. If such a request has a mistake for
	// which it would be refused now, the mistake is skipped or left unchanged. So a later
	// rule or setting never makes the request unreadable. Limits, LinkTypes and
	// CopyCrossLinks have no effect.
	Stored bool
	// CheckSchemas also fills Request.Findings, which are for information only.
	// Requests above 256 KiB are not checked, because that takes too long. A request
	// that waits too long for other checks is not checked either.
	CheckSchemas bool
}

// LossUnit is the unit of packet_loss: the RSpec text says per cent, the schema
// says fraction.
type LossUnit int

// Units of packet loss.
const (
	Percent  LossUnit = iota // 1 is one per cent
	Fraction                 // 1 is all packets
)

// Request is a checked request. It is immutable.
type Request struct {
	// Nodes and Links are the own nodes and own links, in document order. Both may be
	// empty; the caller decides whether that is an error.
	Nodes []Node
	Links []Link
	// Foreign counts the nodes of other aggregates.
	Foreign int
	// Monitoring is requested for the whole request; nil if it is not.
	Monitoring *Monitoring
	// SetupLimit is the time after which the steps of the nodes have failed if they have not
	// ended; 0 if the request states none.
	SetupLimit time.Duration
	// AnsibleVersion is the version of Ansible that the playbooks need, such as 2.14; empty for
	// any.
	AnsibleVersion string
	// Templates are the sources that this aggregate must expand. Expanded are its sources that were
	// expanded before.
	Templates, Expanded []Template
	// Notices are remarks for the experimenter, by line; at most twenty.
	Notices []Problem
	// Findings are the violations of the schemas, by line; see
	// ReadOptions.CheckSchemas.
	Findings []xmltree.Finding
	// Managers are the ReadOptions.Managers by which own nodes were recognized.
	Managers []urn.URN
	// GeneratedBy is the client's name as written in the request; decisions must not depend on it.
	GeneratedBy string

	doc     *document
	options ReadOptions
	links   []ownLink
	// numbers maps client_ids to indexes of Nodes; nil in a Request that was not parsed.
	numbers map[string]int
}

// Text returns the request as received.
func (r *Request) Text() []byte { return r.doc.given }

// Options returns the options with which the request was read.
func (r *Request) Options() ReadOptions { return r.options }

// Elements returns the number of the request's elements.
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

// Node is a node requested from this aggregate.
type Node struct {
	ClientID string
	// ComponentID is the component that the node is bound to, as written; empty if
	// it is not bound. Component is the parsed ComponentID.
	ComponentID string
	Component   urn.URN
	// Exclusive is nil where the request does not state it.
	Exclusive *bool
	// SliverType and the image in it are empty if the site may choose.
	SliverType              string
	DiskImage, DiskImageURL string
	// HardwareType restricts the choice of a component.
	HardwareType string
	// Require and Prefer are the node's constraints, in document order. Match has all of them;
	// it is nil if there are none.
	Require []match.Constraint
	Prefer  []match.Preference
	Match   *match.Requirements
	// Colocate is a group name: nodes with the same non-empty value share a host.
	Colocate   string
	Interfaces []Interface
	// RoutableIP requests a publicly reachable address (Emulab's
	// routable_control_ip, or net:public at an interface).
	RoutableIP bool
	// DNSNames are the node's names in lower case, at most 64.
	DNSNames []string
	// Wishes are the names of the elements public, outports, proxy and nat of the extension net/1 in
	// the node and its interfaces, each once.
	Wishes []string
	// Monitoring is nil where the node requests none.
	Monitoring *Monitoring
	// Lease is the time for which the node is requested; nil for that of the call.
	Lease *Lease
	// Origin is the source of the node, if it was compiled from another language.
	Origin Origin
	// Services has the valid steps, with the node's properties.
	Services step.Services
	// Line and Column are the start of the node in the request, counted from 1.
	Line, Column int

	element int
}

// Interface is one interface of a node.
type Interface struct {
	ClientID string
	// ComponentID is the requested physical interface, as written; empty if the site
	// may choose. Component is the parsed ComponentID.
	ComponentID string
	Component   urn.URN
	// Addresses are the requested addresses on the experiment network, each with the
	// prefix length of its network: 24 bits (IPv6: 64) if the request has no
	// netmask. An IPv4 address written as IPv6 is converted to IPv4.
	Addresses []netip.Prefix
	// Public means that the interface has the element public of the extension net/1: in RADL, its
	// network is outbound.
	Public bool
	Line   int
}

// Monitoring is a request for infrastructure monitoring (Fed4FIRE's monitoring
// extension, in either of its namespaces).
type Monitoring struct {
	Enabled bool
	// Endpoint is the destination of measurements, for OML [tcp:]host[:port].
	Endpoint string
	Type     string
	// Metrics are the requested ids; empty means all. If ids differ only in letter case, only
	// the first is included.
	Metrics []string
}

// Link is a link whose interfaces are all on own nodes.
type Link struct {
	ClientID string
	// Type is the requested type; empty if the request states none.
	Type string
	// ComponentID names a physical link, as written; empty for any.
	ComponentID string
	// Join means that the slice has a link with this ClientID already, which gets further ends.
	Join bool
	// Interfaces are the client_ids of the link's ends in this request; at least one.
	Interfaces []string
	// Properties are the properties that request something, at most one for each
	// direction.
	Properties []Property
	// SharedVLAN is the name of the shared VLAN that the link joins, empty for none.
	// SharedTag is the tag requested with it, as written.
	SharedVLAN, SharedTag string
	// Range is the network in which interfaces without an address get one; zero for any.
	Range netip.Prefix
	// Wishes are the names of the elements outports, route and proxy of the extension net/1, each
	// once.
	Wishes []string
	// Monitoring is nil where the link requests none.
	Monitoring *Monitoring
	// Line and Column are the start of the link in the request, counted from 1.
	Line, Column int
}

// Property shapes one direction of a link. A zero field requests nothing.
type Property struct {
	// Source and Dest are client_ids of interfaces of the link. At most one of them
	// is empty, which means all other interfaces: a client that shapes all traffic
	// into a LAN writes the link's own client_id there.
	Source, Dest string
	// Capacity is in kbit/s, rounded up.
	Capacity int64
	Latency  time.Duration
	// Loss is the fraction of packets that are lost, from 0 to 1.
	Loss float64
}
