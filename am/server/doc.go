// Package server speaks HTTP for the aggregate manager: it finds the API
// version a URL stands for, reads a bounded body, hands it with the peer's raw
// certificate chain to the API, and writes the answer with one line in the log
// and one count in the metrics.
//
//	connection ─> ServeHTTP ─┬─ path      → version, or 404
//	                         ├─ POST only → or 405
//	                         ├─ body      → limited in size, time and in total, or 413, 503
//	                         ├─ Caller    → api.Serve(version, chain, body)
//	                         └─ answer    → Content-Length, gzip where asked; event
//
// It judges nobody: any certificate may speak, and the API answers who may do
// what. It knows no method, and it never redirects, because a client that is
// redirected turns its POST into a GET. What is wrong below XML-RPC is an HTTP
// status with a sentence for the person who reads it; everything else is 200.
//
// The admin handler (health, readiness, metrics) is a second, plain listener
// that belongs on a loopback address.
//
// It answers AM API v3, "Transport". Overload is HTTP 503, one of the ways that
// clients understand.
package server
