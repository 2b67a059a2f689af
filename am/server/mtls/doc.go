// Package mtls is a net.Listener for mutual TLS over OpenSSL that passes on the
// peer's certificates byte for byte. It speaks TLS 1.2 and 1.3. net/http serves
// its connections like any others.
//
// It exists because crypto/tls parses a client's certificates with crypto/x509 before any hook
// can run, and crypto/x509 cannot read some certificates that GENI authorities issue: their
// authorityInfoAccess names an object identifier with an arc of 128 bits.
//
//	http.Server ── Conn ── session ── libssl
//	                 │        └ memory BIOs: bytes in, bytes out, no sockets
//	                 └ net.Conn of the inner listener
//
// A handshake proves that the peer holds the private key of the first certificate of
// [Conn.PeerChain]. It proves nothing about the chain: neither its issuer, nor its expiry,
// nor its names. Package credentials checks these, and the answer to the call reports the
// result, so that users get a message instead of a TLS alert. Only peers whose handshake
// would prove nothing or cost too much get an alert: without a certificate; with a key
// that does not match it, or that is too weak, too large or of an unknown type; with more
// than ten certificates or 64 KiB of them; with TLS below 1.2.
//
// The package never resumes a session, because then the peer's intermediates would be missing,
// and nothing would check its chain again. It never renegotiates, sends no list of accepted
// authorities and uses no finalizers. Accept returns no error of a single connection. The
// package sets only the deadlines of the handshake and of its close_notify; after the
// handshake it restores the previous deadlines.
//
// A handshake takes a thousand times the work of anything else here. So at most one per
// processor computes at a time, and addresses take turns.
//
// The main types are [Context] (keys, and what all connections share) and [Conn]. In a
// handler, http.Request.TLS is nil. http.Server.ConnContext passes the Conn to it, before the
// handshake is done. http.Server.ReadHeaderTimeout covers the handshake too, which is done by
// the first Read; without it a silent peer stays connected.
//
// It implements AM API v3, "Authentication": clients authenticate with SSL
// certificates.
//
// # Decisions
//
//   - proof of the handshake: the peer has the key. Package credentials judges trust, so that
//     users get a message instead of a TLS alert: [Conn.PeerChain].
//   - handshakes: as many run at a time as there are processors, and addresses take turns, so that
//     one address cannot delay all others: [Context.InTurn].
package mtls
