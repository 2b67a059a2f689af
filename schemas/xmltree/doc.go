// Package xmltree parses, validates and canonicalizes XML with libxml2, under
// limits.
//
// Parse passes a Doc to a function. When the function returns or panics, Parse frees all
// memory of libxml2. The Go tree may be kept. No C pointer leaves the package, and
// Doc.Canonical fails once the function has returned.
//
// Before libxml2 gets the text, Parse refuses texts beyond Limits, any DOCTYPE, NUL
// bytes, and texts that are not UTF-8 or declare another encoding. It accepts a byte
// order mark, white space before the document, and a declaration of XML 1.1, which it
// reads as 1.0. Doc.Source is the text that was parsed. Names must also be valid by
// Namespaces in XML 1.0.
//
// The package reads nothing outside the given bytes. It replaces the entity loader of
// libxml2 for the whole process. The new loader returns only the embedded schemas, and
// these only to the compiler of schemas. References to schemas in documents are ignored.
//
// Validate parses bytes and returns findings. Doc.Validate validates a parsed document.
// Findings have a line and a column, and are limited in number and length. They are only
// information; the caller decides whether to refuse the document.
//
// The package never serializes, and knows only those elements that the schemas define.
//
//	bytes ── limits, encoding ── libxml2 ── one flat copy ── Doc{Root *Element}
//	                                ├── canonical bytes of an element: Doc.Canonical
//	                                └── findings of a schema: Doc.Validate
//
// # Specifications
//
// XML 1.0, Namespaces in XML 1.0, Canonical XML 1.0 and 1.1, and Exclusive XML
// Canonicalization 1.0 (all without comments).
//
// # Decisions
//
//   - limits: a scan counts before libxml2 reads the text, and both must agree on the number of
//     elements: [scan].
//   - hyphens in comments, forbidden namespace declarations: the scan refuses them, because
//     libxml2 is slow on the first and accepts the second: [scan].
//   - only the compiler of the embedded schemas may load files, and only on its own thread;
//     documents load nothing: [isLoadable].
//   - after a misplaced element, validation runs again without it, at most 8 times:
//     [Doc.Validate].
package xmltree
