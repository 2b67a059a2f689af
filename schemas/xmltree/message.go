package xmltree

/*
#include <libxml/xmlerror.h>
*/
import "C"

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"patchbay/am/display"
	"patchbay/schemas"
)

// maxQuoted limits the bytes of each quotation from the document in a message.
const maxQuoted = 60

// maxMessage is in bytes.
const maxMessage = 800

var (
	ofAttribute = regexp.MustCompile(`^Element '[^']*', attribute '(?:\{[^'}]*\})?([^'{}]*)': `) // start of a message about an attribute
	ofElement   = regexp.MustCompile(`^Element '[^']*': `)                                       // start of a message about an element
	quoted      = regexp.MustCompile(`attribute '(?:\{[^'}]*\})?([^'{}]*)'`)
	expectation = regexp.MustCompile(`Expected is (?:one of )?\( (.*) \)\.$`)
	typeName    = regexp.MustCompile(`type '(?:\{[^'}]*\})?(?:xs:)?([^'{}]*)'\.$`)
	setOfValues = regexp.MustCompile(`^.*of the set \{(.*)\}\.$`)
	bound       = regexp.MustCompile(`'([^']*)'\)?\.$`) // the limit that a value breaks
	namespaces  = regexp.MustCompile(`\{[^{}]*\}`)
)

// finding converts an error of libxml2; element is the index of the element. The parameter
// places caches the places of each element's attributes, by index.
func (d *Doc) finding(s *Schema, places map[int][]place, code, element int, text string) Finding {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "�")
	if element < 0 || element >= len(d.elements) {
		return Finding{Msg: display.Cut(namespaces.ReplaceAllString(text, ""), 200)}
	}
	e := d.elements[element]
	f := Finding{Line: e.Line, Column: e.Column, Element: display.Cut(e.prefixedName(), maxQuoted)}
	n := -1
	if m := ofAttribute.FindStringSubmatch(text); m != nil {
		// m[1] is only the local name; the character before it shows whether there is a namespace.
		n = slices.IndexFunc(e.Attrs, func(a Attr) bool {
			return a.Local == m[1] && strings.HasPrefix(text[len(m[0])-len("': ")-len(a.Local)-1:], quoteOrBrace(a)+a.Local)
		})
	}
	if n >= 0 {
		if places[element] == nil {
			places[element] = d.attributePlaces(e)
		}
		p := places[element][n]
		f.Line, f.Column = p.line, p.column
		f.Attribute = display.Cut(prefixedName(e.Attrs[n].Prefix, e.Attrs[n].Local), maxQuoted)
	}
	w := messageBuilder{s: s, e: e, text: text}
	if n >= 0 {
		w.a = &e.Attrs[n]
	}
	f.Msg = display.Cut(w.message(code), maxMessage)
	return f
}

// quoteOrBrace returns the character before the local name of an attribute in a message of
// libxml2: a quote, or the brace after the namespace.
func quoteOrBrace(a Attr) string {
	if a.Space == "" {
		return "'"
	}
	return "}"
}

// messageBuilder builds the message about e, or about its attribute a.
type messageBuilder struct {
	s    *Schema
	e    *Element
	a    *Attr // nil: the element itself
	text string
}

func (w messageBuilder) message(code int) string {
	tag := "<" + display.Cut(w.e.prefixedName(), maxQuoted) + ">"
	switch code {
	case C.XML_SCHEMAV_CVC_COMPLEX_TYPE_3_2_1, C.XML_SCHEMAV_CVC_COMPLEX_TYPE_3_2_2:
		if w.a == nil {
			break
		}
		return fmt.Sprintf("the attribute %q is not allowed on %s; %s", display.Cut(prefixedName(w.a.Prefix, w.a.Local), maxQuoted), tag, w.s.attributes(w.e))
	case C.XML_SCHEMAV_CVC_COMPLEX_TYPE_4:
		if m := quoted.FindStringSubmatch(w.text); m != nil {
			return fmt.Sprintf("%s lacks the attribute %s; add %s=\"…\"", tag, m[1], m[1])
		}
	case C.XML_SCHEMAV_ELEMENT_CONTENT:
		return w.content(tag)
	case C.XML_SCHEMAV_CVC_COMPLEX_TYPE_2_1:
		return tag + " must be empty; remove its content"
	case C.XML_SCHEMAV_CVC_COMPLEX_TYPE_2_2, C.XML_SCHEMAV_CVC_TYPE_3_1_2:
		return tag + " may contain only text; remove the elements in it"
	case C.XML_SCHEMAV_CVC_COMPLEX_TYPE_2_3:
		return tag + " contains text, which is not allowed between its elements; remove it"
	case C.XML_SCHEMAV_CVC_ELT_1:
		return w.root(tag)
	case C.XML_SCHEMAV_CVC_DATATYPE_VALID_1_2_1, C.XML_SCHEMAV_CVC_DATATYPE_VALID_1_2_2, C.XML_SCHEMAV_CVC_DATATYPE_VALID_1_2_3:
		if m := typeName.FindStringSubmatch(w.text); m != nil {
			return w.value() + " is not " + describeType(m[1])
		}
		return w.value() + " is not a value that is allowed here"
	case C.XML_SCHEMAV_CVC_ENUMERATION_VALID:
		return w.facet(setOfValues, "is not allowed; allowed: %s")
	case C.XML_SCHEMAV_CVC_PATTERN_VALID:
		return w.facet(bound, "has the wrong form; it must match %s")
	case C.XML_SCHEMAV_CVC_MINLENGTH_VALID:
		return w.facet(bound, "is too short; it needs at least %s characters")
	case C.XML_SCHEMAV_CVC_MAXLENGTH_VALID:
		return w.facet(bound, "is too long; at most %s characters are allowed")
	case C.XML_SCHEMAV_CVC_MININCLUSIVE_VALID:
		return w.facet(bound, "is too small; the least is %s")
	case C.XML_SCHEMAV_CVC_MAXINCLUSIVE_VALID:
		return w.facet(bound, "is too big; the most is %s")
	}
	// Rare errors, such as a wrong xsi:type, keep libxml2's own text.
	rest := ofElement.ReplaceAllString(ofAttribute.ReplaceAllString(w.text, ""), "")
	rest = display.Cut(namespaces.ReplaceAllString(rest, ""), 200)
	if w.a != nil {
		return w.value() + ": " + rest
	}
	return tag + ": " + rest
}

