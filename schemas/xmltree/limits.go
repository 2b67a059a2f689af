package xmltree

import (
	"fmt"

	"patchbay/credentials/rule"
)

// Limits are the limits of documents that Parse accepts. A zero field means the default.
type Limits struct {
	// Bytes is the size of the text; default 8 MiB.
	Bytes int
	// Depth is the nesting of elements, where the root has depth 1; default and
	// maximum 240, slightly less than libxml2's own limit.
	Depth int
	// Elements counts elements, comments, processing instructions and CDATA
	// sections together; default 200,000. A document may have at most twice as many
	// attributes.
	Elements int
	// Attrs is the number of attributes and namespace declarations of one
	// element; default 100.
	Attrs int
	// Namespaces is the number of namespace declarations on an element and all
	// elements around it; default 250. The cost of Canonical grows with the square
	// of this number.
	Namespaces int
	// NamespaceBytes is the length of a namespace name as written; by default only
	// Bytes limits it. For each element that uses the name, libxml2 compares the
	// whole name, and ExclusiveC14N10 may repeat it.
	NamespaceBytes int
}

// DefaultLimits returns the defaults of Limits.
func DefaultLimits() Limits {
	return Limits{Bytes: 8 << 20, Depth: 240, Elements: 200_000, Attrs: 100, Namespaces: 250, NamespaceBytes: 1 << 30}
}

// HighestLimits returns the maxima of Limits; larger values are reduced to them.
func HighestLimits() Limits {
	return Limits{Bytes: 1 << 30, Depth: 240, Elements: 1 << 28, Attrs: 10_000, Namespaces: 10_000, NamespaceBytes: 1 << 30}
}

// withDefaults replaces zero fields by the defaults, and reduces larger fields to the maxima.
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

// LimitError is the error for a document that exceeds a limit.
type LimitError struct {
	// Limit is the counted unit, in plural: bytes, elements, …
	Limit string
	Max   int
	// Line and Column are the place where the limit was exceeded, counted from 1; the
	// column counts characters. Both are 0 if the document has too many bytes.
	Line, Column int
	Rule         rule.Rule
}

// BrokenRule returns Rule.
func (e *LimitError) BrokenRule() rule.Rule { return e.Rule }

func (e *LimitError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("the document has more than %d %s", e.Max, e.Limit)
	}
	return fmt.Sprintf("line %d: the document has more than %d %s", e.Line, e.Max, e.Limit)
}

// SyntaxError is the error for malformed text, and for other text that Parse refuses for a
// reason other than a limit.
type SyntaxError struct {
	// Line and Column are the place of the error, counted from 1; the column counts
	// characters. Both are 0 for an error without a place.
	Line, Column int
	Msg          string
	// Rule is the broken rule; empty for malformed text.
	Rule rule.Rule
}

// BrokenRule returns Rule.
func (e *SyntaxError) BrokenRule() rule.Rule { return e.Rule }

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Msg)
}
