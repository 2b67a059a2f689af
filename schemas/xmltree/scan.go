package xmltree

import (
	"bytes"

	"patchbay/credentials/rule"
)

// scan reads the markup of s and checks the limits before libxml2 builds anything. It
// returns the positions of all start tags; s begins at the place p.
//
// On a well-formed text its counts are exact. On any other they are exact up to the first
// error. scan may stop there without an error of its own, because libxml2 reports it.
func scan(s []byte, p place, lim Limits) ([]startTag, error) {
	var (
		tags      = make([]startTag, 0, 64)
		spaces    []int // namespace declarations of the open elements
		inScope   int
		others    int // comments, PIs and CDATA sections
		attrs     int
		at, depth int
	)
	for {
		i := bytes.IndexByte(s[at:], '<')
		if i < 0 {
			return tags, nil
		}
		p.advance(s[at : at+i])
		at += i
		rest := s[at:]
		var n int
		switch {
		case bytes.HasPrefix(rest, []byte("<!--")):
			n = lengthThrough(rest, 4, "-->")
			others++
			if i := bytes.Index(rest[4:], []byte("--")); i >= 0 && 4+i+3 != n {
				// libxml2 would continue, and copy the comment for each further error.
				p.advance(rest[:4+i])
				return nil, &SyntaxError{Line: p.line, Column: p.column, Msg: "not well-formed: -- inside a comment"}
			}
		case bytes.HasPrefix(rest, []byte("<![CDATA[")):
			n = lengthThrough(rest, 9, "]]>")
			others++
		case bytes.HasPrefix(rest, []byte("<?")):
			n = lengthThrough(rest, 2, "?>")
			others++
		case bytes.HasPrefix(rest, []byte("<!")):
			if rule.Doctype.Broken(true) {
				return nil, &SyntaxError{Line: p.line, Column: p.column, Msg: "a DOCTYPE or other declaration is not allowed", Rule: rule.Doctype}
			}
			n = lengthThrough(rest, 2, ">")
		case bytes.HasPrefix(rest, []byte("</")):
			n = lengthThrough(rest, 2, ">")
			if depth > 0 {
				depth--
				inScope -= spaces[depth]
				spaces = spaces[:depth]
			}
		default:
			t := scanTag(rest)
			n = t.size
			tags = append(tags, startTag{int32(at), int32(p.line), int32(p.column)})
			attrs += t.attrs
			switch {
			case rule.Attributes.Broken(t.attrs > lim.Attrs):
				return nil, &LimitError{"attributes of one element", lim.Attrs, p.line, p.column, rule.Attributes}
			case rule.Attributes.Broken(attrs > 2*lim.Elements):
				return nil, &LimitError{"attributes", 2 * lim.Elements, p.line, p.column, rule.Attributes}
			case rule.Declarations.Broken(t.longest > lim.NamespaceBytes):
				return nil, &LimitError{"bytes in the name of a namespace", lim.NamespaceBytes, p.line, p.column, rule.Declarations}
			case rule.Declarations.Broken(inScope+t.namespaces > lim.Namespaces):
				return nil, &LimitError{"namespace declarations in one place", lim.Namespaces, p.line, p.column, rule.Declarations}
			case rule.Depth.Broken(depth+1 > lim.Depth):
				return nil, &LimitError{"levels of elements", lim.Depth, p.line, p.column, rule.Depth}
			}
			if !t.empty {
				depth++
				inScope += t.namespaces
				spaces = append(spaces, t.namespaces)
			}
		}
		if rule.Elements.Broken(len(tags)+others > lim.Elements) {
			return nil, &LimitError{"elements", lim.Elements, p.line, p.column, rule.Elements}
		}
		if n < 0 {
			return tags, nil
		}
		p.advance(s[at : at+n])
		at += n
	}
}

// lengthThrough returns the length of s up to and including end, searched from an offset;
// -1 if end is missing.
func lengthThrough(s []byte, from int, end string) int {
	i := bytes.Index(s[min(from, len(s)):], []byte(end))
	if i < 0 {
		return -1
	}
	return from + i + len(end)
}

// tag is what scanTag counts in a start tag.
type tag struct {
	size, attrs, namespaces int // size -1: no end
	longest                 int // bytes of the longest namespace name
	empty                   bool
}

// scanTag counts the attributes of the start tag at the start of s.
func scanTag(s []byte) (t tag) {
	name := 0 // where the name before the next = begins
	declares := false
	for i := 1; i < len(s); i++ {
		switch c := s[i]; c {
		case '>':
			t.size, t.empty = i+1, s[i-1] == '/'
			return t
		case ' ', '\t', '\r', '\n':
			if i+1 < len(s) && s[i+1] > ' ' && s[i+1] != '=' {
				name = i + 1
			}
		case '=':
			t.attrs++
			if declares = name > 0 && declaresNamespace(s[name:i]); declares {
				t.namespaces++
			}
		case '"', '\'':
			end := bytes.IndexByte(s[i+1:], c)
			if end < 0 {
				t.size = -1
				return t
			}
			if declares {
				t.longest = max(t.longest, end)
			}
			i += end + 1
		}
	}
	t.size = -1
	return t
}
