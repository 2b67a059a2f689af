package xmltree

/*
#cgo pkg-config: libxml-2.0
#include "flatten.h"
#include "mistake.h"
*/
import "C"

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/lestrrat-go/libxml2/parser"

	"patchbay/credentials/rule"
)

// Doc is one parsed document.
type Doc struct {
	Root *Element
	// Source is the parsed text: the bytes given to Parse without the byte order mark
	// and white space at their start, and with version 1.1 changed to 1.0.
	Source []byte
	// Offset is the number of bytes that precede Source in the bytes given to Parse.
	Offset int

	elements []*Element // by Index
	tags     []startTag // the start tags of elements
	mu       sync.Mutex // guards flat
	flat     *C.xt_doc  // nil once Parse has returned
}

// parserOptions has no BigLines, because scan counts the lines. NoCDATA merges CDATA sections
// into text.
const parserOptions = parser.XMLParseNoNet | parser.XMLParseNoError | parser.XMLParseNoWarning |
	parser.XMLParseIgnoreEnc | parser.XMLParseNoCDATA

// largeDocument is a size in bytes. After parsing a document of at least this size, C returns
// free memory to the system. Otherwise C would keep hundreds of megabytes.
const largeDocument = 1 << 20

// Parse parses b, calls f with the document and returns the error of f. The tree remains
// valid after f returns; Canonical and Validate work only inside f. If b cannot be parsed,
// the error is a *SyntaxError or a *LimitError.
func Parse(b []byte, lim Limits, f func(*Doc) error) error {
	initialize()
	lim = lim.withDefaults()
	if len(b) > lim.Bytes {
		return &LimitError{Limit: "bytes", Max: lim.Bytes, Rule: rule.Bytes}
	}
	if len(b) >= largeDocument {
		defer C.xt_trim()
	}
	text, cut, err := checkEncoding(b)
	if err != nil {
		return err
	}
	tags, err := scan(text, placeOf(b, cut), lim)
	if err != nil {
		return err
	}
	doc, err := parser.New(parserOptions).Parse(text)
	if err != nil {
		return syntaxError(b, text, cut)
	}
	defer doc.Free()
	pointer := doc.Pointer()
	if (*(*C.xmlDocPtr)(unsafe.Pointer(&pointer))).properties&C.XML_DOC_NSVALID == 0 {
		if err := checkDeclarations(text, tags); err != nil {
			return err
		}
	}
	flat := C.xt_flatten(*(*C.xmlDocPtr)(unsafe.Pointer(&pointer)))
	if flat == nil {
		return &SyntaxError{Msg: "the document contains something that cannot be read, such as an entity"}
	}
	d := &Doc{Source: text, Offset: cut, tags: tags, flat: flat}
	defer d.close()
	if err := d.build(); err != nil {
		return err
	}
	return f(d)
}

func (d *Doc) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	C.xt_free(d.flat)
	d.flat = nil
}

// lineInside matches the line number in libxml2's messages.
var lineInside = regexp.MustCompile(` line \d+`)

// syntaxError returns the first error, because later errors often are consequences of the
// first. The parameter text begins at offset cut of b.
func syntaxError(b, text []byte, cut int) error {
	var x C.xt_mistake
	C.xt_diagnose((*C.char)(unsafe.Pointer(unsafe.SliceData(text))), C.int(len(text)), &x)
	msg := C.GoString(&x.text[0])
	if msg == "" {
		return &SyntaxError{Msg: "not well-formed"}
	}
	before := bytes.Count(b[:cut], newline)
	msg = lineInside.ReplaceAllStringFunc(strings.ToValidUTF8(strings.Join(strings.Fields(msg), " "), "�"), func(s string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(s, " line "))
		return " line " + strconv.Itoa(n+before)
	})
	if strings.Contains(msg, "EntityRef:") { // "xmlParseEntityRef: no name", "EntityRef: expecting ';'"
		msg = "there is an & without a reference; write &amp;"
	}
	e := syntaxErrorAt(b, cut+min(int(x.at), len(text)), "not well-formed: "+msg)
	if x.behind != 0 {
		e.Rule = rule.OneRoot
	}
	return e
}

