// Package client calls any aggregate manager, as an experimenter's tool does.
// Packages experiment, session and conformance, and so all commands of experimenters and
// probe, use it; the server never imports it.
//
//	Client ── Call ──────> Reply{Code, Detail, AMType, Output, Value, Took}
//	   └───── Allocate … ─> a typed result and the Reply
//
// Each call is one HTTP request, so a context can end one call without affecting
// others. A Client never retries a call and returns answers unchanged, except that
// the typed calls unpack compressed RSpecs.
//
// github.com/kolo/xmlrpc encodes calls, and decodes the answers of typed calls into structs.
// It has no limits, and loses bytes of some forms of text. So an answer that is not plain is
// decoded by am/api/xmlrpc, like every answer of Call; see isPlain.
//
// A client certificate is sent unchanged and never parsed, because Go's parser refuses some
// certificates of the federation.
//
// The typed calls are those of the AM API v3, "API methods". Methods of other versions
// go through Call.
package client
