// Package cert reads the X.509 certificates of GENI authorities and verifies their
// chains against anchors, revocation lists and the deny list.
//
// There is one reader, Parse, for the certificates of TLS peers, of signatures
// and of the owner_gid and target_gid of credentials: strict parsing by the
// standard library, after cutting at most one non-critical
// authorityInfoAccess extension that it cannot read. Signatures are checked
// over the original bytes.
//
// There is one verifier, Verify. A chain runs from the leaf over issuers that
// are all untrusted until shown otherwise to one of the Anchors; every step
// checks dates, signature, the right to issue, and the namespace: an authority
// speaks for its own name and the names below it, label by label.
//
// The package identifies nobody by the name in a subject, never asks the network,
// and knows no credential.
//
// # The trust folder
//
// Every NAME.pem in the folder holds one or several anchors, except
// CATedCACerts.pem, which other software writes as the sum of the rest. An
// anchor vouches for the authority in its own URN and all below it. A file
// NAME.authorities beside it names further authorities the anchors of NAME.pem
// may speak for, one to a line, # beginning a comment; an anchor without URN
// vouches for nothing else.
//
// An anchor need not be a CA: what the operator put there is trusted as such,
// while it is within its dates and not revoked.
//
// Every NAME.crl holds certificate revocation lists: PEM blocks X509 CRL, or one
// in DER. A list counts for the certificates that name its issuer as theirs and
// were issued with the key that signed the list, be that an anchor's or that of
// an authority shown between. What that certificate's key usage says of signing
// lists is not asked: who may issue with a key may take back with it, and a user
// chooses which of an issuer's certificates it shows. Several lists of one issuer
// all count, but one that is older than the list it replaces in its file is a
// Problem, and both are in force. A list that is out of date
// still revokes what it lists: that logins go on matters more here than news of
// revocations, and nobody takes a revocation back by being late. Lists that are
// no whole list of one issuer, or have critical extensions not evaluated here,
// are not used, and named as Problems.
//
// The file named denied is the operator's own list, an entry to a line, #
// beginning a comment:
//
//	urn:publicid:IDN+example.org+user+alice     # a user, tool or slice
//	urn:publicid:IDN+example.org+authority+sa   # and all that it issued
//	sha256:FINGERPRINT
//	serial 03E9 of urn:publicid:IDN+example.org+authority+sa
//	serial 03E9 of CN=example.org,C=BE
//
// An authority is meant by the URN in its certificate, not by what .authorities
// says. An issuer without URN is named as openssl prints it with -nameopt
// RFC2253; behind such a name no comment can stand. One named by a URN that no
// anchor has may have certificates of several names for its key: the number is
// refused of every issuer of that authority that is no anchor either.
//
// What is revoked is refused as a leaf and as an authority, and an anchor that
// is revoked is none. A Folder reads all that again and again. When a CRL or the
// deny list is broken, or ends within a line, what the file said before stays in
// force until it is good again or gone; a bad line voids no other. A deny list
// that ends with a line looks whole, so write another file and rename it.
//
// # What it answers
//
// The certificate rules of the GENI AM API, and RFC 5280 as far as chains of
// GENI authorities use it: no policies, no delta or indirect CRLs, nothing
// fetched from distribution points; name constraints, like every critical
// extension not evaluated here, are refused.
//
// # Decisions
//
//   - a certificate without URN in a chain: keeps the limits of those above it and never widens
//     them: [covered].
//   - which certificates a CRL revokes: those whose issuer has its subject and key, whatever the
//     key usage, because a user chooses which certificate of the issuer to show: [RevocationList].
//   - a CRL older than the one it replaces: both count until the newer one returns or the file is
//     removed: [listFile].
//   - revoked anchors: no longer anchors; the deny list also refuses everything that the denied
//     authority issued: [Struck].
//   - fingerprints in the deny list: of both forms of an ECDSA signature, since anyone can compute
//     the other: [twin].
//   - certificates of version 1 and 2 as issuers: only as anchors, because they cannot state CA:
//     [checkIssuer].
package cert
