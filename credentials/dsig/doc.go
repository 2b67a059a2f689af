// Package dsig verifies the signatures of credentials, and returns the signed
// bytes and the signers.
//
// Verify knows one profile of XML signatures, the one of SFA credentials:
//
//	<signed-credential>
//	  <credential xml:id="ref0">…<parent><credential xml:id="ref1">…</credential></parent></credential>
//	  <signatures> <Signature>… Reference URI="#ref0" …</Signature>+ </signatures>
//	</signed-credential>
//
// Exactly one signature must cover each credential of the chain. It must have exactly
// one Reference and use algorithms of a short list. Verify returns the canonical bytes
// that were digested. Callers must read the content of a credential only from these.
//
// Verify refuses names in the wrong namespace, ids that occur twice in any spelling,
// CDATA, comments inside text, and text between elements. It also refuses references to
// anything but a credential of the chain, and transforms, parameters and key material
// outside the profile. Each refusal names its rule (package rule). Keys are taken from
// certificates only. Whether a certificate is trusted is decided in package cert.
//
// Sign writes the form that Verify reads.
//
// # Specifications
//
// XML Signature Syntax and Processing, as far as the credentials of the GENI AM API use
// it.
//
// # Decisions
//
//   - unused signatures: they are ignored. A signature that may refer to a credential of the chain
//     must follow the profile: [document.concerns].
//   - keys: only certificates in X509Data count, because a signer can write anything into KeyValue
//     and KeyName: [signature.readKeys].
//   - canonical bytes: their size is limited to four times the document plus 64 kB, because every
//     element may repeat the namespaces in scope: [DefaultLimits].
package dsig
