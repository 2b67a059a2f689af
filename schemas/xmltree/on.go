//go:build !attack

package xmltree

import "github.com/lestrrat-go/libxml2/parser"

func parserInput(text []byte) ([]byte, parser.Option) { return text, parserOptions }

// canonicalLimit is in bytes.
func canonicalLimit(source []byte) int { return canonicalGrowth*len(source) + canonicalRoom }
