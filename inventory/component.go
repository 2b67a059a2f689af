package inventory

import (
	"net"
	"slices"
	"strconv"

	"patchbay/am"
	"patchbay/am/urn"
)

// Component is one resource that slivers can be made on.
type Component struct {
	// Index is the component's place in Inventory.Components.
	Index int
	URN   urn.URN
	Name  string
	// Exclusive components hold one sliver at a time; the others are shared up
	// to their capacity.
	Exclusive     bool
	HardwareTypes []string
	// SliverTypes it offers, at least one; the first is its own default.
	SliverTypes []*SliverType
	// Capacity is the sum of what slivers may need. Of an exclusive component
	// it is one slot.
	Capacity am.Amount
	Location *Location // nil if unknown
	// Provider is the name of the provider instance that makes slivers on it.
	Provider string
	Gateway  *Gateway // nil if its nodes are reached directly
	// Interfaces are those that the inventory names.
	Interfaces []*Interface
	// Drained components keep the slivers they have and take no new ones.
	Drained bool
	// Settings are for the provider.
	Settings map[string]string
	// Line is where its entry begins in the file.
	Line int
}

// Offers reports whether slivers of type t can be made on c.
func (c *Component) Offers(t *SliverType) bool { return slices.Contains(c.SliverTypes, t) }

// Wired reports whether the inventory knows how c is joined to others. The network
// of a component that is not wired is its provider's affair: nothing of it is
// chosen or counted.
func (c *Component) Wired() bool { return slices.ContainsFunc(c.Interfaces, (*Interface).Carries) }

// Location is where components stand.
type Location struct {
	Name string
	// Country is an ISO 3166 code of two letters.
	Country string
	// Latitude and Longitude are WGS 84 degrees as decimal text; both or neither.
	Latitude, Longitude string
}

// Gateway is an SSH host in front of nodes.
type Gateway struct {
	Name string
	Host string
	Port int
	User string // empty: each experimenter's own login
}

// Door is the gateway as host:port or user@host:port; "" for none.
func (g *Gateway) Door() string {
	if g == nil {
		return ""
	}
	door := net.JoinHostPort(g.Host, strconv.Itoa(g.Port))
	if g.User != "" {
		door = g.User + "@" + door
	}
	return door
}
