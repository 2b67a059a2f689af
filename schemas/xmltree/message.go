package xmltree

import (
	"regexp"
	"strings"
)

// finding puts what libxml2 found into words.
func (d *Doc) finding(s *Schema, code, element, attribute int, text string) Finding {
	if element < 0 || element >= len(d.elements) {
		return Finding{Msg: plain(text)}
	}
	e := d.elements[element]
	f := Finding{Line: e.Line, Column: e.Column, Element: spelled(e.Prefix, e.Local)}
	if attribute >= 0 && attribute < len(e.Attrs) {
		f.Attribute = spelled(e.Attrs[attribute].Prefix, e.Attrs[attribute].Local)
		p := d.attribute(e, attribute)
		f.Line, f.Column = p.line, p.column
	}
	f.Msg = plain(text)
	return f
}

func spelled(prefix, local string) string {
	if prefix == "" {
		return local
	}
	return prefix + ":" + local
}

var braced = regexp.MustCompile(`\{[^{}]*\}`)

func plain(text string) string {
	return strings.Join(strings.Fields(braced.ReplaceAllString(strings.ToValidUTF8(text, "�"), "")), " ")
}

// collapse is the white space rule of XML Schema's token.
func collapse(s string) string { return strings.Join(strings.Fields(s), " ") }
