// Package draw draws RSpecs as SVG and as text: requests, manifests and
// advertisements of GENI 3 and ProtoGENI 2.
//
// Two functions write a document that rspec/view has read: SVG for a page or a browser, Text for a
// terminal.
//
//	view.Document ── scene (boxes, lines) ── layout ── SVG
//	      └── Text
//
// The scene is the graph that is drawn. A node is a box, a link with two ends is a line, and
// any other link is a hub with spokes. An interface that the document names but does not
// contain is a dashed box. Nodes of an advertisement that differ only in their names share one
// box; if a page cannot hold all boxes, nodes of requests and manifests also share boxes. In a
// document with several managers each manager has a frame.
//
// The layout proceeds from small to large. Nodes whose only link is one LAN are
// placed along the bus of that LAN. Connected boxes are placed by their distances
// in the graph; chains, trees and stars have special forms. Unconnected parts
// are packed in rows. Frames are arranged like boxes. A line that would cross a
// box is bent or led around it, and each label gets a place where it hides
// nothing. The layout uses no random numbers: the same document gives the same
// picture.
//
// A hostile document does no harm: labels are cut and stripped of control characters, and the
// SVG contains no scripts and no references.
//
// # Decisions
//
//   - layout: deterministic, so that equal documents give equal drawings. Above 400 nodes they are
//     grouped by kind, then by manager: [scene.layOut], [maxBoxes].
package draw
