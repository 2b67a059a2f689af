// Package xmltree parses, validates and canonicalizes XML with libxml2, under
// limits.
//
// Parse passes a Doc to a function. When the function returns or panics, Parse frees all
// memory of libxml2. The Go tree remains valid. No C pointer leaves the package, and
// Doc.Canonical fails after the function has returned.
//
// Before libxml2 gets the text, Parse refuses texts beyond Limits, any DOCTYPE, NUL
// bytes, and texts that are not UTF-8 or declare another encoding. It accepts a byte
// order mark, white space before the document, and a declaration of XML 1.1, which it
// reads as 1.0. Doc.Source is the text that was parsed. Names must also follow the rules of
// Namespaces in XML 1.0.
//
// The package reads nothing outside the given bytes. It replaces the entity loader of
// libxml2 for the whole process. The new loader returns only the embedded schemas, and
// only to the compiler of schemas. References to schemas in documents are ignored.
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
//   - two hyphens in comments: the scan refuses them, because libxml2 is slow on them: [scan].
//   - forbidden namespace declarations: they are refused, because libxml2 drops them and other
//     readers refuse them: [checkDeclarations].
//   - loading schemas: only the compiler of the embedded schemas loads files, on its own thread;
//     documents load nothing: [isLoadable].
//   - content after a misplaced element: a document is validated up to 8 times, each time without
//     the elements that were misplaced before, so that the rest is checked too: [Doc.Validate].
package xmltree
