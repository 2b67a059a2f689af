package rspec

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"patchbay/schemas/xmltree"
)

type document struct {
	given []byte // as received
	src   []byte // as parsed; spans are offsets in it
	cut   int    // number of bytes of given that precede src
	// elements and spans are indexed by xmltree.Element.Index.
	elements []*xmltree.Element
	spans    []span
	// rootSpaces are the namespaces that the root declares, by prefix.
	rootSpaces map[string]string
}

// span is the position of an element: its start tag is src[start:open], its end
// tag src[closing:end]. A self-closing element has open == closing == end.
type span struct{ start, open, closing, end int }

func (s span) selfClosing() bool { return s.open == s.end }

var errDisagree = errors.New("not well-formed: two XML readers disagree about the tags")

// locate finds the spans of all elements with the tokens of encoding/xml; received is the
// document as received. locate fails if names, attributes or nesting differ from those of the
// tree.
func locate(d *xmltree.Doc, received []byte) (*document, error) {
	doc := &document{given: received, src: d.Source, cut: d.Offset}
	doc.collect(d.Root)
	doc.spans = make([]span, len(doc.elements))
	tokens := xml.NewDecoder(bytes.NewReader(d.Source))
	tokens.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // UTF-8 was checked
	var (
		stack []*xmltree.Element // the elements whose end tag is missing
		next  int                // index of the next element
	)
	for {
		before := int(tokens.InputOffset())
		token, err := tokens.RawToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			at := newPosition(received)
			at.moveTo(d.Offset + before)
			return nil, &xmltree.SyntaxError{Line: at.line, Column: at.column, Msg: fmt.Sprintf(
				"XML readers disagree about this text (%v); use only letters of XML 1.0's first editions in names, such as a to z", err)}
		}
		after := int(tokens.InputOffset())
		switch t := token.(type) {
		case xml.StartElement:
			if next == len(doc.elements) {
				return nil, errDisagree
			}
			e := doc.elements[next]
			if (e.Parent == nil) != (len(stack) == 0) || e.Parent != nil && e.Parent != stack[len(stack)-1] || !sameTag(e, t) {
				return nil, errDisagree
			}
			if next == 0 {
				doc.rootSpaces = declared(t)
			}
			doc.spans[next] = span{start: before, open: after}
			next++
			stack = append(stack, e)
		case xml.EndElement:
			if len(stack) == 0 {
				return nil, errDisagree
			}
			e := stack[len(stack)-1]
			if e.Local != t.Name.Local || e.Prefix != t.Name.Space {
				return nil, errDisagree
			}
			stack = stack[:len(stack)-1]
			doc.spans[e.Index].closing, doc.spans[e.Index].end = before, after
		}
	}
	if next != len(doc.elements) || len(stack) != 0 {
		return nil, errDisagree
	}
	return doc, nil
}

func (d *document) collect(e *xmltree.Element) {
	d.elements = append(d.elements, e)
	for _, c := range e.Children {
		if c, ok := c.(*xmltree.Element); ok {
			d.collect(c)
		}
	}
}

// sameTag compares element names and attribute names.
func sameTag(e *xmltree.Element, t xml.StartElement) bool {
	if e.Local != t.Name.Local || e.Prefix != t.Name.Space {
		return false
	}
	n := 0
	for _, a := range t.Attr {
		if isDeclaration(a.Name) {
			continue
		}
		if n == len(e.Attrs) || e.Attrs[n].Local != a.Name.Local || e.Attrs[n].Prefix != a.Name.Space {
			return false
		}
		n++
	}
	return n == len(e.Attrs)
}

func isDeclaration(n xml.Name) bool { return n.Space == "xmlns" || n.Space == "" && n.Local == "xmlns" }

// declared returns namespaces by prefix.
func declared(t xml.StartElement) map[string]string {
	spaces := map[string]string{}
	for _, a := range t.Attr {
		switch {
		case a.Name.Space == "xmlns":
			spaces[a.Name.Local] = a.Value
		case isDeclaration(a.Name):
			spaces[""] = a.Value
		}
	}
	return spaces
}

// attribute is the position of an attribute or namespace declaration: its name is
// src[start:nameEnd], its value without quotes src[from:to].
type attribute struct {
	start, nameEnd, from, to int
	// of is the attribute in the tree; nil for a namespace declaration.
	of *xmltree.Attr
}

func (a attribute) end() int { return a.to + 1 }

// attributes returns the positions of the attributes and declarations in the start tag of e, which must be
// well-formed. The result end is the offset at which further attributes can be inserted.
func (d *document) attributes(e *xmltree.Element) (list []attribute, end int) {
	s := d.spans[e.Index]
	i := s.start + 1 + len(d.rawName(e))
	end = i
	n := 0 // attributes of e that were found; declarations are not among e.Attrs
	for {
		for isSpace(d.src[i]) {
			i++
		}
		if c := d.src[i]; c == '/' || c == '>' {
			return list, end
		}
		a := attribute{start: i}
		for d.src[i] != '=' && !isSpace(d.src[i]) {
			i++
		}
		a.nameEnd = i
		for d.src[i] != '"' && d.src[i] != '\'' {
			i++
		}
		a.from = i + 1
		a.to = a.from + bytes.IndexByte(d.src[a.from:], d.src[i])
		i = a.end()
		end = i
		if name := string(d.src[a.start:a.nameEnd]); name != "xmlns" && !strings.HasPrefix(name, "xmlns:") {
			a.of = &e.Attrs[n]
			n++
		}
		list = append(list, a)
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func (d *document) rawName(e *xmltree.Element) string {
	if e.Prefix == "" {
		return e.Local
	}
	return e.Prefix + ":" + e.Local
}

func (d *document) bytes(e *xmltree.Element) []byte {
	s := d.spans[e.Index]
	return d.src[s.start:s.end]
}

// isElement reports whether e is an RSpec element with the given name.
func isElement(e *xmltree.Element, local string) bool {
	return e.Local == local && e.Space == Namespace
}

// children returns RSpec elements only.
func children(e *xmltree.Element, local string) []*xmltree.Element {
	var out []*xmltree.Element
	for c := range childElements(e) {
		if isElement(c, local) {
			out = append(out, c)
		}
	}
	return out
}

func childElements(e *xmltree.Element) iter.Seq[*xmltree.Element] {
	return func(yield func(*xmltree.Element) bool) {
		for _, c := range e.Children {
			if c, ok := c.(*xmltree.Element); ok && !yield(c) {
				return
			}
		}
	}
}

func value(e *xmltree.Element, name string) string {
	v, _ := e.Attr("", name)
	return v
}

func trimmed(e *xmltree.Element, name string) string { return strings.TrimSpace(value(e, name)) }
