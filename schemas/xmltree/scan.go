package xmltree

import (
	"bytes"

	"patchbay/credentials/rule"
)

// scan checks the limits before libxml2 builds anything. It returns the positions of all start
// tags; s begins at the place p. In well-formed text its counts are exact; in malformed text
// they are exact up to the first error. At that error scan may stop and return nil, because
// libxml2 then reports the error.
func scan(s []byte, p place, lim Limits) ([]startTag, error) {
	var (
		tags      = make([]startTag, 0, 64)
		spaces    []int // number of namespace declarations on each open element
		inScope   int   // sum of spaces
		others    int   // number of comments, PIs and CDATA sections
		attrs     int   // number of attributes of all elements
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
		var n int // length of the tag or other markup; -1 if it does not end
		switch {
		case bytes.HasPrefix(rest, []byte("<!--")):
			n = lengthThrough(rest, 4, "-->")
			others++
			if i := bytes.Index(rest[4:], []byte("--")); i >= 0 && 4+i+3 != n {
				// libxml2 would continue and copy the whole comment for each further error.
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
			return nil, &SyntaxError{Line: p.line, Column: p.column, Msg: "a DOCTYPE or other declaration is not allowed", Rule: rule.Doctype}
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
			case t.attrs > lim.Attrs:
				return nil, &LimitError{"attributes of one element", lim.Attrs, p.line, p.column, rule.Attributes}
			case attrs > 2*lim.Elements:
				return nil, &LimitError{"attributes", 2 * lim.Elements, p.line, p.column, rule.Attributes}
			case t.longest > lim.NamespaceBytes:
				return nil, &LimitError{"bytes in the name of a namespace", lim.NamespaceBytes, p.line, p.column, rule.Declarations}
			case inScope+t.namespaces > lim.Namespaces:
				return nil, &LimitError{"namespace declarations in scope", lim.Namespaces, p.line, p.column, rule.Declarations}
			case depth+1 > lim.Depth:
				return nil, &LimitError{"levels of elements", lim.Depth, p.line, p.column, rule.Depth}
			}
			if !t.empty {
				depth++
				inScope += t.namespaces
				spaces = append(spaces, t.namespaces)
			}
		}
		if len(tags)+others > lim.Elements {
			return nil, &LimitError{"elements", lim.Elements, p.line, p.column, rule.Elements}
		}
		if n < 0 {
			return tags, nil
		}
		p.advance(s[at : at+n])
		at += n
	}
}

// lengthThrough returns the length of s up to and including the first occurrence of end at or
// after the offset from. It returns -1 if there is none.
func lengthThrough(s []byte, from int, end string) int {
	i := bytes.Index(s[min(from, len(s)):], []byte(end))
	if i < 0 {
		return -1
	}
	return from + i + len(end)
}

type tag struct {
	size       int // length of the tag; -1 if it does not end
	attrs      int // number of attributes and namespace declarations
	namespaces int // number of namespace declarations
	longest    int // bytes of the longest namespace name
	empty      bool
}

// scanTag measures the start tag at the start of s, and counts its attributes.
func scanTag(s []byte) (t tag) {
	name := 0         // where the name before the next = begins
	declares := false // the attribute that is being read is a namespace declaration
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
