package inventory

import (
	"net/netip"

	"patchbay/am/urn"
)

const (
	// controlRole is for management and login; links never use such an interface.
	controlRole = "control"
	// experimentalRole is for links, mixedRole is for both.
	experimentalRole = "experimental"
	mixedRole        = "mixed"
)

// Interface is a physical interface of a component.
type Interface struct {
	// Index is the interface's index in Inventory.Interfaces.
	Index int
	URN   urn.URN
	// Name is unique on the component.
	Name string
	// Role is "control", "experimental" or "mixed".
	Role      string
	Component *Component
	// Link is the physical link of the interface; nil if it has none.
	Link *Link
	// Capacity is the capacity of each direction in kbit/s; 0 is unlimited. Links of
	// experiments share it.
	Capacity int64
	// PublicIPv4 is zero if there is none.
	PublicIPv4 netip.Addr
}

// CarriesLinks reports whether links of experiments may use the interface: it is on a
// physical link and not only for control.
func (i *Interface) CarriesLinks() bool { return i.Link != nil && i.Role != controlRole }

// Link is a physical link or a switch that joins all of its interfaces.
type Link struct {
	// Index is the link's index in Inventory.Links.
	Index int
	URN   urn.URN
	Name  string
	// Type is its link type in advertisements, such as "ethernet".
	Type string
	// Capacity applies to interfaces without a capacity of their own, in kbit/s; 0 is
	// unlimited.
	Capacity   int64
	Interfaces []*Interface
}

// SharedVLAN is a VLAN that links of several slices may join. It is available on every
// physical link.
type SharedVLAN struct {
	Name string
	// Tag is 1 to 4094.
	Tag         int
	Description string
	// Restricted reports whether requests to join the VLAN are refused, although it is
	// advertised. Users must ask the operators.
	Restricted bool
}

// Monitoring is the infrastructure monitoring that the site offers.
type Monitoring struct {
	// Type is for example "oml"; Doc is a URL, or empty.
	Type, Doc string
	Metrics   []Metric
}

// Metric is one measured quantity.
type Metric struct{ ID, Description, Unit string }
