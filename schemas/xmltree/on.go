//go:build !attack

package xmltree

import "github.com/lestrrat-go/libxml2/parser"

// readingOf returns the text and options for the parser.
func readingOf(text []byte) ([]byte, parser.Option) { return text, parserOptions }

// roomFor returns the maximal length of a document's canonical octets.
func roomFor(source []byte) int { return canonicalGrowth*len(source) + canonicalRoom }
