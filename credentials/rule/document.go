package rule

// Readable is the rule that input can be parsed. It cannot be switched off, since there
// is nothing to examine otherwise.
const Readable Rule = "it can be read"

// Of the document's text (schemas/xmltree). Numbers are those of the attacks.
const (
	Doctype      Rule = "no document type"                             // 22
	Encoding     Rule = "no encoding but UTF-8 is declared"            // 27
	OneRoot      Rule = "nothing follows the root"                     // 28
	Namespaced   Rule = "namespaces are declared as they must be"      // 26
	Bytes        Rule = "not too many bytes"                           // 23
	Depth        Rule = "elements are not nested too deep"             // 23
	Elements     Rule = "not too many elements"                        // 23
	Attributes   Rule = "not too many attributes"                      // 23
	Declarations Rule = "not too many namespaces, nor with long names" // 23
	Growth       Rule = "canonical octets do not outgrow the document" // 23
)

// Of what is signed, and how (credentials/dsig).
const (
	Cardinality Rule = "what may stand once stands once, and nothing else beside it" // 3
	Names       Rule = "names are of their own namespace"                            // 26
	OneID       Rule = "an id is given once"                                         // 4
	OwnID       Rule = "a credential has an xml:id"                                  // 3, 4
	Leaf        Rule = "a value is text and nothing else"                            // 24
	Chain       Rule = "not too many credentials inside each other"                  // 23
	Crowd       Rule = "not too many signatures"                                     // 23
	Signed      Rule = "every credential is signed itself"                           // 2, 3, 5, 6
	SignedOnce  Rule = "a credential is signed once"                                 // 5
	Reference   Rule = "a signature refers to its credential by id"                  // 5, 21
	Profile     Rule = "a signature holds nothing but what is evaluated"             // 3, 21
	Algorithm   Rule = "the algorithm is on the list"                                // 20
	Parameters  Rule = "an algorithm has no parameters"                              // 20, 21
	Transform   Rule = "the transform is on the list"                                // 21
	KeyInfo     Rule = "a key comes in a certificate"                                // 21
	SignerCount Rule = "not too many certificates in a signature"                    // 23
	SHA1        Rule = "SHA-1 only where the operator allows it"                     // 20
	Digest      Rule = "the digest is of what was signed"                            // 1, 26, 34
	Signature   Rule = "the signature is by the signer's key"                        // 1, 8, 9, 20, 34
)
