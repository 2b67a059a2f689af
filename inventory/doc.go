// Package inventory describes what the site offers: components, sliver types,
// images, capacities, locations and gateways. Load reads the operator's
// inventory.yaml into an Inventory that never changes afterwards; a changed file
// is a new Inventory.
//
//	Inventory ─┬─< SliverType ──< Image
//	           ├─< Component ──< SliverType      what it offers
//	           │       ├── Location, Gateway     where it is, how to reach it
//	           │       ├── Provider              the provider of its slivers
//	           │       └─< Interface >── Link    its physical links
//	           ├── VLAN tags, shared VLANs, addresses of links, public addresses
//	           ├── software, Ansible archives and clouds for compilers of other languages
//	           └── policies: unknown images, exclusive use of shared components, …
//
// A file is accepted completely or not at all. All mistakes are reported with their line and a
// remedy; an unknown key is a mistake. Everything with a name is a list entry with a key
// called "name"; its name is never a YAML key.
//
// Compare returns the differences between two inventories. Consequences returns the effects
// of an inventory on existing slivers, which may have been reserved under other inventories.
//
// The package does not record reservations (am/service/binder does), starts no provider
// (inventory/provider does) and writes no documents (rspec does).
//
// # Specifications
//
// The sections of the GENI RSpec v3 text on components: component_id,
// exclusive, sliver_type, disk_image, hardware_type, location, interface and link.
//
// # Decisions
//
//   - changed component_id: the component is found by name and provider, so that no machine is
//     offered twice. Manifests keep the old URN: [Consequences].
//   - reserved interface, tag or address that was removed from the inventory: it is not counted
//     until it is added again; start, check and reload warn: [Consequence].
package inventory
