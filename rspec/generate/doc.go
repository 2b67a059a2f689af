// Package generate writes request RSpecs for the compilers of other languages.
//
// A compiler fills a Request: nodes with constraints and steps, links with interfaces, and
// comments that explain each decision of the compiler. Request.Write returns the document, which
// rspec.ParseRequest accepts and which is valid by our schemas.
//
// The aggregate chooses the sliver type and the image of a node. Want says what the source wants of
// them.
package generate
