// Package manifesttest compares manifests with their requests byte by byte, in
// tests. It proves two things: what a manifest changes is in the list of edits
// (list_test.go), and all other bytes are the request's.
//
// The documents come from testdata and from the corpus (PATCHBAY_CORPUS). In those of the
// corpus, all or some of the nodes are made our own. Each document is also tested in other
// spellings with the same meaning. The tests of
// package rspec check which facts a manifest contains.
package manifesttest
