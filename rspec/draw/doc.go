// Package draw makes pictures of RSpecs: requests, manifests and
// advertisements of GENI RSpec version 3, and of its older sister ProtoGENI 2.
//
// Read takes what is to be seen out of a document, and two writers show it: SVG
// for a page or a browser, Text for a terminal.
//
//	bytes ── Read ── Picture ── scene (boxes, lines) ── layout ── SVG
//	                    └── Text
//
// The scene is the drawing's own graph: a node is a box, a link of two ends is
// a line, any other link is a hub with spokes, and an interface that is nowhere
// is a dashed box. Nodes of an advertisement that only their names tell apart
// become one box, and so do those of any document with more boxes than a page
// can hold. The managers of a document with several have a frame each.
//
// The layout goes from small to large: the nodes that hang on one LAN alone
// stand along its bus; connected boxes find their places by their distances in
// the graph (chains, trees and stars have a form of their own); unconnected
// parts are packed like books on shelves; frames are arranged like boxes. Lines
// that would cross a box are bent or led around it, and labels look for a place
// where they hide nothing. It uses no random numbers: the same document gives
// the same picture.
//
// Reading is tolerant, since a picture often shows best what is wrong with a
// document. It is safe with hostile ones: size and depth are limited, labels
// are cut and lose control characters, SVG holds no scripts and no references.
//
// It never judges a document (patchbay/rspec does), and never edits one.
package draw
