package inventory

import (
	"net/netip"

	"patchbay/am/urn"
)

// Roles of interfaces.
const (
	// controlRole is the interface by which a node is managed and logged in to;
	// links never get it.
	controlRole = "control"
	// experimentalRole is the interface of links, and mixedRole is both.
	experimentalRole = "experimental"
	mixedRole        = "mixed"
)

// Interface is a physical interface of a component.
type Interface struct {
	// Index is the interface's place in Inventory.Interfaces.
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

// Carries tells whether links of experiments may run over the interface: it is
// on a physical link, and not for control only.
func (i *Interface) Carries() bool { return i.Link != nil && i.Role != controlRole }

// Link is a physical link, or a switch: it joins all of its interfaces.
type Link struct {
	// Index is the link's place in Inventory.Links.
	Index int
	URN   urn.URN
	Name  string
	// Type is what advertisements call it, such as "ethernet".
	Type string
	// Capacity is that of its interfaces that say nothing else, in kbit/s; 0 if
	// nothing limits them.
	Capacity   int64
	Interfaces []*Interface
}

// SharedVLAN is a VLAN that links of several slices may join. It is at hand on
// every physical link.
type SharedVLAN struct {
	Name string
	// Tag is 1 to 4094.
	Tag         int
	Description string
	// Restricted VLANs are advertised and refused: what joins them is for the
	// operators to arrange.
	Restricted bool
}

// Monitoring is the infrastructure monitoring that the site offers.
type Monitoring struct {
	// Type is such as "oml"; Doc is a URL, or empty.
	Type, Doc string
	Metrics   []Metric
}

// Metric is one thing that is measured.
type Metric struct{ ID, Description, Unit string }
