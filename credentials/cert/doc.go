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
// CATedCACerts.pem, in which other software repeats the certificates of all other
// files. An anchor covers the authority in its own URN and all authorities below it. A
// file NAME.authorities lists further authorities that the anchors of NAME.pem cover,
// one per line, with # before a comment. An anchor without a URN covers only those.
//
// An anchor need not be a CA: the operator trusts each certificate in the folder
// that is within its dates and not revoked.
//
// Every NAME.crl contains certificate revocation lists: PEM blocks X509 CRL, or one
// list in DER. A list applies to a certificate if both have the same issuer name and
// were signed with the same key. That key belongs to an anchor, or to an authority
// between an anchor and the certificate. The key usage in the issuer's
// certificate is not checked: a key that may issue may also revoke, and an issuer may
// have several certificates, of which a user chooses one to present. If an issuer has
// several lists, all of them apply. A list that is older than the list that it replaces
// in its file is a Problem, and both apply. A list whose next update is overdue still
// revokes, and the certificates that it does not list are accepted. A list that is not
// the complete list of one issuer, or has a critical extension that is not evaluated
// here, is not used and reported as a Problem.
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
// In an entry an authority is identified by the URN in its certificate; the files
// .authorities do not matter. An issuer without a URN is named as openssl prints it with
// -nameopt RFC2253; no comment can follow such a name. If no anchor has the URN of an
// issuer, several certificates with different names may exist for the issuer's key. Then
// the serial number is refused for every issuer of the same authority that is not an
// anchor.
//
// A revoked certificate is refused as a leaf and as an authority, and a revoked
// anchor is not an anchor. A Folder is read again at every change. If a changed CRL file
// or deny list has an error, or ends within a line, its former entries still apply, in
// addition to the valid ones in the file, until the file is corrected or removed. A
// truncated deny list that ends with a complete line is not recognized as truncated, so
// do not edit the file in place: write a new file and rename it.
//
// # Specifications
//
// The package implements the certificate rules of the GENI AM API, and RFC 5280 as far
// as chains of GENI authorities use it: no policies, no delta or indirect CRLs, no
// download from distribution points. Certificates with critical name constraints are
// refused, and so are those with any other critical extension that is not evaluated here.
//
// # Decisions
//
//   - certificate without URN: in a chain it keeps the limits of the certificates above it:
//     [isCovered].
//   - scope of a CRL: it revokes certificates of any issuer with its subject and key. The key
//     usage does not matter, because a user chooses which issuer certificate to show:
//     [RevocationList].
//   - CRL older than its predecessor in the file: both apply until the newer one is in the file
//     again or the file is removed: [listFile].
//   - revoked anchors: they are no anchors any more. The deny list also refuses everything that a
//     denied authority issued: [RevokedAnchor].
//   - fingerprints of ECDSA certificates: both forms of the signature count, because anyone can
//     compute the other form: [alternateHash].
//   - certificates of version 1 and 2: they issue only as anchors, because they cannot state that
//     they are a CA: [checkIssuer].
package cert