// checkDeclarations refuses namespace declarations that are well-formed but break Namespaces
// in XML. Other readers of XML refuse them, but libxml2 drops them. Parse calls
// checkDeclarations only if libxml2 reports a problem with namespaces.
func checkDeclarations(text []byte, tags []startTag) error {
	var x C.xt_mistake
	C.xt_diagnose_namespaces((*C.char)(unsafe.Pointer(unsafe.SliceData(text))), C.int(len(text)), &x)
	msg := strings.ToValidUTF8(strings.Join(strings.Fields(C.GoString(&x.text[0])), " "), "�")
	if msg == "" {
		return nil
	}
	// libxml2 reports a place inside the tag or after it.
	i, _ := slices.BinarySearchFunc(tags, int(x.at), func(t startTag, at int) int { return int(t.at) - at })
	t := tags[max(i-1, 0)]
	return &SyntaxError{Line: int(t.line), Column: int(t.column), Msg: fmt.Sprintf("invalid namespace declaration (%s); remove it", msg), Rule: rule.Namespaced}
}

// build makes the tree and the list of elements from the flat nodes, and checks the names. The
// nodes are in document order, so the parent of a node was built before the node.
func (d *Doc) build() error {
	flat, tags := d.flat, d.tags
	if int(flat.nelements) != len(tags) {
		return &SyntaxError{Msg: "not well-formed: the start tags cannot be counted"}
	}
	text := string(unsafe.Slice((*byte)(unsafe.Pointer(flat.text)), int(flat.ntext)))
	str := func(r C.xt_range) string { return text[r.at : r.at+r.len] }
	namespaces := make([]struct{ prefix, uri string }, int(flat.nns))
	for i, ns := range unsafe.Slice(flat.ns, int(flat.nns)) {
		namespaces[i].prefix, namespaces[i].uri = str(ns.prefix), str(ns.uri)
	}
	attrs := make([]Attr, int(flat.nattrs))
	for i, a := range unsafe.Slice(flat.attrs, int(flat.nattrs)) {
		attrs[i].Local, attrs[i].Value = str(a.name), str(a.value)
		if a.ns >= 0 {
			attrs[i].Space, attrs[i].Prefix = namespaces[a.ns].uri, namespaces[a.ns].prefix
		}
	}
	nodes := unsafe.Slice(flat.nodes, int(flat.nnodes))
	childCounts := make([]int, len(tags)) // by element
	for _, n := range nodes[1:] {
		childCounts[n.parent]++
	}
	allChildren := make([]Node, 0, len(nodes)) // the children of all elements, in one allocation
	allElements := make([]Element, len(tags))
	d.elements = make([]*Element, 0, len(tags))
	for _, n := range nodes {
		var node Node
		switch n.kind {
		case C.XML_TEXT_NODE:
			node = Text(str(n.content))
		case C.XML_COMMENT_NODE:
			node = Comment(str(n.content))
		case C.XML_PI_NODE:
			node = PI{str(n.name), str(n.content)}
		default:
			i := len(d.elements)
			e := &allElements[i]
			e.Index, e.Line, e.Column, e.Local = i, int(tags[i].line), int(tags[i].column), str(n.name)
			if n.ns >= 0 {
				e.Space, e.Prefix = namespaces[n.ns].uri, namespaces[n.ns].prefix
			}
			e.Attrs = attrs[n.attrs : n.attrs+n.nattrs : n.attrs+n.nattrs]
			at := len(allChildren)
			e.Children = allChildren[at : at : at+childCounts[i]]
			allChildren = allChildren[:at+childCounts[i]]
			d.elements = append(d.elements, e)
			if err := checkNames(e); err != nil {
				return err
			}
			node = e
		}
		if n.parent >= 0 {
			p := d.elements[n.parent]
			p.Children = append(p.Children, node)
			if e, ok := node.(*Element); ok {
				e.Parent = p
			}
		}
	}
	d.Root = d.elements[0]
	return nil
}

// checkNames refuses names that are well-formed but break Namespaces in XML. libxml2 only
// warns about an undeclared prefix, and leaves the prefix and its colon in the local name.
func checkNames(e *Element) error {
	if prefix, _, found := strings.Cut(e.Local, ":"); found {
		return &SyntaxError{Line: e.Line, Column: e.Column, Msg: fmt.Sprintf("the prefix of <%.80s> is not declared; add xmlns:%.40s=…", e.Local, prefix), Rule: rule.Namespaced}
	}
	for i, a := range e.Attrs {
		if prefix, _, found := strings.Cut(a.Local, ":"); found {
			return &SyntaxError{Line: e.Line, Column: e.Column, Msg: fmt.Sprintf("the prefix of the attribute %.80s is not declared; add xmlns:%.40s=…", a.Local, prefix), Rule: rule.Namespaced}
		}
		for _, other := range e.Attrs[:i] {
			if a.Local == other.Local && a.Space != "" && a.Space == other.Space {
				return &SyntaxError{Line: e.Line, Column: e.Column, Msg: fmt.Sprintf("the attribute %.80s is given twice under two prefixes", a.Local), Rule: rule.Namespaced}
			}
		}
	}
	return nil
}
