package view

import "patchbay/schemas/xmltree"

// Kind is the type of an RSpec, in the document's own words.
type Kind string

// The kinds of RSpec. A document of any other type is read as a request.
const (
	Request       Kind = "request"
	Manifest      Kind = "manifest"
	Advertisement Kind = "advertisement"
)

// Document is the common content of all RSpecs. The texts are those of the document, which may be
// hostile.
type Document struct {
	Kind Kind
	// Root is the root element. It and the elements of nodes and links have what a Document leaves out.
	Root        *xmltree.Element
	GeneratedBy string
	// Expires is the attribute of the root element; empty if it is missing.
	Expires  string
	Managers []Manager
	Nodes    []Node
	Links    []Link
	// SharedVLANs are the networks that an advertisement offers for link_shared_vlan.
	SharedVLANs []SharedVLAN
	// Addresses are the public addresses of an advertisement; nil if it lists none.
	Addresses *Addresses
}

// SharedVLAN is a network that the links of any slice may join.
type SharedVLAN struct {
	Name, Tag, Description string
	Restricted             bool
}

// Addresses counts the public addresses that an aggregate gives to nodes. A
// number is -1 if the document does not state it.
type Addresses struct{ Available, Configured int }

// Manager is a component manager.
type Manager struct {
	// URN is the first component_manager_id of the manager, or the component_id of a node without one, as written. It is
	// empty for nodes with neither.
	URN string
	// Name is the authority in the URN.
	Name string
}

// Node is one node, or one component of an advertisement.
type Node struct {
	Element *xmltree.Element
	// Name is the client_id, or the component's name in an advertisement.
	Name string
	// Manager is an index into Document.Managers.
	Manager      int
	SliverTypes  []string
	Image        string
	HardwareType string
	// Exclusive is nil if the document does not state it.
	Exclusive *bool
	// Component is the name of the component that the node is bound to.
	Component string
	// Sliver is the URN of the sliver in a manifest.
	Sliver string
	// State and Error are the manifest's state word and its error message.
	State, Error string
	// Available is the attribute of an advertisement; nil if it is missing.
	Available *bool
	// Slots is the number of slivers that the component can hold; 0 if unknown.
	Slots  int
	Hosts  []Host
	Logins []Login
	// Proxies are SSH gateways through which logins are reached.
	Proxies    []Proxy
	Accounts   []string
	Monitored  bool
	Interfaces []Interface
}

// Host is a name and an address of a node.
type Host struct{ Name, IPv4 string }

// Login is an SSH login of a node.
type Login struct{ User, Host, Port string }

// Proxy is an SSH gateway and the login behind it, both as user@host:port.
type Proxy struct{ Gateway, Login string }

// Interface is one interface of a node.
type Interface struct {
	Name      string
	Addresses []string
	MAC       string
	// Linked reports whether a link of the document has the interface.
	Linked bool
}

// End is one end of a link.
type End struct {
	// Name is the document's name for the interface.
	Name string
	// Authority is the authority in that name, if it is a URN.
	Authority string
	// Node and Interface are indexes; Node is -1 for an interface that no node of
	// the document has.
	Node, Interface int
}

// Link is one link with any number of ends.
type Link struct {
	Element *xmltree.Element
	Name    string
	Types   []string
	// Speeds are capacities in kbit/s that the document states as link types, such as
	// "ethernet-1000000".
	Speeds []string
	Ends   []End
	VLAN   string
	// Shared is the name of the shared VLAN that the link joins.
	Shared     string
	Monitored  bool
	Properties []Property
}

// Property holds the properties of a link in one direction. A field is empty if the document
// does not state it.
type Property struct {
	Source, Dest            string
	Capacity, Latency, Loss string
}
