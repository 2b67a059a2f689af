package xmltree

import (
	"fmt"

	"patchbay/credentials/rule"
)

// Limits bound what Parse accepts. A zero field takes its default.
type Limits struct {
	// Bytes is the size of the text; default 8 MiB.
	Bytes int
	// Depth is how deep elements nest, the root being 1; default and at most 240,
	// a little less than libxml2's own limit.
	Depth int
	// Elements counts elements, comments, processing instructions and CDATA
	// sections together; default 200,000. A document holds at most twice as many
	// attributes.
	Elements int
	// Attrs is the number of attributes and namespace declarations of one
	// element; default 100.
	Attrs int
	// Namespaces is the number of namespace declarations made by an element and
	// all elements around it; default 250. The cost of Canonical grows with its
	// square.
	Namespaces int
	// NamespaceBytes is the length of a namespace's name as it is written; by
	// default only Bytes limits it. It is written once, but compared, and by
	// ExclusiveC14N10 repeated, with every element that uses it.
	NamespaceBytes int
}

// DefaultLimits are what Limits of which nothing is said come to.
func DefaultLimits() Limits {
	return Limits{Bytes: 8 << 20, Depth: 240, Elements: 200_000, Attrs: 100, Namespaces: 250, NamespaceBytes: 1 << 30}
}

// HighestLimits are as far as Limits can be set; what is beyond is cut to them.
func HighestLimits() Limits {
	return Limits{Bytes: 1 << 30, Depth: 240, Elements: 1 << 28, Attrs: 10_000, Namespaces: 10_000, NamespaceBytes: 1 << 30}
}

func (l Limits) withDefaults() Limits {
	def, highest := DefaultLimits(), HighestLimits()
	set := func(v *int, def, highest int) {
		if *v <= 0 {
			*v = def
		}
		*v = min(*v, highest)
	}
	set(&l.Bytes, def.Bytes, highest.Bytes)
	set(&l.Depth, def.Depth, highest.Depth)
	set(&l.Elements, def.Elements, highest.Elements)
	set(&l.Attrs, def.Attrs, highest.Attrs)
	set(&l.Namespaces, def.Namespaces, highest.Namespaces)
	set(&l.NamespaceBytes, def.NamespaceBytes, highest.NamespaceBytes)
	return l
}

// LimitError says which limit a document exceeds.
type LimitError struct {
	// Limit is what was counted, in plural: bytes, elements, …
	Limit string
	Max   int
	// Line and Column are where the limit was passed, both counted from 1 and the
	// column in characters; 0 for the size.
	Line, Column int
	// Rule is what stands behind the limit.
	Rule rule.Rule
}

// Breaks is Rule.
func (e *LimitError) BrokenRule() rule.Rule { return e.Rule }

func (e *LimitError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("the document has more than %d %s", e.Max, e.Limit)
	}
	return fmt.Sprintf("line %d: the document has more than %d %s", e.Line, e.Max, e.Limit)
}

// SyntaxError says why a text is not a document that Parse reads.
type SyntaxError struct {
	// Line and Column count from 1, the column in characters; both are 0 where
	// no place is concerned.
	Line, Column int
	Msg          string
	// Rule is the one that is broken; empty for what could not be read without it.
	Rule rule.Rule
}

// Breaks is Rule.
func (e *SyntaxError) BrokenRule() rule.Rule { return e.Rule }

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Msg)
}
