// Package client calls any aggregate manager, as an experimenter's tool does.
// `patchbay call`, `patchbay demo` and the end-to-end tests use it; the server
// never imports it.
//
//	Client ── Call ──────> Reply{Code, Detail, AMType, Output, Value, Took}
//	   └───── Allocate … ─> a typed result and the Reply
//
// Each call is one HTTP request, so a context can end one call without affecting
// others. am/xmlrpc encodes calls and decodes answers. A Client never retries a call
// and returns answers unchanged, except that the typed calls unpack compressed RSpecs.
//
// A client certificate is sent unchanged and never parsed, because Go's parser refuses some
// certificates of the federation.
//
// The typed calls are those of the AM API v3, "API methods". Methods of other versions
// go through Call.
package client
