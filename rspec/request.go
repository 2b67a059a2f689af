package rspec

import (
	"net/netip"
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
	Limits   xmltree.Limits
	// MaxNodes and MaxLinks count those of all managers; default 10,000 each.
	MaxNodes, MaxLinks int
	// LinkTypes are the kinds of link that own links may ask for, compared
	// without case; nil accepts every kind, as is right for requests read again.
	LinkTypes []string
	// CopyCrossLinks takes a link between our nodes and another aggregate's for
	// something to copy, with a notice, instead of refusing it.
	CopyCrossLinks bool
	// PacketLoss is the unit in which links ask for packet loss.
	PacketLoss LossUnit
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
	// Notices are remarks for the experimenter, one line each.
	Notices []string
	// GeneratedBy is the client's word about itself; no decision may depend on it.
	GeneratedBy string

	doc   *document
	links []ownLink
}

// Text is the request as it was received.
func (r *Request) Text() []byte { return r.doc.given }

// Node finds an own node by its client_id.
func (r *Request) Node(clientID string) (*Node, bool) {
	for i := range r.Nodes {
		if r.Nodes[i].ClientID == clientID {
			return &r.Nodes[i], true
		}
	}
	return nil, false
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
	Installs   []Install
	Executes   []Execute
	// Line is where the node begins in the request.
	Line int

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
	// network's length: 24 bits (IPv6: 64) where the request has no netmask.
	Addresses []netip.Prefix
	Line      int
}

// Monitoring is the wish for infrastructure monitoring (Fed4FIRE's monitoring
// extension, in either of its namespaces).
type Monitoring struct {
	Enabled  bool
	Endpoint string
	Type     string
	// Metrics are the ids asked for; empty means all.
	Metrics []string
}

// Install fetches an archive and unpacks it.
type Install struct{ URL, Path string }

// Execute runs a command.
type Execute struct{ Shell, Command string }

// Link is a link all of whose interfaces are on own nodes.
type Link struct {
	ClientID string
	// Type is the kind asked for; empty where the request leaves it open.
	Type string
	// Interfaces are the client_ids of its ends; at least one.
	Interfaces []string
	Properties []Property
	// SharedVLAN is the name of the VLAN that the link joins, shared with other
	// slices; empty for none. SharedTag is the tag asked for with it, as written.
	SharedVLAN, SharedTag string
	// Monitoring is nil where the link asks for none.
	Monitoring *Monitoring
	Line       int
}

// Property shapes one direction of a link. What is zero is not asked for.
type Property struct {
	// Source and Dest are client_ids of interfaces.
	Source, Dest string
	// Capacity is in kbit/s.
	Capacity int64
	Latency  time.Duration
	// Loss is the part of the packets that is lost, from 0 to 1.
	Loss float64
}

// Kind is why a request was refused.
type Kind int

// Kinds of refusal.
const (
	// BadArgs: the request is wrong in itself.
	BadArgs Kind = iota + 1
	// BadVersion: an RSpec, but of a version that is not read here.
	BadVersion
	// Unsupported: right, but more than this aggregate can do.
	Unsupported
	// TooBig: beyond a limit of size.
	TooBig
)

// RequestError is the refusal of a request.
type RequestError struct {
	Kind Kind
	// ClientID is the node, link or interface concerned; empty if none is.
	ClientID string
	// Line counts from 1; 0 if no line is concerned.
	Line int
	// Msg is one line for the experimenter: what is wrong, where, and what to do.
	Msg string
}

func (e *RequestError) Error() string { return e.Msg }
