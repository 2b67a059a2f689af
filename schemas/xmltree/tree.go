package xmltree

import "strings"

// Name is an expanded name: namespace and local part.
type Name struct{ Space, Local string }

// Attr is one attribute; namespace declarations are not attributes here.
type Attr struct {
	Name
	Prefix, Value string
}

// Node is a child of an element: *Element, Text, Comment or PI.
type Node interface{}

// Text is character data. CDATA sections and references are merged into it, so two Texts
// are never adjacent.
type Text string

// Comment is the text between <!-- and -->.
type Comment string

// PI is a processing instruction.
type PI struct{ Target, Data string }

// Element is one element of a document. The tree shares one copy of the
// document's text, which lives as long as any string taken from it.
type Element struct {
	Name
	Prefix   string
	Attrs    []Attr
	Children []Node
	// Parent is nil for the root.
	Parent *Element
	// Line and Column are the start of the start tag, counted from 1 in the bytes given
	// to Parse; the column counts characters.
	Line, Column int
	// Index counts elements in document order from 0, the root.
	Index int
}

// Attr returns the value of an attribute, and whether e has it; space is empty for an
// attribute without a prefix.
func (e *Element) Attr(space, local string) (string, bool) {
	for i := range e.Attrs {
		if a := &e.Attrs[i]; a.Local == local && a.Space == space {
			return a.Value, true
		}
	}
	return "", false
}

// Elements returns the children that are elements.
func (e *Element) Elements() []*Element {
	var out []*Element
	for _, c := range e.Children {
		if c, ok := c.(*Element); ok {
			out = append(out, c)
		}
	}
	return out
}

// Text returns all character data below e, in document order.
func (e *Element) Text() string {
	if len(e.Children) == 1 {
		if t, ok := e.Children[0].(Text); ok {
			return string(t)
		}
	}
	var b strings.Builder
	e.appendText(&b)
	return b.String()
}

func (e *Element) appendText(b *strings.Builder) {
	for _, c := range e.Children {
		switch c := c.(type) {
		case Text:
			b.WriteString(string(c))
		case *Element:
			c.appendText(b)
		}
	}
}
