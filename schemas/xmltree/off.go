//go:build attack

package xmltree

import (
	"bytes"

	"github.com/lestrrat-go/libxml2/parser"

	"patchbay/credentials/rule"
)

// readingOf is what of a text is parsed, and how. A reader without Doctype
// replaces entities, one without OneRoot stops where the root ends.
func readingOf(text []byte) ([]byte, parser.Option) {
	options := parser.Option(parserOptions)
	if !rule.Doctype.Broken(true) {
		options |= parser.XMLParseNoEnt
	}
	if !rule.OneRoot.Broken(true) {
		end := []byte("</signed-credential>")
		if i := bytes.Index(text, end); i >= 0 {
			text = text[:i+len(end)]
		}
	}
	return text, options
}

// roomFor is how long canonical octets of a document may be.
func roomFor(source []byte) int {
	if !rule.Growth.Broken(true) {
		return 1 << 30
	}
	return canonicalGrowth*len(source) + canonicalRoom
}
