//go:build attack

package xmltree

import (
	"bytes"

	"github.com/lestrrat-go/libxml2/parser"

	"patchbay/credentials/rule"
)

// parserInput returns options that replace entities if rule.Doctype is switched off. If
// rule.OneRoot is switched off, the text ends after the root.
func parserInput(text []byte) ([]byte, parser.Option) {
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

// canonicalLimit is in bytes.
func canonicalLimit(source []byte) int {
	if !rule.Growth.Broken(true) {
		return 1 << 30
	}
	return canonicalGrowth*len(source) + canonicalRoom
}
