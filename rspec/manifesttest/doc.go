// Package manifesttest compares manifests with their requests byte by byte, in
// tests. It checks two things: each change in a manifest is in the list of edits
// (list_test.go), and all other bytes are the same as in the request.
//
// The requests are the documents of the corpus (PATCHBAY_CORPUS), of which all or some nodes
// belong to the site, and the documents in testdata. Each is also tested in other spellings
// with the same meaning. The tests of package rspec check which facts a manifest contains.
package manifesttest
