package rule

// Readable is the rule that the input can be parsed. It cannot be switched off, since
// without parsed input there is nothing to examine.
const Readable Rule = "the input can be parsed"

// Rules for the document's text (package schemas/xmltree). The comment of a rule has the
// numbers of the attacks that the rule prevents, as in the tests of package credentials.
const (
	Doctype      Rule = "no document type"                                        // 22
	Encoding     Rule = "only UTF-8 is declared as encoding"                      // 27
	OneRoot      Rule = "nothing follows the root"                                // 28
	Namespaced   Rule = "namespace declarations are valid"                        // 26
	Bytes        Rule = "not too many bytes"                                      // 23
	Depth        Rule = "elements are not nested too deeply"                      // 23
	Elements     Rule = "not too many elements"                                   // 23
	Attributes   Rule = "not too many attributes"                                 // 23
	Declarations Rule = "not too many namespaces, and none with a long name"      // 23
	Growth       Rule = "the canonical form is not much larger than the document" // 23
)

// Rules for signatures (package credentials/dsig).
const (
	Cardinality    Rule = "an element occurs at most as often as allowed, and only allowed elements occur" // 3
	Names          Rule = "every element is in the expected namespace"                                     // 26
	OneID          Rule = "an id occurs once"                                                              // 4
	OwnID          Rule = "a credential has an xml:id"                                                     // 3, 4
	TextOnly       Rule = "a value contains only text"                                                     // 24
	Chain          Rule = "not too many nested credentials"                                                // 23
	SignatureCount Rule = "not too many signatures"                                                        // 23
	Signed         Rule = "every credential has a signature of its own"                                    // 2, 3, 5, 6
	SignedOnce     Rule = "a credential is signed once"                                                    // 5
	Reference      Rule = "a signature refers to its credential by id"                                     // 5, 21
	Profile        Rule = "a signature contains only supported elements"                                   // 3, 21
	Algorithm      Rule = "the algorithm is accepted"                                                      // 20
	Parameters     Rule = "an algorithm has no parameters"                                                 // 20, 21
	Transform      Rule = "the transform is accepted"                                                      // 21
	KeyInfo        Rule = "a key is given in a certificate"                                                // 21
	SignerCount    Rule = "not too many certificates in a signature"                                       // 23
	SHA1           Rule = "SHA-1 is used only if the operator allows it"                                   // 20
	Digest         Rule = "the digest matches the signed element"                                          // 1, 26, 34
	Signature      Rule = "the signature was made with the signer's key"                                   // 1, 8, 9, 20, 34
)
