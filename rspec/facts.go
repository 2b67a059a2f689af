package rspec

import (
	"net/netip"
	"time"

	"patchbay/am/urn"
)

// NodeFacts is the content that a manifest adds to an own node. An empty field adds
// nothing, except that Hosts, Logins, Users and Proxies always replace the request's.
type NodeFacts struct {
	ComponentID, SliverID urn.URN
	ComponentName         string
	Exclusive             bool
	// SliverType, DiskImage and HardwareType are written only where the request
	// names none.
	SliverType, DiskImage, HardwareType string

	Hosts   []Host
	Logins  []Login
	Users   []User
	Proxies []Proxy

	// Interfaces are the facts about the node's interfaces, by client_id.
	Interfaces map[string]InterfaceFacts
	// Sliver is written as geni_sliver_info and VNode as Emulab's vnode. Each replaces the
	// request's element. If one of them is nil, the request's element is copied.
	Sliver *SliverInfo
	VNode  *VNode
	// Granted are the values of the features that the node's constraints name. They replace
	// those of an earlier manifest.
	Granted []Granted
	// Notices are wishes that the aggregate does not fulfil. They replace those of an earlier
	// manifest.
	Notices []string
}

// Granted is the value of one feature that a node got.
type Granted struct{ Feature, Value string }

// InterfaceFacts is the content that a manifest adds to an interface of an own node.
type InterfaceFacts struct {
	// ComponentID is the physical interface; it is also written on the links that
	// end there.
	ComponentID urn.URN
	// MAC is written unchanged. If it is empty, the request's mac_address is removed,
	// because it is from an earlier manifest.
	MAC string
	// Addresses are written if the request has no address. They first fill ip elements
	// without an address, each with an address of the element's type.
	Addresses []netip.Prefix
}

// LinkFacts is the content that a manifest adds to an own link.
type LinkFacts struct {
	// VLANTag is the tag of the link's VLAN. If it is empty, the request's vlantag is
	// copied.
	VLANTag string
	// Notices are as in NodeFacts.
	Notices []string
}

// SliverInfo is the content of the sliver-info extension. The extension requires
// Creator, Created and Expires: without one of them nothing is written. Times are
// written in UTC, to the second.
type SliverInfo struct {
	Creator          urn.URN
	Created, Expires time.Time
	// State is the operational state without the prefix geni_. Error is the last error.
	State, Error string
	// ResourceID is the site's name for the resource.
	ResourceID string
}

func (i *SliverInfo) complete() bool {
	return i != nil && !i.Creator.IsZero() && !i.Created.IsZero() && !i.Expires.IsZero()
}

// VNode is the physical identity of a node, for the Emulab extension. Without a
// Name nothing is written.
type VNode struct{ Name, HardwareType string }

// Host is a name, and perhaps an address, of a node.
type Host struct{ Name, IPv4 string }

// Login is an SSH login with a key.
type Login struct {
	Hostname string
	// Port 0 means 22.
	Port     int
	Username string
}

// User is an account of a node with its SSH keys.
type User struct {
	Login string
	URN   urn.URN
	Keys  []string
}

// Proxy is an SSH gateway, the field Proxy, and the login behind it, the field For. Both
// have the form user@host:port.
type Proxy struct{ Proxy, For string }
