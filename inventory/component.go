package inventory

import (
	"net"
	"slices"
	"strconv"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/rspec/match"
)

// Component is a resource on which slivers can be created.
type Component struct {
	// Index is the component's index in Inventory.Components.
	Index int
	URN   urn.URN
	Name  string
	// Exclusive reports whether the component holds only one sliver at a time. Slivers
	// share other components up to their capacity.
	Exclusive     bool
	HardwareTypes []string
	// SliverTypes are the types that the component offers, at least one; the first is its
	// default.
	SliverTypes []*SliverType
	// Capacity limits the sum of the slivers' needs. An exclusive component has one slot.
	Capacity am.Amount
	// Capabilities are those in the inventory; CapabilitiesOf returns all.
	Capabilities map[string]match.Capability
	Location     *Location // nil if unknown
	// Provider is the name of the provider instance that creates slivers on the
	// component.
	Provider string
	Gateway  *Gateway // nil if users reach the nodes directly
	// Interfaces are the interfaces in the inventory; a provider may have others.
	Interfaces []*Interface
	// Drained reports whether the component accepts no new slivers. It keeps its slivers.
	Drained bool
	// Settings are passed to the provider.
	Settings map[string]string
	// Line is the first line of the component's entry in the file.
	Line int

	country *match.Capability // of Location; nil if unknown
}

// Offers reports whether slivers of type t can be created on c.
func (c *Component) Offers(t *SliverType) bool { return slices.Contains(c.SliverTypes, t) }

// IsWired reports whether the inventory lists an interface of c on a physical link. For
// other components, Patchbay neither chooses interfaces nor counts their capacity, since
// only the provider manages the network.
func (c *Component) IsWired() bool {
	return slices.ContainsFunc(c.Interfaces, (*Interface).CarriesLinks)
}

// Location is a geographic place of components.
type Location struct {
	Name string
	// Country is an ISO 3166 code of two letters.
	Country string
	// Latitude and Longitude are WGS 84 degrees as decimal text; both or neither.
	Latitude, Longitude string
}

// Gateway is an SSH host through which users reach nodes.
type Gateway struct {
	Name string
	Host string
	Port int
	User string // empty: each experimenter's own login
}

// Address returns the gateway as host:port or user@host:port; "" for a nil gateway.
func (g *Gateway) Address() string {
	if g == nil {
		return ""
	}
	address := net.JoinHostPort(g.Host, strconv.Itoa(g.Port))
	if g.User != "" {
		address = g.User + "@" + address
	}
	return address
}
