package xmltree

import "bytes"

// scan walks over the markup of s and holds it against the limits before
// libxml2 builds anything. It returns the line of every start tag, counted
// from line.
//
// On a well-formed text its counts are exact. On any other they are exact up to
// the first error, which is as far as libxml2 goes; there scan may stop early,
// for the error is libxml2's to report.
func scan(s []byte, line int, lim Limits) ([]int32, error) {
	var (
		lines     = make([]int32, 0, 64)
		spaces    []int // namespace declarations of the open elements
		inScope   int
		others    int // comments, PIs and CDATA sections
		attrs     int
		at, depth int
	)
	for {
		i := bytes.IndexByte(s[at:], '<')
		if i < 0 {
			return lines, nil
		}
		line += bytes.Count(s[at:at+i], newline)
		at += i
		rest := s[at:]
		var n int
		switch {
		case bytes.HasPrefix(rest, []byte("<!--")):
			n = skip(rest, 4, "-->")
			others++
		case bytes.HasPrefix(rest, []byte("<![CDATA[")):
			n = skip(rest, 9, "]]>")
			others++
		case bytes.HasPrefix(rest, []byte("<?")):
			n = skip(rest, 2, "?>")
			others++
		case bytes.HasPrefix(rest, []byte("<!")):
			return nil, &SyntaxError{Line: line, Msg: "a DOCTYPE or other declaration is not allowed"}
		case bytes.HasPrefix(rest, []byte("</")):
			n = skip(rest, 2, ">")
			if depth > 0 {
				depth--
				inScope -= spaces[depth]
				spaces = spaces[:depth]
			}
		default:
			t := scanTag(rest)
			n = t.size
			lines = append(lines, int32(line))
			attrs += t.attrs
			switch {
			case t.attrs > lim.Attrs:
				return nil, &LimitError{"attributes of one element", lim.Attrs, line}
			case attrs > 4*lim.Elements:
				return nil, &LimitError{"attributes", 4 * lim.Elements, line}
			case inScope+t.namespaces > lim.Namespaces:
				return nil, &LimitError{"namespace declarations in one place", lim.Namespaces, line}
			case depth+1 > lim.Depth:
				return nil, &LimitError{"levels of elements", lim.Depth, line}
			}
			if !t.empty {
				depth++
				inScope += t.namespaces
				spaces = append(spaces, t.namespaces)
			}
		}
		if len(lines)+others > lim.Elements {
			return nil, &LimitError{"elements", lim.Elements, line}
		}
		if n < 0 {
			return lines, nil
		}
		line += bytes.Count(s[at:at+n], newline)
		at += n
	}
}

var newline = []byte{'\n'}

// skip is the length of s up to and with end, searched from offset from; -1
// when it does not come.
func skip(s []byte, from int, end string) int {
	i := bytes.Index(s[min(from, len(s)):], []byte(end))
	if i < 0 {
		return -1
	}
	return from + i + len(end)
}

type tag struct {
	size, attrs, namespaces int // size -1: no end
	empty                   bool
}

// scanTag counts the attributes of the start tag at the beginning of s.
func scanTag(s []byte) (t tag) {
	name := 0 // where the name before the next = begins
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
			if n := s[name:i]; name > 0 && bytes.HasPrefix(n, []byte("xmlns")) && (len(n) == 5 || n[5] == ':' || n[5] <= ' ') {
				t.namespaces++
			}
		case '"', '\'':
			end := bytes.IndexByte(s[i+1:], c)
			if end < 0 {
				t.size = -1
				return t
			}
			i += end + 1
		}
	}
	t.size = -1
	return t
}
