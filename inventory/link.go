package inventory

import (
	"net/netip"

	"patchbay/am/urn"
)

// Interface is a physical interface of a component.
type Interface struct {
	// Index is the interface's place among all of the inventory.
	Index int
	URN   urn.URN
	// Name is unique on the component.
	Name string
	// Role is "control", "experimental" or "mixed".
	Role      string
	Component *Component
	// Link is the physical link it is on; nil if it is on none.
	Link *Link
	// Capacity is what it carries in each direction, in kbit/s; 0 if nothing
	// limits it.
	Capacity int64
	// PublicIPv4 is zero if it has none.
	PublicIPv4 netip.Addr
}

// Link is a physical link, or a switch: it joins all of its interfaces.
type Link struct {
	URN  urn.URN
	Name string
	// Type is what advertisements call it, such as "ethernet".
	Type string
	// Capacity is that of its interfaces that say nothing else, in kbit/s; 0 if
	// nothing limits them.
	Capacity   int64
	Interfaces []*Interface
}

// SharedVLAN is a VLAN that links of several slices may join.
type SharedVLAN struct {
	Name string
	// Tag is 1 to 4094.
	Tag         int
	Description string
	// Restricted is told to experimenters; the site hands such VLANs out by
	// other means.
	Restricted bool
}

// Monitoring is the infrastructure monitoring that the site offers.
type Monitoring struct {
	// Type is such as "oml"; Doc is a URL.
	Type, Doc string
	Metrics   []Metric
}

// Metric is one thing that is measured.
type Metric struct{ ID, Description, Unit string }
