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

	"patchbay/am/display"
	"patchbay/schemas"
)

// MaxFindings is the number of findings reported about one document.
const MaxFindings = 100

// maxPieces limits the pieces into which comments may split the text before an element's first
// child element. libxml2 joins these pieces in quadratic time, and no later ones.
const maxPieces = 1000

// maxRepeated limits the time that libxml2 needs for namespace names, because it compares and
// copies the whole name with every element and attribute. In all passes together the names may
// have maxRepeated times as many bytes as the document. Real documents need one or two times
// as many in each pass.
const maxRepeated = 32

// passes limits the validations of one document. Each pass leaves out the elements that were
// unexpected in earlier passes.
const passes = 8

// Finding is one violation of a schema.
type Finding struct {
	// Line and Column are the start of the attribute or the start tag, counted from 1 in
	// the bytes given to Parse; the column counts characters. Both are 0 for a finding
	// without a place.
	Line, Column int
	// Element is the name of the element, as the document spells it.
	Element string
	// Attribute is the name of the attribute, if the finding is about one.
	Attribute string
	// Msg is one line of limited length: what is wrong and what would be accepted.
	Msg string
}

func (f Finding) String() string {
	if f.Line == 0 {
		return f.Msg
	}
	return fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Msg)
}

// UnknownKindError is the error for a document of a kind without a schema.
type UnknownKindError struct {
	Line, Column int
	Msg          string
}

func (e *UnknownKindError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Msg) }

// Validate parses text and checks it with the schemas of its kind and of the known
// extensions. If kind is "", the root's type attribute is the kind. Without findings the
// document is valid.
//
// The error is a *SyntaxError or a *LimitError, as from Parse. If kind is "", it may also be
// an *UnknownKindError: the document is not an RSpec of GENI version 3, or has an unknown
// type. Validate panics if kind is unknown.
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

// Kind returns the kind of RSpec that the root states. The error is an *UnknownKindError.
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
	k := schemas.Kind(collapseSpace(value))
	if Known(k) == nil {
		return no("the rspec has the type %.40q; known are request, manifest and advertisement", value)
	}
	return k, nil
}

// Validate checks the document with s and returns at most MaxFindings findings in
// document order, and one more that counts the rest. It works only inside the function
// given to Parse, and panics after that function has returned.
func (d *Doc) Validate(s *Schema) []Finding {
	compiled := s.compile()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.flat == nil {
		panic("xmltree: " + errClosed.Error())
	}
	if e := d.fragmentedElement(); e != nil {
		return []Finding{{e.Line, e.Column, display.Cut(e.prefixedName(), maxQuoted), "", fmt.Sprintf("the text of <%s> is in more than %d pieces, so the document is not validated; remove comments and processing instructions from it", display.Cut(e.prefixedName(), maxQuoted), maxPieces)}}
	}
	times, e, size := d.allowedPasses()
	if times == 0 {
		return []Finding{{e.Line, e.Column, display.Cut(e.prefixedName(), maxQuoted), "", fmt.Sprintf("the name of a namespace in <%s> has %d bytes, too many for all elements and attributes that use such names, so the document is not validated; give the namespace a shorter name", display.Cut(e.prefixedName(), maxQuoted), size)}}
	}
	var c C.xt_findings
	C.xt_validate(d.flat, compiled, MaxFindings, C.int(times), &c)
	defer C.xt_free_findings(&c)
	found := make([]Finding, 0, int(c.n))
	places := make(map[int][]place)
	for _, x := range unsafe.Slice(c.found, int(c.n)) {
		found = append(found, d.finding(s, places, int(x.code), int(x.element), C.GoString(x.text)))
	}
	return sortedFindings(found, int(c.more), c.failed != 0)
}

// sortedFindings returns the findings in document order, without duplicates. If unlisted is
// positive, it adds a finding with the number of findings that are not listed. If failed is set, it
// adds a finding that memory was insufficient.
func sortedFindings(found []Finding, unlisted int, failed bool) []Finding {
	known := make(map[Finding]bool, len(found))
	found = slices.DeleteFunc(found, func(f Finding) bool {
		isDuplicate := known[f]
		known[f] = true
		return isDuplicate
	})
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	if n := len(found); n > 0 && unlisted > 0 {
		last := found[n-1]
		found = append(found, Finding{Line: last.Line, Column: last.Column, Msg: fmt.Sprintf("%d more findings are not listed; fix those above first", unlisted)})
	}
	if failed {
		found = append(found, Finding{Msg: "the document could not be validated to its end: out of memory; try again"})
	}
	return found
}

// allowedPasses returns how often the document may be validated, and the size of its longest
// namespace name. The result element is the first element that uses this name, for itself or
// an attribute.
func (d *Doc) allowedPasses() (times int, element *Element, size int) {
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
			size, element = n, e
		}
	}
	return min(passes, maxRepeated*len(d.Source)/repeated), element, size
}

// fragmentedElement returns the first element whose text has more than maxPieces pieces, or nil.
func (d *Doc) fragmentedElement() *Element {
	for _, e := range d.elements {
		if e.textPieces() > maxPieces {
			return e
		}
	}
	return nil
}

// textPieces counts the pieces of text before the first child element.
func (e *Element) textPieces() (n int) {
	for _, c := range e.Children {
		switch c.(type) {
		case *Element:
			return n
		case Text:
			n++
		}
	}
	return n
}
