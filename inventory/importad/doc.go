// Package importad makes an inventory from an aggregate's advertisement, with the
// same component_ids.
//
//	text ── xmltree, under limits ──> advertisement ── one manager's ──> inventory.yaml
//	                                        └── what is left out, and why ──> remarks
//
// It reads RSpecs of GENI version 3 and of ProtoGENI versions 2, 0.2 and 0.1: nodes
// with their component_id, names, hardware types, sliver types and images, exclusive,
// location and interfaces; links; shared VLANs. Kept as they are written: component_ids
// of nodes and interfaces, and of a link where it stays one; names of hardware types,
// sliver types and images. Names that an inventory cannot have are changed, and the old
// name of a sliver type becomes its alias.
//
// An advertisement does not tell all that an inventory says, and says some of it only
// for a moment. So the text is for an operator to look over; its head says where:
//
//   - the provider, which nobody but the operator knows;
//   - the capacity of shared components and of interfaces, which is what was free;
//   - nodes that offer nothing while others do: switches, clouds, other networks. They
//     keep their component_ids and are drained, so nobody gets them;
//   - links. A wire from a node to a switch says nothing by itself, so all wires at one
//     switch become one link, which joins whatever is on it. What is no longer a link of
//     its own loses its component_id;
//   - tags of VLANs, which are told by stitching extensions, if at all.
//
// What is not available is not drained: it may just have been in use. Nodes and links
// of other managers are left out and counted; so is what has no component_id that is a
// URN. Operational states, services, stitching, OpenFlow, leases and whatever else an
// extension says is not read. RSpecs of SFA (network) and of OpenFlow alone hold
// nothing that could be read.
//
// The text is loaded before it is given, so what Read gives is good.
package importad
