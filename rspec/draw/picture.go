package draw

// Kind is the type of an RSpec, in the document's own words.
type Kind string

// The kinds of RSpec. A document of any other type is drawn like a request.
const (
	Request       Kind = "request"
	Manifest      Kind = "manifest"
	Advertisement Kind = "advertisement"
)

// Picture is what is to be seen of a document. Its texts are as they came; the
// writers clean and shorten them.
type Picture struct {
	Kind        Kind
	GeneratedBy string
	// Expires is the root's, empty where it says nothing.
	Expires  string
	Managers []Manager
	Nodes    []Node
	Links    []Link
	// SharedVLANs are what an advertisement offers to link_shared_vlan.
	SharedVLANs []SharedVLAN
	// Addresses are the routable ones of an advertisement, nil where it says
	// nothing of them.
	Addresses *Addresses
}

// SharedVLAN is a network that the links of any slice may join.
type SharedVLAN struct {
	Name, Tag, Description string
	Restricted             bool
}

// Addresses count what an aggregate gives to nodes that ask to be reached from
// everywhere. A number is -1 where the document leaves it open.
type Addresses struct{ Available, Configured int }

// Manager is who answers for nodes.
type Manager struct {
	// URN is as it came; empty for nodes that name no manager.
	URN string
	// Name is the authority in it.
	Name string
}

// Node is one node, or in an advertisement one component.
type Node struct {
	// Name is the client_id, or the component's name in an advertisement.
	Name string
	// Manager is a number among Picture.Managers.
	Manager      int
	SliverTypes  []string
	Image        string
	HardwareType string
	// Exclusive is nil where the document leaves it open.
	Exclusive *bool
	// Component is the name of the component that the node is bound to.
	Component string
	// Sliver is the URN of the sliver in a manifest.
	Sliver string
	// State is the word of a manifest, Error what it says of a failure.
	State, Error string
	// Available is what an advertisement says; nil for nothing.
	Available *bool
	// Slots is how many slivers the component holds, 0 where unsaid.
	Slots  int
	Hosts  []Host
	Logins []Login
	// Proxies are the SSH gateways in front of logins.
	Proxies    []Proxy
	Accounts   []string
	Monitored  bool
	Interfaces []Interface
}

// Host is a name by which a node can be reached.
type Host struct{ Name, IPv4 string }

// Login is a way in.
type Login struct{ User, Host, Port string }

// Proxy is an SSH gateway and the login behind it, both as user@host:port.
type Proxy struct{ Gateway, Login string }

// Interface is one interface of a node.
type Interface struct {
	Name      string
	Addresses []string
	MAC       string
	// linked tells whether a link ends here.
	linked bool
}

// End is where a link ends.
type End struct {
	// Name is what the document calls the interface.
	Name string
	// Authority is whose interface it is, where its name tells.
	Authority string
	// Node and Interface are numbers; Node is -1 for an interface that no node
	// of the document has.
	Node, Interface int
}

// Link is one link, of any number of ends.
type Link struct {
	Name  string
	Types []string
	// Speeds are capacities that the document tells as types, such as
	// "ethernet-1000000", in words made for people.
	Speeds []string
	Ends   []End
	VLAN   string
	// Shared is the name of a shared VLAN that the link joins.
	Shared     string
	Monitored  bool
	Properties []Property
}

// Property is what a link promises from one interface to another, in words
// made for people; empty where the document says nothing.
type Property struct {
	Source, Dest            string
	Capacity, Latency, Loss string
}
