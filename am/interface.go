package am

import (
	"net/netip"
	"time"

	"patchbay/am/urn"
)

// Interface holds the resources of one interface of a sliver. A link is not a sliver: the
// interfaces at its ends hold its network resources.
type Interface struct {
	ClientID string
	// Link is the client_id of the interface's link; empty if it has none.
	Link string `json:",omitempty"`
	// LinkType is the requested type of the link; empty if the request names none.
	LinkType string `json:",omitempty"`
	// Component is the physical interface; zero if the inventory names none.
	Component urn.URN `json:",omitzero"`
	// ComponentName is the name of the physical interface on its component, as it was
	// when the sliver was bound.
	ComponentName string `json:",omitempty"`
	// Out and In are the capacities that this interface reserves on the physical interface,
	// in kbit/s.
	Out int64 `json:",omitempty"`
	In  int64 `json:",omitempty"`
	// VLAN is the tag of the link's VLAN; 0 if it has none.
	VLAN int `json:",omitempty"`
	// SharedVLAN is the name of the VLAN if the link shares it with other
	// slices; empty if the tag is for this link alone.
	SharedVLAN string `json:",omitempty"`
	// Addresses are the requested addresses, or the assigned address if none was requested.
	Addresses []netip.Prefix `json:",omitempty"`
	// Public is true if a public address was requested for the interface: in RADL, its network is
	// outbound.
	Public bool `json:",omitempty"`
	// Properties shape the frames that leave the interface; without properties, frames are
	// not shaped. They are sent to the provider, but not counted against capacities.
	Properties []Property `json:",omitempty"`
	// Arriving is requested for the frames from all other interfaces of the link. It is part of
	// their Properties, and becomes part of those of interfaces that join the link later.
	Arriving Property `json:",omitzero"`
}

// Property is the requested shaping of frames from one interface of a link to others.
// A zero field requests nothing.
type Property struct {
	// To lists the client_ids of the receiving interfaces. If To is empty, the property
	// applies to all interfaces that no other property names.
	To []string `json:",omitempty"`
	// Capacity is in kbit/s.
	Capacity int64         `json:",omitempty"`
	Latency  time.Duration `json:",omitempty"`
	// Loss is the percentage of frames that are lost, from 0 to 100.
	Loss float64 `json:",omitempty"`
}
