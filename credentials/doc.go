// Package credentials turns a client certificate and the credentials of a call
// into a verified right, or says why not.
//
// An Authorizer holds one generation of trust anchors. Identify says who is at
// the other end of a TLS connection; Authorize checks the credentials that
// caller presents for one method and gives a Grant. A Grant has no exported
// fields and its zero value grants nothing, so whoever asks for one in a
// signature has it proven: Grant.Over names the slice and says until when.
//
//	raw chain ── Identify ── Caller ──┐
//	                                  ├── Authorize ── Grant ── Over(slice) ── expiry
//	documents ── dsig.Verify ── read ─┘
//
// Whatever is read of a credential is read from the octets its signature
// covers, parsed again. The credential must be unexpired, owned by the caller,
// and signed by an authority that may speak for its target; the chains of
// signer, owner and target must lead to an anchor. One good credential
// suffices; a DeniedError carries the reason for each.
//
// # Who may call
//
// A caller is a user: its certificate names exactly one URN of type user and
// an anchor vouches for it. Certificates of tools and authorities are refused,
// because a tool acts for a user only by a speaks-for credential and an
// authority by none; a speaks-for option that names the caller is harmless.
// Delegated credentials, those with a parent, are refused too.
//
// The certificates between a leaf and its anchor may come with the TLS
// connection, in a GID or in a signature, for leaves of all three kinds: TLS
// clients send any prefix of their chain.
//
// # What is remembered
//
// A verified credential is kept by the SHA-256 of its exact bytes, in a bounded
// store that belongs to one generation of anchors, until something in it
// expires. Owner, target, method and time are checked on every call all the
// same. Refusals are not kept.
//
// It answers the GENI AM API's sections on credentials and on privileges.
// Privileges gives the table from methods to privileges.
package credentials
