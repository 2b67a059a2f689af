package xmltree

/*
#include "flatten.h"
#include <libxml/c14n.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"patchbay/credentials/rule"
)

// Method is a canonicalization method; all omit comments.
type Method int

// The methods.
const (
	// C14N10 is http://www.w3.org/TR/2001/REC-xml-c14n-20010315.
	C14N10 Method = iota
	// C14N11 is http://www.w3.org/2006/12/xml-c14n11.
	C14N11
	// ExclusiveC14N10 is http://www.w3.org/2001/10/xml-exc-c14n# with an empty
	// list of inclusive prefixes.
	ExclusiveC14N10
)

// The canonical form may have at most canonicalGrowth times the document's length plus
// canonicalRoom bytes. Escaping makes a character up to six times as long, but real
// documents have few escaped characters.
const (
	canonicalGrowth = 4
	canonicalRoom   = 64 << 10
)

type growthError struct{ text string }

func (e *growthError) Error() string { return e.text }

// BrokenRule returns rule.Growth.
func (e *growthError) BrokenRule() rule.Rule { return rule.Growth }

var errClosed = errors.New("the document has been closed: canonical octets are available only inside the function given to Parse")

// Canonical returns the canonical form of e with its content. The parameter omitted is nil, or
// an element inside e that the form leaves out. The form includes the namespaces of the
// elements around e and, for the inclusive methods, their xml: attributes. Canonical works
// only inside the function given to Parse. It fails for a relative namespace name and for an
// element of another document. It also fails if the form would be too long, because
// ExclusiveC14N10 can repeat the name of a namespace for every element.
func (d *Doc) Canonical(e *Element, m Method, omitted *Element) ([]byte, error) {
	mode := map[Method]C.int{C14N10: C.XML_C14N_1_0, C14N11: C.XML_C14N_1_1, ExclusiveC14N10: C.XML_C14N_EXCLUSIVE_1_0}
	how, ok := mode[m]
	skip := -1
	switch {
	case !ok:
		return nil, fmt.Errorf("there is no canonicalization method %d", int(m))
	case !d.hasElement(e):
		return nil, errors.New("cannot canonicalize an element of another document")
	case omitted != nil && (!d.hasElement(omitted) || !isDescendant(omitted, e)):
		return nil, errors.New("cannot leave out an element that is not inside the canonicalized one")
	case omitted != nil:
		skip = omitted.Index
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.flat == nil {
		return nil, errClosed
	}
	var out *C.xmlChar
	n := C.xt_canonical(d.flat, C.int(e.Index), C.int(skip), how, C.size_t(canonicalGrowth*len(d.Source)+canonicalRoom), &out)
	switch {
	case n == C.XT_TOO_LONG:
		return nil, &growthError{fmt.Sprintf("cannot canonicalize <%.80s>: its canonical form would be more than %d times as long as the document", e.Local, canonicalGrowth)}
	case n < 0:
		return nil, fmt.Errorf("cannot canonicalize <%.80s>: a namespace name in it is relative, or memory is exhausted", e.Local)
	}
	defer C.xt_free_octets(out)
	return C.GoBytes(unsafe.Pointer(out), n), nil
}

func (d *Doc) hasElement(e *Element) bool {
	return e != nil && e.Index >= 0 && e.Index < len(d.elements) && d.elements[e.Index] == e
}

func isDescendant(e, outer *Element) bool {
	for p := e.Parent; p != nil; p = p.Parent {
		if p == outer {
			return true
		}
	}
	return false
}
