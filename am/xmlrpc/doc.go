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
//	base64                        []byte      (read, never written)
//	dateTime.iso8601              time.Time   (read, never written)
//	nil, ex:nil                   nil         (read, never written)
//
// The reader does not trust its input, which may come from anybody. It accepts
// what deployed clients send (comments and CDATA inside of text, blanks around
// numbers, missing params, booleans in words) and refuses what two readers
// could understand in two ways: a document type, unmatched end tags, anything
// after the root, a member named twice, stray text, invalid UTF-8. A document
// is UTF-8, unless it declares US-ASCII or ISO-8859-1. Depth, the
// number of values and the length of a tag are limited; the size of the whole
// is for the caller to limit.
//
// The writer is deterministic and writes ASCII only: every other character
// becomes a numeric reference, and one that XML cannot carry becomes U+FFFD.
//
// It implements the XML-RPC specification (xmlrpc.com/spec) and the
// "Specification for Fault Code Interoperability".
//
// # Decisions
//
//   - long tags: more than 4096 bytes are refused, because the decoder needs far more memory for
//     their attributes: [maxTag].
//   - unused XML: attributes and processing instructions are skipped; the decoder reads
//     everything else as libxml2 would: [DecodeCall].
package xmlrpc
