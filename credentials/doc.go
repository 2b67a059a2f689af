// Package credentials turns a client certificate and the credentials of a call
// into a verified right, or explains the refusal.
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
// covers, parsed again; what kind it is, its signed type says and not the label
// it came with. The credential must be unexpired, owned by the caller, and
// signed by an authority that may speak for its target; the chains of signer,
// owner and target must lead to an anchor. One good credential suffices; a
// DeniedError carries the reason for each.
//
// # Delegation
//
// A credential with a parent is signed by the parent's owner: same name, same
// key. It gives only privileges that the parent lets be delegated (*, all of
// them), over the same certificate of the same target, and lasts no longer. So
// upwards, five levels at most, to one that an authority signed. Only users and
// tools delegate.
//
// # Who may call
//
// A caller is a user, a tool or an authority: its certificate names exactly one
// URN, and an anchor vouches for it. A user and a tool use credentials of their
// own, delegated ones too. An authority has no rights of its own.
//
// # Speaking for a user
//
// Where the option geni_speaking_for names a user other than the caller, one
// credential must say that the caller may speak for that user; then the right
// is the user's, all other credentials must be the user's, and Grant.Speaker
// tells who speaks. It comes in two forms:
//
//	type       who signs   who may speak                     what else
//	abac       the user    the tail's key, and no role       head and role name the signer's key
//	speaksfor  the user    the owner, by name and key        the target is the user, by name and key
//
// Keys are named by the SHA-1 of the key itself; what a certificate says of it
// is not read. Tools and authorities may speak, or those whom Config.Speakers
// lists. No other ABAC rule is of any use here, and without the option none is:
// it is passed over with a reason.
//
// # Where certificates come from
//
// The certificates between a leaf and its anchor may come with the TLS
// connection, in a GID or in a signature, of any level of a delegated
// credential, for leaves of all kinds: TLS clients send any prefix of their
// chain. What lies above a user may also come with the signature of the
// speaks-for credential.
//
// # What is remembered
//
// A verified credential is kept by the SHA-256 of its exact bytes, in a bounded
// store that belongs to one generation of anchors, until something in it
// expires. Owner, target, method and time, of a speaks-for credential the user
// and the tool's key, are checked on every call all the same. Refusals are not
// kept, but Glance's for a minute. A Caller that was identified under other anchors is identified again.
//
// # What a call may cost
//
// A credential has at most MaxBytes, 100 privileges, and what dsig's limits say.
// Checks of signatures, of credentials and of certificates, are paid from one
// budget for each call, the costlier kinds of keys more (cert.Budget): it holds
// for 32 credentials with long chains of RSA, and ends a hostile call after some
// 0.1 s. A stranger's certificate, and the credentials that may show who issued
// it, four and 256 kB at most, have a fifth of that; Glance, which is asked before it
// is known whether a call may be served at all, has a twelfth of a stranger's. What is remembered costs nothing.
//
// It answers the GENI AM API's sections on credentials and on privileges.
// The table from rights to privileges is in right.go.
//
// # Decisions
//
//   - cached verifications: only successes are cached, within one generation of anchors. Owner,
//     target and time are checked on every call: [Authorizer.SetAnchors].
//   - signature checks: a call has one budget, weighed by key size. A caller without a trusted
//     certificate has a fifth of it: [callBudget].
package credentials
