package rspec

import (
	"net/netip"
	"time"

	"patchbay/am/urn"
)

// NodeFacts are what a manifest tells about an own node. An empty field tells
// nothing, except that Hosts, Logins, Users and Proxies always replace what the
// request had of them.
type NodeFacts struct {
	ComponentID, SliverID urn.URN
	ComponentName         string
	Exclusive             bool
	// SliverType and DiskImage are told only where the request names none;
	// so is HardwareType.
	SliverType, DiskImage, HardwareType string

	Hosts   []Host
	Logins  []Login
	Users   []User
	Proxies []Proxy

	// Interfaces are told by client_id.
	Interfaces map[string]InterfaceFacts
	// Sliver is told as geni_sliver_info, VNode as Emulab's vnode; what the
	// request had of them is replaced then, and else copied.
	Sliver *SliverInfo
	VNode  *VNode
}

// InterfaceFacts are what a manifest tells about an interface of an own node.
type InterfaceFacts struct {
	// ComponentID is the physical interface; it is told of the links that end
	// there, too.
	ComponentID urn.URN
	// MAC is told as it is written here. One in the request is stale and goes.
	MAC string
	// Addresses are told where the request names none. An ip element without an
	// address asks for one: it is filled in if its type fits.
	Addresses []netip.Prefix
}

// LinkFacts are what a manifest tells about an own link.
type LinkFacts struct {
	// VLANTag is the tag of its VLAN. If it is empty, one in the request stays.
	VLANTag string
}

// SliverInfo is the life of a sliver, for the sliver-info extension. The
// extension demands Creator, Created and Expires: without one of them nothing
// is told. Times are told in UTC, to the second.
type SliverInfo struct {
	Creator          urn.URN
	Created, Expires time.Time
	// State is the operational state without geni_, Error what went wrong last.
	State, Error string
	// ResourceID is the site's own name of the resource.
	ResourceID string
}

// complete tells whether there is all that the extension demands.
func (i *SliverInfo) complete() bool {
	return i != nil && !i.Creator.IsZero() && !i.Created.IsZero() && !i.Expires.IsZero()
}

// VNode is the physical identity of a node, for the Emulab extension. Without a
// Name nothing is told.
type VNode struct{ Name, HardwareType string }

// Host is a name, and perhaps an address, of a node.
type Host struct{ Name, IPv4 string }

// Login is a way to log in with an SSH key.
type Login struct {
	Hostname string
	// Port is 22 if it is 0.
	Port     int
	Username string
}

// User is an account of a node and the keys that open it.
type User struct {
	Login string
	URN   urn.URN
	Keys  []string
}

// Proxy is an SSH gateway in front of a login, both user@host:port.
type Proxy struct{ Proxy, For string }
