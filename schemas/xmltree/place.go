package xmltree

import (
	"bytes"
	"unicode/utf8"
)

// place is a line and a column of characters, both counted from 1.
type place struct{ line, column int }

var newline = []byte{'\n'}

// over moves the place over s.
func (p *place) over(s []byte) {
	if n := bytes.Count(s, newline); n > 0 {
		p.line += n
		p.column = 1
		s = s[bytes.LastIndexByte(s, '\n')+1:]
	}
	p.column += utf8.RuneCount(s)
}

const byteOrderMark = "\xef\xbb\xbf"

// placeOf is the place of an offset in the bytes given to Parse. A byte order
// mark has no width, for no editor shows it.
func placeOf(b []byte, offset int) place {
	p := place{1, 1}
	p.over(bytes.TrimPrefix(b[:offset], []byte(byteOrderMark)))
	return p
}

// startTag is where one start tag begins: its offset in Doc.Source, and its place.
type startTag struct{ at, line, column int32 }

// attribute is the place of the attribute number n of an element, its
// namespace declarations not counted.
func (d *Doc) attribute(e *Element, n int) place {
	t := d.tags[e.Index]
	p := place{int(t.line), int(t.column)}
	tag := d.Source[t.at:]
	at := 0
	for i := 1; i < len(tag) && tag[i] != '>'; i++ {
		if tag[i-1] > ' ' || tag[i] <= ' ' || tag[i] == '/' {
			continue
		}
		// A name begins here; skip to the end of its value.
		name := tag[i:]
		q := bytes.IndexAny(name, `"'`)
		if q < 0 {
			break
		}
		end := bytes.IndexByte(name[q+1:], name[q])
		if end < 0 {
			break
		}
		if !declaresNamespace(name[:q]) {
			if n == 0 {
				at = i
				break
			}
			n--
		}
		i += q + 1 + end
	}
	p.over(tag[:at])
	return p
}

// declaresNamespace tells whether an attribute's name, with what follows it,
// is xmlns or begins with xmlns:.
func declaresNamespace(name []byte) bool {
	return bytes.HasPrefix(name, []byte("xmlns")) && (len(name) == 5 || name[5] == ':' || name[5] == '=' || name[5] <= ' ')
}
