package generate

import (
	"net/netip"

	"patchbay/rspec/match"
)

// Request is a request RSpec to be written.
type Request struct {
	// Language is the language of the source, such as "radl".
	Language string
	// Comments explain decisions about the whole request.
	Comments []string
	// Features are features of the source that have no other place in a request. They are
	// copied to the manifest.
	Features []Feature
	// Deadline is the time in seconds that the plan of all steps may take; 0 for the default.
	Deadline int
	// Ansible is the version of Ansible that the steps need; empty for any.
	Ansible string
	Nodes   []Node
	Links   []Link
	// Terms are names of features in pairs with the names that the source has for them, if these
	// differ.
	Terms []string
	// Files are the local files of which the steps have the content, by name.
	Files []SourceFile
}

// SourceFile is a file beside the source.
type SourceFile struct {
	Name string
	Size int
}

// Feature is a named text.
type Feature struct{ Name, Value string }

// Origin is the part of the source that describes a node or a link.
type Origin struct {
	// ID is its name in the source; empty if it has none.
	ID string
	// Ordinal counts the nodes with the same ID in the slice, from 0.
	Ordinal int
	// Features are copied to the manifest.
	Features []Feature
}

// Node is a node of the request. An empty field requests nothing.
type Node struct {
	ClientID string
	// Comments explain decisions about the node.
	Comments []string
	// Manager is the URN of the aggregate that creates the node; empty for the one that
	// receives the request.
	Manager string
	// ComponentID is the URN of the component of the node.
	ComponentID           string
	SliverType, DiskImage string
	HardwareType          string
	Require               []match.Constraint
	Prefer                []match.Preference
	Interfaces            []Interface
	// Public requests a publicly reachable address.
	Public bool
	// NAT requests that the node translates addresses for the others.
	NAT bool
	// Parameters are variables of all steps of the node.
	Parameters []Feature
	Steps      []Step
	Origin     Origin
}

// Interface is an interface of a node.
type Interface struct {
	ClientID string
	// Addresses are the requested addresses with the prefix lengths of their networks.
	Addresses []netip.Prefix
	// Public requests an address that others can reach.
	Public bool
	// DNSNames are the DNS names of the node on this interface.
	DNSNames []string
	// Ports and Proxy are those of a network without a link.
	Ports string
	Proxy *Proxy
}

// Link is a link between interfaces of nodes.
type Link struct {
	ClientID string
	Comments []string
	// Manager is as in Node.
	Manager string
	// Interfaces are the client_ids of the ends.
	Interfaces []string
	// LAN writes the link type lan.
	LAN bool
	// Join means that the slice has a link with this ClientID, which gets the interfaces, too.
	Join bool
	// Ports are open to others, in the notation of RADL's outports.
	Ports  string
	Routes []Route
	Proxy  *Proxy
	// Range is the range of the link's addresses; zero if none was requested.
	Range  netip.Prefix
	Origin Origin
}

// Route is a route to a network over a node.
type Route struct {
	To netip.Prefix
	// Via is the client_id of the node.
	Via string
}

// Proxy is an SSH proxy. Port 0 means 22.
type Proxy struct {
	User, Host string
	Port       int
}

// Kinds of Step.
const (
	Script   = "script"   // Body is a script in Language, run as a step
	UserData = "userdata" // Body is user data for cloud-init
	Install  = "install"  // URL is fetched and unpacked into Path
	Disk     = "disk"     // a disk of the node's own, mounted at Path
)

// Step is a step of the setup of a node.
type Step struct {
	Kind string
	// Name is shown to users, at most 80 bytes; longer names are cut.
	Name string
	// Stage is from 0 to step.MaxStage.
	Stage int
	// Language is sh, bash or ansible; empty if the first line of the script decides.
	Language string
	Body     []byte
	// AsUser runs the script as the first account of the node instead of root.
	AsUser bool
	// Background means that the stage does not wait for the script.
	Background bool
	// Again runs the script again when the nodes of the slice change.
	Again      bool
	Parameters []Feature
	// Relation is the client_id of the other node of a relation; empty for none. OnTarget runs
	// the script on that node.
	Relation string
	OnTarget bool
	// Operation is install, configure, start, stop or uninstall; empty for configure.
	Operation string
	// Files lie beside the script.
	Files     []File
	URL, Path string
	// Owners keeps the numeric owners in the archive of an Install.
	Owners bool
	// Size, FileSystem, Device and Image are those of a Disk.
	Size                      string
	FileSystem, Device, Image string
}

// File is a file with a relative path. URL names a file of the site's catalogue in place of Body.
type File struct {
	Path string
	Body []byte
	URL  string
}
