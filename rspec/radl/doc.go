// Package radl compiles RADL, the Resource and Application Description Language of the
// Infrastructure Manager, to request RSpecs.
//
//	text or JSON ── Parse ──> *Document ── Compile ──> *generate.Request
//	*Document ── Text, JSON ──> RADL again, which parses to the same Document
//	manifest ── FromManifest ──> *Document of what exists
//
// Parse reads and checks the document and reports all mistakes with line and column. It replaces
// parameters (@input.NAME@) first, so that a Document has none.
//
//	systems ──> nodes with constraints, image and sliver type
//	networks ──> links with addresses
//	recipes, contextualize ──> steps of the nodes
//
// Compile merges the document with the earlier ones of the slice, and explains its choices in
// comments of the request.
//
// # Decisions
//
//   - networks: each network with a node is a link, also a public one, because the nodes must reach
//     each other where there are no public addresses: [compiler.addLinks].
//   - ranges with *: they are chosen document by document, so that a network keeps its range when
//     later documents come: [compiler.chooseRanges].
//   - applications: the image must have those that a suitable image of the site has; others are
//     installed: [compiler.addApplications].
//   - roles: every node that runs recipes installs the roles of all systems, since no node plays
//     recipes for another one: [compiler.collectRoles].
//   - recipes: hosts and become are inserted as text, so that all other bytes arrive as they were
//     written: [source.insert].
package radl
