// Package mtls is a net.Listener for mutual TLS over OpenSSL that passes on the
// peer's certificates byte for byte. It speaks TLS 1.2 and 1.3. net/http serves
// its connections like any others.
//
// It exists because crypto/tls parses a client's certificates with crypto/x509
// before any hook can run, and crypto/x509 cannot read those that the
// authorities of this world issue: their authorityInfoAccess names an object
// identifier with an arc of 128 bits.
//
//	http.Server ── Conn ── session ── libssl
//	                 │        └ memory BIOs: bytes in, bytes out, no sockets
//	                 └ net.Conn of the inner listener
//
// What a handshake here proves is that the peer holds the private key of the
// first certificate of [Conn.PeerChain]. It proves nothing about the chain:
// not who signed it, not whether it has expired, not whose name it bears. The
// room that decides answers in the protocol of the call, so that users get a
// message rather than an alert. Refused with an alert are only peers whose
// handshake would prove nothing or cost too much: no certificate, a key that
// does not sign for it, is too weak, too large or of a strange kind, more than
// ten certificates or 64 KiB of them, TLS below 1.2.
//
// The package never resumes a session (the peer's intermediates would be lost
// and its chain never looked at again), never renegotiates, sends no list of
// authorities it knows, uses no finalizers, and returns no error of a single
// connection from Accept. It sets no deadline but that of its goodbye, and that
// of the handshake, after which those that were set before count again.
//
// Handshakes cost a thousand times what anything else here does. As many as
// there are processors compute at a time, and addresses take turns.
//
// The main types are [Context] (keys, and what all connections share) and
// [Conn]. A handler, whose http.Request.TLS is nil, gets the latter by
// http.Server.ConnContext, before the handshake is done.
// http.Server.ReadHeaderTimeout covers the handshake too, which is done by the
// first Read; without it a silent peer stays for ever.
//
// It answers AM API v3, "Authentication": clients authenticate with SSL
// certificates.
//
// # Decisions
//
//   - proof of the handshake: the peer has the key. Package credentials judges trust, so that
//     users get a message instead of a TLS alert: [Conn.PeerChain].
//   - handshakes: as many run at a time as there are processors, and addresses take turns, so that
//     one address cannot delay all others: [Context.InTurn].
package mtls
