//go:build !attack

package xmltree

import "github.com/lestrrat-go/libxml2/parser"

// parserInput returns the text and options for the parser.
func parserInput(text []byte) ([]byte, parser.Option) { return text, parserOptions }

// canonicalLimit returns the maximal length of a document's canonical octets.
func canonicalLimit(source []byte) int { return canonicalGrowth*len(source) + canonicalRoom }
