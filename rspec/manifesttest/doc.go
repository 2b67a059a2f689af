// Package manifesttest compares manifests with their requests byte by byte, in
// tests. It proves two things: what a manifest changes is in the list of edits
// (list_test.go), and all other bytes are the request's.
//
// The documents are those of the corpus (PATCHBAY_CORPUS), with all or some nodes ours,
// those in testdata, and both in other spellings with the same meaning. The tests of
// package rspec check which facts a manifest contains.
package manifesttest
