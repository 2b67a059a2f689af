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
// Every credential in that chain must be the object of exactly one signature
// with exactly one Reference, by algorithms of a short list. What comes back
// are the canonical octets that were digested; whoever wants to know what a
// credential says must read it from these alone.
//
// Refused are names in the wrong namespace, an id given twice in any spelling,
// CDATA, comments inside text, text between elements, references to anything but
// a credential of the chain, transforms and parameters beyond the profile, and
// key material other than certificates where it would be followed. Each refusal
// names its rule (package rule). Keys are taken from certificates only; whether a
// certificate is trusted is not decided here.
//
// Sign makes the form that Verify reads.
//
// It answers XML Signature Syntax and Processing as far as the GENI AM API's
// credentials use it.
//
// # Decisions
//
//   - unused signatures: they are ignored. A signature that may refer to a credential of the chain
//     must follow the profile: [document.concerns].
//   - keys: only certificates in X509Data count, because a signer can write anything into KeyValue
//     and names: [signature.readKeys].
//   - canonical bytes: at most four times the document and 64 kB, because every element repeats
//     the namespaces in scope: [DefaultLimits].
package dsig
