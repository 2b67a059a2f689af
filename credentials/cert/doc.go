// Package cert reads X.509 certificates as GENI authorities really issue them
// and decides whether an anchor of this site vouches for one.
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
// The package never looks at a name in a subject, never asks the network, and
// knows no credential.
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
// while it is within its dates.
//
// It answers the certificate rules of the GENI AM API and RFC 5280 as far as
// chains of GENI authorities use it: no revocation and no policies; name
// constraints, like every critical extension not evaluated here, are refused.
package cert
