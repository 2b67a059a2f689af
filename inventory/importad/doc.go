// Package importad makes an inventory from an aggregate's advertisement, with the
// same component_ids.
//
//	text ── xmltree, under limits ──> advertisement ── one manager's nodes ──> inventory.yaml
//	                                        └── omitted parts, with reasons ──> remarks
//
// It reads RSpecs of GENI version 3 and of ProtoGENI versions 2, 0.2 and 0.1: nodes
// with their component_id, names, hardware types, sliver types and images, capabilities, exclusive,
// location and interfaces; links; shared VLANs. It keeps the component_ids of nodes and
// interfaces, and those of links that are not merged. It keeps the names of hardware
// types, sliver types and images. It changes names that are not valid in an inventory;
// the old name of a sliver type becomes its alias.
//
// An advertisement lacks some facts that an inventory needs, and states others only for the
// present. So an operator must review the text. Its header lists these parts:
//
//   - the provider, which only the operator knows;
//   - the capacity of shared components and of interfaces: the advertisement states only
//     the free part;
//   - nodes without sliver types while others have some: switches, clouds, other networks.
//     They keep their component_ids and are drained, so they accept no slivers;
//   - links. All links of nodes to one switch become one link that joins their
//     interfaces. The component_ids of merged links are lost;
//   - tags of VLANs, which only some stitching extensions contain.
//
// Unavailable nodes are not drained, because they may only have been in use. Nodes and
// links of other managers are omitted and counted, and so is everything whose
// component_id is not a URN. Operational states, services, stitching, OpenFlow, leases
// and other extensions are not read. RSpecs of SFA (root network) and RSpecs with only
// OpenFlow contain nothing that can be read.
//
// Read loads the inventory before it returns the text, so the text is always valid.
package importad
