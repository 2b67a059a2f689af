package am

import (
	"net/netip"
	"time"

	"patchbay/am/urn"
)

// Interface is what one interface of a sliver got. Links are no slivers: what
// a link takes of the network is held by the interfaces at its ends.
type Interface struct {
	ClientID string
	// Link is the client_id of the link it is on; empty if it is on none.
	Link string `json:",omitempty"`
	// Component is the physical interface; zero if the inventory names none.
	Component urn.URN `json:",omitzero"`
	// ComponentName is what the physical interface was called on its component when
	// the sliver was bound.
	ComponentName string `json:",omitempty"`
	// Out and In are what it takes of the physical interface, in kbit/s.
	Out int64 `json:",omitempty"`
	In  int64 `json:",omitempty"`
	// VLAN is the tag of the link's VLAN; 0 if there is none.
	VLAN int `json:",omitempty"`
	// SharedVLAN is the name of the VLAN if the link shares it with other
	// slices; else the tag is the link's alone.
	SharedVLAN string `json:",omitempty"`
	// Addresses are those asked for, or the one that was assigned.
	Addresses []netip.Prefix `json:",omitempty"`
	// Properties are what frames that leave it are to meet, where that is not the
	// same as on a wire. A provider learns of them, and nothing is counted by them.
	Properties []Property `json:",omitempty"`
}

// Property is what frames are to meet on their way from one interface of a link
// to others of it. What is zero is not asked for.
type Property struct {
	// To are the client_ids of those others; without any it holds towards all
	// that no other property of the interface names.
	To []string `json:",omitempty"`
	// Capacity is in kbit/s.
	Capacity int64         `json:",omitempty"`
	Latency  time.Duration `json:",omitempty"`
	// Loss is how many of a hundred frames are lost, from 0 to 100.
	Loss float64 `json:",omitempty"`
}
