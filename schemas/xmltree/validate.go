package xmltree

/*
#include "findings.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"patchbay/schemas"
)

// MaxFindings is how many findings about one document are told.
const MaxFindings = 100

// maxPieces is into how many pieces comments may cut the text of an element that
// holds no elements: libxml2 joins them in a time that grows with the square.
const maxPieces = 1000

// maxRepeated is how many bytes of names of namespaces may be handled for each
// byte of a document: libxml2 compares and copies the whole name with every
// element and attribute. Real documents need one or two in each pass.
const maxRepeated = 32

// passes is how often a document is judged at most, each time without the
// elements that were not expected before.
const passes = 8

// Finding is one thing that a schema has against a document.
type Finding struct {
	// Line and Column are where the attribute or the start tag concerned begins,
	// counted from 1 in the bytes given to Parse; the column counts characters.
	// Both are 0 for what concerns no place.
	Line, Column int
	// Element is the name of the element concerned, as the document spells it.
	Element string
	// Attribute is the name of the attribute concerned, if one is.
	Attribute string
	// Msg says what is wrong and what would have been accepted, in one line of
	// bounded length.
	Msg string
}

func (f Finding) String() string {
	if f.Line == 0 {
		return f.Msg
	}
	return fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Msg)
}

// UnknownKindError says why a document is judged by no schema.
type UnknownKindError struct {
	Line, Column int
	Msg          string
}

func (e *UnknownKindError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Msg) }

// Validate reads text and judges it by the schema of its kind and by those of
// the extensions that are known. Kind "" is the one that the root's type
// attribute names. No findings: the document is valid.
//
// Errors are *SyntaxError and *LimitError, as those of Parse, and, for kind "",
// *UnknownKindError for a document that is no RSpec of GENI version 3 or has an
// unknown type. It panics for an unknown kind.
func Validate(text []byte, kind schemas.Kind, lim Limits) ([]Finding, error) {
	if kind != "" && Known(kind) == nil {
		panic(fmt.Sprintf("xmltree: there is no kind %q", kind))
	}
	var found []Finding
	err := Parse(text, lim, func(d *Doc) error {
		k := kind
		if k == "" {
			var err error
			if k, err = d.Kind(); err != nil {
				return err
			}
		}
		found = d.Validate(Known(k))
		return nil
	})
	return found, err
}

// Kind is the kind of RSpec that the root says it is. The error is an
// *UnknownKindError.
func (d *Doc) Kind() (schemas.Kind, error) {
	no := func(format string, args ...any) (schemas.Kind, error) {
		return "", &UnknownKindError{d.Root.Line, d.Root.Column, fmt.Sprintf(format, args...)}
	}
	if d.Root.Local != "rspec" || d.Root.Space != schemas.Namespace {
		return no("the root is <%.80s> of the namespace %.120q; schemas are only known for <rspec xmlns=%q>", d.Root.Local, d.Root.Space, schemas.Namespace)
	}
	value, given := d.Root.Attr("", "type")
	if !given {
		return no("the rspec has no type; add type=\"request\", \"manifest\" or \"advertisement\"")
	}
	k := schemas.Kind(collapse(value))
	if Known(k) == nil {
		return no("the rspec has the type %.40q; known are request, manifest and advertisement", value)
	}
	return k, nil
}

// Validate judges the document by s and tells at most MaxFindings findings, in
// document order; a last one tells of more. It works only inside the function
// given to Parse and panics once that has returned.
func (d *Doc) Validate(s *Schema) []Finding {
	compiled := s.compile()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.flat == nil {
		panic("xmltree: " + errClosed.Error())
	}
	if e := d.chopped(); e != nil {
		return []Finding{{e.Line, e.Column, cut(e.spelled(), shown), "", fmt.Sprintf("the text of <%s> is in more than %d pieces, and the document is not judged; take comments and processing instructions out of it", cut(e.spelled(), shown), maxPieces)}}
	}
	times, e, size := d.affordable()
	if times == 0 {
		return []Finding{{e.Line, e.Column, cut(e.spelled(), shown), "", fmt.Sprintf("the name of a namespace in <%s> has %d bytes, too many for all elements and attributes that use such names, and the document is not judged; give the namespace a shorter name", cut(e.spelled(), shown), size)}}
	}
	var c C.xt_findings
	C.xt_validate(d.flat, compiled, MaxFindings, C.int(times), &c)
	defer C.xt_free_findings(&c)
	found := make([]Finding, 0, int(c.n))
	places := make(map[int][]place)
	for _, x := range unsafe.Slice(c.found, int(c.n)) {
		found = append(found, d.finding(s, places, int(x.code), int(x.element), C.GoString(x.text)))
	}
	return told(found, int(c.more), c.failed != 0)
}

// told puts findings in order, each once, and says at the end what is not among
// them: so many more, or all that was not judged for want of memory.
func told(found []Finding, more int, failed bool) []Finding {
	known := make(map[Finding]bool, len(found))
	found = slices.DeleteFunc(found, func(f Finding) bool {
		again := known[f]
		known[f] = true
		return again
	})
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	if n := len(found); n > 0 && more > 0 {
		last := found[n-1]
		found = append(found, Finding{Line: last.Line, Column: last.Column, Msg: fmt.Sprintf("%d more findings are not told; mend those above first", more)})
	}
	if failed {
		found = append(found, Finding{Msg: "the document cannot be judged to its end: memory is short; try again"})
	}
	return found
}

// affordable is how often the document may be judged, and the first element that
// uses its longest name of a namespace, for itself or an attribute.
func (d *Doc) affordable() (times int, first *Element, size int) {
	repeated := 1
	size = -1
	for _, e := range d.elements {
		n := len(e.Space)
		repeated += n
		for i := range e.Attrs {
			repeated += len(e.Attrs[i].Space)
			n = max(n, len(e.Attrs[i].Space))
		}
		if n > size {
			size, first = n, e
		}
	}
	return min(passes, maxRepeated*len(d.Source)/repeated), first, size
}

// chopped is an element whose text is in too many pieces, if there is one.
func (d *Doc) chopped() *Element {
	for _, e := range d.elements {
		pieces := 0
		for i := 0; i < len(e.Children) && len(e.Children) > maxPieces; i++ {
			switch e.Children[i].(type) {
			case *Element:
				i = len(e.Children) // libxml2 drops what follows
			case Text:
				pieces++
			}
		}
		if pieces > maxPieces {
			return e
		}
	}
	return nil
}
