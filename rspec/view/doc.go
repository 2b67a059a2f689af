// Package view reads any RSpec, also an invalid one: requests, manifests and advertisements of GENI
// 3 and ProtoGENI 2.
//
// Read converts a document to a Document with its nodes, links and offers. rspec/draw draws it, and
// am/client/experiment, rspec/radl and am/client/conformance read manifests and advertisements of any aggregate by it.
// Hostile documents do no harm, because size and depth are limited.
//
// The package never validates a document (patchbay/rspec does) and never edits one.
package view