// facet returns the message for a value that breaks a restriction of its type. The parameter
// re finds the restriction in libxml2's text, and format is the text for it. If the value is
// very long, libxml2 truncates its message, and the restriction may be missing.
func (w messageBuilder) facet(re *regexp.Regexp, format string) string {
	m := re.FindStringSubmatch(w.text)
	if m == nil {
		return w.value() + " is not a value that is allowed here"
	}
	return w.value() + " " + fmt.Sprintf(format, strings.ReplaceAll(m[1], "'", ""))
}

func (w messageBuilder) value() string {
	if w.a != nil {
		return fmt.Sprintf("%s=%q", display.Cut(prefixedName(w.a.Prefix, w.a.Local), maxQuoted), display.Cut(w.a.Value, maxQuoted))
	}
	return fmt.Sprintf("%q in <%s>", display.Cut(strings.TrimSpace(w.e.Text()), maxQuoted), display.Cut(w.e.prefixedName(), maxQuoted))
}

// content returns the message for an element that lacks a child or is not allowed in its parent.
// tag is the element's name in the message.
func (w messageBuilder) content(tag string) string {
	missing := strings.HasPrefix(w.text, "Element '"+qualified(w.e.Name)+"': Missing child element(s)")
	parent := w.e
	if !missing {
		parent = w.e.Parent
	}
	if parent == nil {
		return w.root(tag)
	}
	var names []string
	foreign := false // elements of other namespaces are allowed
	if m := expectation.FindStringSubmatch(w.text); m != nil {
		for name := range strings.SplitSeq(m[1], ", ") {
			if strings.HasPrefix(name, "##other") {
				foreign = true
			} else {
				names = append(names, childTag(parent, namespaces.ReplaceAllString(name, "")))
			}
		}
	}
	list := strings.Join(names, ", ")
	if missing {
		return fmt.Sprintf("%s lacks a child; add %s", tag, cmp.Or(list, "the required one"))
	}
	switch {
	case w.e.Space == "" && parent.Space != "":
		tag += " without a namespace"
	case w.e.Space != parent.Space:
		tag += fmt.Sprintf(" of the namespace %q", display.Cut(w.e.Space, 2*maxQuoted))
	}
	what := fmt.Sprintf("%s is not allowed in <%s>", tag, display.Cut(parent.prefixedName(), maxQuoted))
	if list == "" {
		names, foreign = w.s.children(parent)
		list = strings.Join(names, ", ")
	}
	switch {
	case list == "" && foreign:
		return what + "; allowed: elements of other namespaces"
	case list == "":
		return what + " or not in this place; remove or move it"
	case foreign:
		return what + "; allowed: " + list + " and elements of other namespaces"
	}
	return what + "; allowed: " + list
}

func qualified(n Name) string {
	if n.Space == "" {
		return n.Local
	}
	return "{" + n.Space + "}" + n.Local
}

func (w messageBuilder) root(tag string) string {
	return fmt.Sprintf("%s of the namespace %q cannot be the root; begin with <rspec xmlns=%q type=…>", tag, display.Cut(w.e.Space, 2*maxQuoted), schemas.Namespace)
}

func describeType(name string) string {
	switch name {
	case "boolean":
		return "a boolean; write true or false"
	case "dateTime":
		return "a time; write it as 2030-01-31T12:00:00Z"
	case "int", "integer":
		return "a whole number; write digits only"
	case "nonNegativeInteger", "unsignedInt":
		return "a whole number from 0; write digits only"
	case "float":
		return "a number; write it as 0.25"
	case "anyURI":
		return "a URI; escape the characters that are not allowed in one"
	}
	return "of the type " + name
}

// attributes ends a message with the attributes that e may have, or with the advice to remove
// the attribute.
func (s *Schema) attributes(e *Element) string {
	g := s.grammar()
	decl, ok := g.declarationOf(e)
	if !ok {
		return "remove it"
	}
	names := g.attributes(decl)
	if len(names) == 0 {
		return "remove it, because this element has no attributes"
	}
	return "allowed: " + strings.Join(names, ", ")
}

// children returns the tags that are allowed in e. The result foreign reports whether children
// of other namespaces are allowed, too.
func (s *Schema) children(e *Element) (names []string, foreign bool) {
	g := s.grammar()
	decl, ok := g.declarationOf(e)
	if !ok {
		return nil, false
	}
	known, foreign := g.children(decl)
	for _, c := range known {
		names = append(names, childTag(e, c.name()))
	}
	return names, foreign
}

func childTag(e *Element, local string) string {
	return "<" + display.Cut(prefixedName(e.Prefix, local), maxQuoted) + ">"
}

func (e *Element) prefixedName() string { return prefixedName(e.Prefix, e.Local) }

func prefixedName(prefix, local string) string {
	if prefix == "" {
		return local
	}
	return prefix + ":" + local
}

// collapseSpace applies the white space rule of XML Schema's token.
func collapseSpace(s string) string { return strings.Join(strings.Fields(s), " ") }
