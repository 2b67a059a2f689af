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

	"patchbay/schemas"
)

// shown is the number of bytes of the document's own text in a message.
const shown = 60

// longest is the maximal length of a message in bytes.
const longest = 800

// Patterns of libxml2's messages.
var (
	ofAttribute = regexp.MustCompile(`^Element '[^']*', attribute '(?:\{[^'}]*\})?([^'{}]*)': `)
	ofElement   = regexp.MustCompile(`^Element '[^']*': `)
	quoted      = regexp.MustCompile(`attribute '(?:\{[^'}]*\})?([^'{}]*)'`)
	expectation = regexp.MustCompile(`Expected is (?:one of )?\( (.*) \)\.$`)
	typeName    = regexp.MustCompile(`type '(?:\{[^'}]*\})?(?:xs:)?([^'{}]*)'\.$`)
	setOfValues = regexp.MustCompile(`^.*of the set \{(.*)\}\.$`)
	bound       = regexp.MustCompile(`'([^']*)'\)?\.$`)
	namespaces  = regexp.MustCompile(`\{[^{}]*\}`)
)

// finding rewrites a message of libxml2. places caches the places of the attributes of
// elements.
func (d *Doc) finding(s *Schema, places map[int][]place, code, element int, text string) Finding {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "�")
	if element < 0 || element >= len(d.elements) {
		return Finding{Msg: cut(namespaces.ReplaceAllString(text, ""), 200)}
	}
	e := d.elements[element]
	f := Finding{Line: e.Line, Column: e.Column, Element: cut(e.spelled(), shown)}
	n := -1
	if m := ofAttribute.FindStringSubmatch(text); m != nil {
		n = slices.IndexFunc(e.Attrs, func(a Attr) bool {
			return a.Local == m[1] && strings.HasPrefix(text[len(m[0])-len("': ")-len(a.Local)-1:], quoteOrBrace(a)+a.Local)
		})
	}
	if n >= 0 {
		if places[element] == nil {
			places[element] = d.attributes(e)
		}
		p := places[element][n]
		f.Line, f.Column = p.line, p.column
		f.Attribute = cut(spelled(e.Attrs[n].Prefix, e.Attrs[n].Local), shown)
	}
	w := words{s: s, e: e, text: text}
	if n >= 0 {
		w.a = &e.Attrs[n]
	}
	f.Msg = cut(w.message(code), longest)
	return f
}

// quoteOrBrace returns what precedes the local name of an attribute in a message.
func quoteOrBrace(a Attr) string {
	if a.Space == "" {
		return "'"
	}
	return "}"
}

// words builds the message about one element, or one attribute of it.
type words struct {
	s    *Schema
	e    *Element
	a    *Attr // nil: the element itself
	text string
}

func (w words) message(code int) string {
	tag := "<" + cut(w.e.spelled(), shown) + ">"
	switch code {
	case C.XML_SCHEMAV_CVC_COMPLEX_TYPE_3_2_1, C.XML_SCHEMAV_CVC_COMPLEX_TYPE_3_2_2:
		if w.a == nil {
			break
		}
		return fmt.Sprintf("the attribute %q is not allowed on %s; %s", cut(spelled(w.a.Prefix, w.a.Local), shown), tag, w.s.attributes(w.e))
	case C.XML_SCHEMAV_CVC_COMPLEX_TYPE_4:
		if m := quoted.FindStringSubmatch(w.text); m != nil {
			return fmt.Sprintf("%s lacks the attribute %s; add %s=\"…\"", tag, m[1], m[1])
		}
	case C.XML_SCHEMAV_ELEMENT_CONTENT:
		return w.content(tag)
	case C.XML_SCHEMAV_CVC_COMPLEX_TYPE_2_1:
		return tag + " must be empty; remove what is in it"
	case C.XML_SCHEMAV_CVC_COMPLEX_TYPE_2_2, C.XML_SCHEMAV_CVC_TYPE_3_1_2:
		return tag + " holds text only; remove the elements in it"
	case C.XML_SCHEMAV_CVC_COMPLEX_TYPE_2_3:
		return tag + " holds text, which is not allowed between its elements; remove it"
	case C.XML_SCHEMAV_CVC_ELT_1:
		return w.root(tag)
	case C.XML_SCHEMAV_CVC_DATATYPE_VALID_1_2_1, C.XML_SCHEMAV_CVC_DATATYPE_VALID_1_2_2, C.XML_SCHEMAV_CVC_DATATYPE_VALID_1_2_3:
		if m := typeName.FindStringSubmatch(w.text); m != nil {
			return w.value() + " is not " + typeWords(m[1])
		}
		return w.value() + " is not a value that is allowed here"
	case C.XML_SCHEMAV_CVC_ENUMERATION_VALID:
		return w.facet(setOfValues, "is not allowed; allowed: %s")
	case C.XML_SCHEMAV_CVC_PATTERN_VALID:
		return w.facet(bound, "does not look as it must; it must match %s")
	case C.XML_SCHEMAV_CVC_MINLENGTH_VALID:
		return w.facet(bound, "is too short; it needs at least %s characters")
	case C.XML_SCHEMAV_CVC_MAXLENGTH_VALID:
		return w.facet(bound, "is too long; at most %s characters are allowed")
	case C.XML_SCHEMAV_CVC_MININCLUSIVE_VALID:
		return w.facet(bound, "is too small; the least is %s")
	case C.XML_SCHEMAV_CVC_MAXINCLUSIVE_VALID:
		return w.facet(bound, "is too big; the most is %s")
	}
	// Rare errors, such as a wrong xsi:type, keep libxml2's own words.
	rest := ofElement.ReplaceAllString(ofAttribute.ReplaceAllString(w.text, ""), "")
	rest = cut(namespaces.ReplaceAllString(rest, ""), 200)
	if w.a != nil {
		return w.value() + ": " + rest
	}
	return tag + ": " + rest
}

