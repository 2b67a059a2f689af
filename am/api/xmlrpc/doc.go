// Package xmlrpc encodes and decodes XML-RPC calls and answers. It knows nothing of
// GENI and HTTP: bytes in, values out, and the other way round.
//
//	wire                          Go
//	string, untyped value         string
//	int, i4, i8                   int
//	boolean                       bool
//	double                        float64
//	struct                        Struct, members in their order
//	array                         []Value
//	base64                        []byte
//	dateTime.iso8601              time.Time   (read, never written)
//	nil, ex:nil                   nil         (read, never written)
//
// The reader does not trust its input, which any host may have sent. It accepts
// variants that deployed clients send: comments and CDATA inside of text, blanks
// around numbers, missing params, booleans as words. It refuses input that two
// readers could understand in two ways: a document type, unmatched end tags,
// content after the root element, two members with one name, stray text, invalid
// UTF-8. A document is UTF-8 unless it declares US-ASCII or ISO-8859-1. Depth, the
// number of values and the length of a tag are limited. The caller must limit the
// size of the document.
//
// The writer is deterministic and writes ASCII only. It writes any other character
// as a numeric reference, and U+FFFD for a character that XML does not allow.
//
// It implements the XML-RPC specification (xmlrpc.com/spec) and the
// "Specification for Fault Code Interoperability".
//
// # Decisions
//
//   - long tags: a tag of more than 4096 bytes is refused, because the decoder needs far more
//     memory for its attributes: [maxTag].
//   - unused XML: attributes and processing instructions are skipped. Everything else is read as
//     libxml2 reads it: [DecodeCall].
package xmlrpc
