// Package xmltree parses, validates and canonicalizes XML with libxml2, under
// limits.
//
// Parse lends a Doc to a function and frees everything that libxml2 holds when
// the function returns, also when it panics. The Go tree may be kept; no C
// pointer leaves the package, and Doc.Canonical answers an error once the
// function has returned.
//
// What is refused before libxml2 sees a byte: more than Limits allows, any
// DOCTYPE, NUL bytes, text that is not UTF-8 or declares another encoding.
// What is tolerated: a byte order mark, white space before the document, and a
// declaration of XML 1.1, which is read as 1.0; Doc.Source is the text as it
// was really parsed. Names must be right by Namespaces in XML 1.0 as well.
//
// Nothing outside the given bytes is ever read: the process-wide entity loader
// of libxml2 is replaced by one that denies everything but our embedded
// schemas, and those only to the compiler of schemas. What a document says of
// the whereabouts of schemas is ignored.
//
// Validate goes from bytes to findings; Doc.Validate judges a document that is
// being read. Findings are bounded in number and length, have a line and a
// column, and inform: whether to refuse is for others to say.
//
// It never serializes, and knows of elements only what the schemas tell.
//
//	bytes ── limits, encoding ── libxml2 ── one flat copy ── Doc{Root *Element}
//	                                ├── octets of an element: Doc.Canonical
//	                                └── findings of a schema: Doc.Validate
//
// It answers XML 1.0, Namespaces in XML 1.0, Canonical XML 1.0 and 1.1, and
// Exclusive XML Canonicalization 1.0 (all without comments).
//
// # Decisions
//
//   - limits: a scan counts before libxml2 reads the text, and both must agree on the number of
//     elements: [scan].
//   - hyphens in comments, forbidden namespace declarations: the scan refuses them, because
//     libxml2 is slow on the first and accepts the second: [scan].
//   - loading schemas: only the compiler of the embedded schemas may, on its own thread; documents
//     load nothing: [loads].
//   - content after a misplaced element: it is judged too, without that element, at most 8 times:
//     [Doc.Validate].
package xmltree