// facet says how a value breaks a limit, which re finds in the text. libxml2 truncates
// a message with a very long value.
func (w words) facet(re *regexp.Regexp, how string) string {
	m := re.FindStringSubmatch(w.text)
	if m == nil {
		return w.value() + " is not a value that is allowed here"
	}
	return w.value() + " " + fmt.Sprintf(how, strings.ReplaceAll(m[1], "'", ""))
}

// value returns the attribute with its value, or the element with its text.
func (w words) value() string {
	if w.a != nil {
		return fmt.Sprintf("%s=%q", cut(spelled(w.a.Prefix, w.a.Local), shown), cut(w.a.Value, shown))
	}
	return fmt.Sprintf("%q in <%s>", cut(strings.TrimSpace(w.e.Text()), shown), cut(w.e.spelled(), shown))
}

// content describes unexpected or missing elements.
func (w words) content(tag string) string {
	missing := strings.HasPrefix(w.text, "Element '"+qualified(w.e.Name)+"': Missing child element(s)")
	parent := w.e
	if !missing {
		parent = w.e.Parent
	}
	if parent == nil {
		return w.root(tag)
	}
	var names []string
	foreign := false
	if m := expectation.FindStringSubmatch(w.text); m != nil {
		for name := range strings.SplitSeq(m[1], ", ") {
			if strings.HasPrefix(name, "##other") {
				foreign = true
			} else {
				names = append(names, likeIn(parent, namespaces.ReplaceAllString(name, "")))
			}
		}
	}
	list := strings.Join(names, ", ")
	if missing {
		return fmt.Sprintf("%s lacks a child; add %s", tag, cmp.Or(list, "what belongs into it"))
	}
	switch {
	case w.e.Space == "" && parent.Space != "":
		tag += " of no namespace"
	case w.e.Space != parent.Space:
		tag += fmt.Sprintf(" of the namespace %q", cut(w.e.Space, 2*shown))
	}
	what := fmt.Sprintf("%s is not allowed in <%s>", tag, cut(parent.spelled(), shown))
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

// qualified returns a name as libxml2 writes it.
func qualified(n Name) string {
	if n.Space == "" {
		return n.Local
	}
	return "{" + n.Space + "}" + n.Local
}

func (w words) root(tag string) string {
	return fmt.Sprintf("%s of the namespace %q cannot be the root; begin with <rspec xmlns=%q type=…>", tag, cut(w.e.Space, 2*shown), schemas.Namespace)
}

// typeWords describes the values of a type of XML Schema.
func typeWords(name string) string {
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
		return "a URI; escape what may not stand in one"
	}
	return "of the type " + name
}

// attributes lists the attributes that e may have.
func (s *Schema) attributes(e *Element) string {
	g := s.grammar()
	decl, ok := g.of(e)
	if !ok {
		return "remove it"
	}
	names := g.attributes(decl)
	if len(names) == 0 {
		return "remove it, for none is"
	}
	return "allowed: " + strings.Join(names, ", ")
}

// children returns the children that e may have, and whether foreign ones may occur.
func (s *Schema) children(e *Element) (names []string, foreign bool) {
	g := s.grammar()
	decl, ok := g.of(e)
	if !ok {
		return nil, false
	}
	known, foreign := g.children(decl)
	for _, c := range known {
		names = append(names, likeIn(e, c.name()))
	}
	return names, foreign
}

// likeIn returns the tag of a child of e in the same namespace.
func likeIn(e *Element, local string) string {
	return "<" + cut(spelled(e.Prefix, local), shown) + ">"
}

func (e *Element) spelled() string { return spelled(e.Prefix, e.Local) }

func spelled(prefix, local string) string {
	if prefix == "" {
		return local
	}
	return prefix + ":" + local
}

// cut shortens s to n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// collapse applies the white space rule of XML Schema's token.
func collapse(s string) string { return strings.Join(strings.Fields(s), " ") }
