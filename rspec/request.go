package rspec

import (
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
}

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
	Installs   []Install
	Executes   []Execute
	// Line is where the node begins in the request.
	Line int

	element int
}

// Interface is one interface of a node.
type Interface struct {
	ClientID string
	IPs      []IP
}

// IP is an address asked for on the experiment's network, as written.
type IP struct {
	Address, Netmask string
	// Type is ipv4 or ipv6; empty means ipv4.
	Type string
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
	Line       int
}

// Property shapes one direction of a link. Values are as written, empty where
// nothing is asked: capacity in kbit/s, latency in ms, packet loss in the
// site's unit.
type Property struct {
	Source, Dest                  string
	Capacity, Latency, PacketLoss string
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
