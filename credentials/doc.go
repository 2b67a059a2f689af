// Package credentials turns a client certificate and the credentials of a call
// into a verified right, or explains the refusal.
//
// An Authorizer contains one generation of trust anchors. Identify returns the caller at
// the other end of a TLS connection. Authorize checks the credentials that the caller
// presents for one method and returns a Grant. A Grant has no exported fields and its
// zero value grants nothing. A function with a Grant as parameter thus gets a verified
// right. Grant.Over checks that the right covers a slice, and returns when it ends.
//
//	raw chain ── Identify ── Caller ──┐
//	                                  ├── Authorize ── Grant ── Over(slice) ── expiry
//	documents ── dsig.Verify ── read ─┘
//
// A credential is parsed from the bytes that its signature covers. Its kind is the signed
// type, not the label that the client sent. The credential must be unexpired, belong to
// the caller, and be signed by an authority that covers its target. The chains of signer,
// owner and target must lead to an anchor. One valid credential suffices. A DeniedError
// contains the reason for each invalid one.
//
// # Delegation
//
// A credential with a parent is signed by the parent's owner: same name, same key. It
// contains only privileges that the parent allows to delegate (* allows all of them). It
// has the parent's target with the same certificate, and does not expire after the parent.
// The credential at the other end of the chain is signed by an authority. A chain has at
// most five levels. Only users and tools delegate.
//
// # Who may call
//
// A caller is a user, a tool or an authority: its certificate names exactly one
// URN, and its chain leads to an anchor. Users and tools use their own credentials,
// also those delegated to them. An authority has no rights of its own.
//
// # Speaking for a user
//
// If the option geni_speaking_for names a user other than the caller, one credential
// must let the caller speak for that user. Then the right is the user's, all other
// credentials must belong to the user, and Grant.Speaker returns the caller. Such a
// credential has one of two forms:
//
//	type       signer      speaker                           further conditions
//	abac       the user    the tail's key, and no role       head and role name the signer's key
//	speaksfor  the user    the owner, by name and key        the target is the user, by name and key
//
// A key is identified by the SHA-1 of the key itself, not by the key identifier in its
// certificate. Tools and authorities may speak for users; if Config.Speakers lists
// names, only these may. Other ABAC rules are refused with a reason, and so are
// speaks-for credentials without the option.
//
// # Where certificates come from
//
// TLS clients often send only part of their chain. So the certificates between a leaf
// and its anchor may come from the TLS connection, from a GID, or from a signature, at
// any level of a delegated credential. This holds for leaves of all kinds. Certificates
// above a user may also come from the signature of the speaks-for credential.
//
// # Caches
//
// A verified credential is cached by the SHA-256 of its exact bytes until it, or a
// certificate of its chains, expires. The cache is bounded and belongs to one generation
// of anchors. Owner, target, method and time are checked on every call, and so are user
// and tool of a speaks-for credential. Refusals are not cached; only IdentifyCheaply caches
// its refusals, for a minute. A Caller that was identified under other anchors is
// identified again.
//
// # Limits of a call
//
// A credential has at most MaxBytes, 100 privileges, and the limits of package dsig. All
// signature checks of a call, on credentials and certificates, share one budget, in
// which expensive keys count more (cert.Budget). It suffices for 32 credentials with
// long RSA chains, and ends a hostile call after about 0.1 s. A caller without a trusted
// certificate has a fifth of it, and only its first four credentials, at most 256 kB,
// are searched for missing issuers. IdentifyCheaply runs before a call is admitted and
// has a twelfth of that fifth. Cached results cost nothing.
//
// # Specifications
//
// The package implements the sections of the GENI AM API on credentials and on
// privileges. The table of rights and privileges is in right.go.
//
// # Decisions
//
//   - cached verifications: only successes are cached, apart from IdentifyCheaply, within one generation of anchors. Owner,
//     target and time are checked on every call: [Authorizer.SetAnchors].
//   - signature checks: a call has one budget, weighed by key size. A caller without a trusted
//     certificate has a fifth of it: [callBudget].
package credentials
