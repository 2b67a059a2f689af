// Package client calls any aggregate manager, as an experimenter's tool does.
// `patchbay call`, `patchbay demo` and the end-to-end tests use it; the server
// never imports it.
//
//	Client ── Call ──────> Reply{Code, Detail, Output, Value, Raw}
//	   └───── Allocate … ─> a typed result and the Reply
//
// Each call is one HTTP request, so that a context ends one and no other waits for
// it. am/xmlrpc writes calls and reads answers. Nothing is retried and no answer is
// mended: what the aggregate said is what the caller
// gets, compressed RSpecs apart, which the typed calls unpack.
//
// A client certificate is sent as it is in its file and is never parsed, so
// that those of the federation, which Go's parser refuses, serve here too.
//
// It answers the AM API v3, "API methods", from the caller's side; methods of
// other versions go through Call.
package client
