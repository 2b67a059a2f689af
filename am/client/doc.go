// Package client speaks to an aggregate manager as an experimenter's tool
// does. `patchbay call`, `patchbay demo` and the end-to-end tests use it; the
// server never imports it.
//
//	Client ── Call ──────> Reply{Code, Detail, Output, Value, Raw}
//	   └───── Allocate … ─> a typed result and the Reply
//
// Calls are made by kolo/xmlrpc, one HTTP request each, so that a context ends
// one and no other waits for it. The answer is read by am/xmlrpc, since kolo's
// reader cuts text at comments and CDATA and does not read base64. Nothing is
// retried and no answer is mended: what the aggregate said is what the caller
// gets, compressed RSpecs apart, which the typed calls unpack.
//
// A client certificate is sent as it is in its file and is never parsed, so
// that those of the federation, which Go's parser refuses, serve here too.
//
// It answers the AM API v3, "API methods", from the caller's side; methods of
// other versions go through Call.
package client
