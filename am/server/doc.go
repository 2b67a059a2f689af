// Package server speaks HTTP for the aggregate manager: it finds the API
// version a URL stands for, reads a bounded body, hands it with the peer's raw
// certificate chain to the API, and writes the answer with one line in the log
// and one count in the metrics.
//
//	gate ─> connection ─> ServeHTTP ─┬─ path      → version, or 404
//	                                 ├─ POST only → or 405
//	                                 ├─ caller    → not too many calls at once, or SERVERBUSY
//	                                 ├─ body      → limited in size, time and in total, or 413, 408, SERVERBUSY
//	                                 ├─ API       → api.Serve(version, chain, body)
//	                                 └─ answer    → Content-Length, gzip where asked, limited in time; event
//
// It judges nobody: any certificate may speak, and the API answers who may do
// what. It knows no method, and it never redirects, because a client that is
// redirected turns its POST into a GET. What is wrong below XML-RPC is an HTTP
// status with a sentence for the person who reads it; everything else is 200.
//
// The admin handler (health, readiness, metrics) is a second, plain listener
// that belongs on a loopback address.
//
// Everything that a peer can make it keep has a bound, and most have one for
// each address, certificate or person, too, so that nobody can use up what is
// there for all: connections, calls, bytes of calls and of answers (see Config).
// Who has most gives way first. Strangers, whom the site does not know, share what
// one caller may have.
//
// It answers AM API v3, "Transport". Overload is the code SERVERBUSY, on which
// clients try again by themselves.
//
// # Decisions
//
//   - calls of callers without a trusted certificate: they count as one caller together; before
//     that only a glance at the chain is computed: [peer].
//   - calls that change something: limited by a rate for each user or tool; callers without a
//     trusted certificate have none, because one would lock out others: [rates].
//   - too many connections: the one that has waited longest is closed, taken from the source with
//     the most; a connection being served never: [gate].
//   - metrics for other hosts: over Go's TLS with a token or client certificate, since mtls
//     demands a certificate of every client: [Server.ServeRemote].
package server
