// Package server is the HTTP server of the aggregate manager. For each request it finds
// the API version of the URL, reads a bounded body and passes it to the API with the
// peer's raw certificate chain. It writes the answer, one log line and one count in the
// metrics.
//
//	connLimiter ─> connection ─> ServeHTTP ─┬─ path      → version, or 404
//	                                        ├─ POST only → or 405
//	                                        ├─ caller    → number of calls limited, or SERVERBUSY
//	                                        ├─ body      → limited in size, time and in total, or 413, 408, SERVERBUSY
//	                                        ├─ API       → api.Serve(version, chain, body)
//	                                        └─ answer    → Content-Length, gzip if accepted, limited in time; event
//
// The server makes no access decision: it accepts every certificate, and the API checks
// the caller's rights. It does not know the API's methods. It never redirects, because
// clients turn a redirected POST into a GET. An error below XML-RPC is an HTTP status
// with a sentence for a human reader; every other answer has status 200.
//
// The admin handler (health, readiness, metrics) has a listener of its own without TLS,
// which belongs on a loopback address.
//
// Each resource that a peer can occupy has a limit: connections, calls, and the bytes of
// calls and answers (see Config). Most also have a limit for each address, certificate or
// user, so that no client can exhaust them. All callers without a trusted certificate share
// the limits of one caller.
//
// The package implements AM API v3, "Transport". Overload is the code SERVERBUSY, on
// which clients retry automatically.
//
// # Decisions
//
//   - callers without a trusted certificate: they share the limits of one caller, because anyone
//     can make such certificates: [peer].
//   - calls that change something: the rate of each user or tool is limited. The rate of callers
//     without a trusted certificate is not limited: they would share one limit, so that one of
//     them could lock out the others: [rates].
//   - too many connections: the server selects the address with the most waiting connections, and
//     closes the connection from there that has waited longest. It never closes a connection with
//     a call in progress: [connLimiter].
//   - metrics for other hosts: their listener uses Go's TLS with a token or a client certificate,
//     because package mtls demands a certificate of every client: [Server.ServeRemote].
package server
