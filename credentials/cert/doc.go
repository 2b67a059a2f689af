// Package cert reads the X.509 certificates of GENI authorities and verifies their
// chains against anchors, revocation lists and the deny list.
//
// Parse is the only reader. It reads the certificates of TLS peers, of signatures
// and of the owner_gid and target_gid of credentials. It uses the strict parser of
// the standard library, after removing at most one non-critical
// authorityInfoAccess extension that this parser rejects. Signatures are checked
// over the original bytes.
//
// Verify is the only verifier. A chain runs from the leaf over issuers, which are
// untrusted until verified, to one of the Anchors. Every step checks dates,
// signature, the right to issue, and the namespace: an authority may certify its
// own name and the names below it, label by label.
//
// The package never takes an identity from a subject, never uses the network, and
// knows nothing of credentials.
//
// # The trust folder
//
// Every NAME.pem in the folder contains one or several anchors, except
// CATedCACerts.pem, which other software writes as the sum of the rest. An anchor
// covers the authority in its own URN and all below it. A file NAME.authorities
// beside it lists further authorities that the anchors of NAME.pem cover, one per
// line, with # before a comment. An anchor without a URN covers only those.
//
// An anchor need not be a CA: the operator trusts each certificate in the folder
// while it is within its dates and not revoked.
//
// Every NAME.crl contains certificate revocation lists: PEM blocks X509 CRL, or one list in
// DER. A list applies to a certificate if both have the same issuer name and were signed with
// the same key. That key belongs to an anchor or to an intermediate authority. The key usage
// of that key's certificate is not checked: a key that may issue may also revoke, and a user
// chooses which of an issuer's certificates to show. Several lists of one issuer all apply. A
// list that is older than the one it replaces in its file is a Problem, and both apply. An
// outdated list still revokes, because working logins matter more here than recent
// revocations, and a late list withdraws no revocation. Lists that are not the complete list
// of one issuer, or have critical extensions that are not evaluated here, are ignored, and
// each is reported as a Problem.
//
// The file named denied is the operator's own list, one entry per line, with #
// before a comment:
//
//	urn:publicid:IDN+example.org+user+alice     # a user, tool or slice
//	urn:publicid:IDN+example.org+authority+sa   # and all that it issued
//	sha256:FINGERPRINT
//	serial 03E9 of urn:publicid:IDN+example.org+authority+sa
//	serial 03E9 of CN=example.org,C=BE
//
// An authority is identified by the URN in its certificate, not by .authorities.
// An issuer without a URN is named as openssl prints it with -nameopt RFC2253; no
// comment can follow such a name. If no anchor has the issuer's URN, the issuer may have
// several certificates with different names. The line then refuses the serial number for
// every issuer with that URN that is not an anchor.
//
// A revoked certificate is refused as a leaf and as an authority, and a revoked
// anchor is not an anchor. A Folder is read again at every change. When a CRL or the
// deny list is broken, or ends within a line, its previous content also stays in force
// until the file is corrected or removed. An invalid line does not affect the others.
// A truncated deny list that ends with a complete line cannot be recognized, so
// write another file and rename it.
//
// # Specifications
//
// The certificate rules of the GENI AM API, and RFC 5280 as far as chains of GENI
// authorities use it: no policies, no delta or indirect CRLs, no download from
// distribution points. Certificates with name constraints are refused, like those
// with any other critical extension that is not evaluated here.
//
// # Decisions
//
//   - certificate without URN: in a chain it keeps the limits of the certificates above it:
//     [isCovered].
//   - scope of a CRL: a CRL covers every issuer that has the subject and key of the CRL's
//     signer. The key usage does not matter, because a user chooses which issuer certificate
//     to show: [RevocationList].
//   - CRL older than its predecessor: both count until the newer one returns or the file is
//     removed: [listFile].
//   - revoked anchors: they are no anchors any more. The deny list also refuses everything that a
//     denied authority issued: [RevokedAnchor].
//   - fingerprints of ECDSA certificates: both forms of the signature count, because anyone can
//     compute the other form: [alternateHash].
//   - certificates of version 1 and 2: they issue only as anchors, because they cannot state that
//     they are a CA: [checkIssuer].
package cert
