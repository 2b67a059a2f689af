//go:build !attack

package xmltree

import "github.com/lestrrat-go/libxml2/parser"

// readingOf is what of a text is parsed, and how.
func readingOf(text []byte) ([]byte, parser.Option) { return text, parserOptions }

// roomFor is how long canonical octets of a document may be.
func roomFor(source []byte) int { return canonicalGrowth*len(source) + canonicalRoom }
