// Package inventory describes what the site offers: components, sliver types,
// images, capacities, locations and gateways. Load reads the operator's
// inventory.yaml into an Inventory that never changes afterwards; a changed file
// is a new Inventory.
//
//	Inventory ─┬─< SliverType ──< Image
//	           ├─< Component ──< SliverType      what it offers
//	           │       ├── Location, Gateway     where it is, how to reach it
//	           │       ├── Provider              who makes slivers on it
//	           │       └─< Interface >── Link    how it is joined to others
//	           ├── VLAN tags, shared VLANs, addresses of links, public addresses
//	           └── policies: unknown images, exclusive use of shared components, …
//
// A file is accepted completely or not at all: all mistakes in it are reported with
// their lines and remedies, and an unknown key is a mistake. Lists contain entries
// with a name; no name is a key.
//
// Compare lists the differences between two inventories. Consequences lists what an
// inventory means for existing slivers, under whatever inventory they were reserved.
//
// The package does not record reservations (am/binder does), starts no provider
// (inventory/provider does) and writes no documents (rspec does).
//
// It answers what the GENI RSpec v3 text says of components: component_id,
// exclusive, sliver_type, disk_image, hardware_type, location, interface and link.
//
// # Decisions
//
//   - changed component_id: the component is found by name and provider, so that no machine is
//     offered twice. Manifests keep the old URN: [Consequences].
//   - held interface, tag or address that left the inventory: it does not count until it returns;
//     start, check and reload warn: [Consequence].
package inventory
