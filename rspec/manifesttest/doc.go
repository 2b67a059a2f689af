// Package manifesttest compares manifests with their requests byte by byte, in
// tests. It proves two things: what a manifest changes is in the list of edits
// (list_test.go), and all other bytes are the request's.
//
// The documents are the corpus (PATCHBAY_CORPUS), read as all ours and as partly
// ours, those in testdata, and both in other spellings that mean the same.
// Which facts a manifest tells, and how, is proved in package rspec.
package manifesttest
