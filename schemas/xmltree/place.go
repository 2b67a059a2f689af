package xmltree

import (
	"bytes"
	"unicode/utf8"
)

// place counts from 1; column counts characters.
type place struct{ line, column int }

var newline = []byte{'\n'}

func (p *place) advance(s []byte) {
	if n := bytes.Count(s, newline); n > 0 {
		p.line += n
		p.column = 1
		s = s[bytes.LastIndexByte(s, '\n')+1:]
	}
	p.column += utf8.RuneCount(s)
}

const byteOrderMark = "\xef\xbb\xbf"

// placeOf returns the place of an offset in the bytes given to Parse. A byte order mark has no
// width, because editors do not show it.
func placeOf(b []byte, offset int) place {
	p := place{1, 1}
	p.advance(bytes.TrimPrefix(b[:offset], []byte(byteOrderMark)))
	return p
}

// startTag has an offset in Doc.Source and a place.
type startTag struct{ at, line, column int32 }

// attributePlaces returns the place of each attribute of e, in the order of e.Attrs.
func (d *Doc) attributePlaces(e *Element) []place {
	t := d.tags[e.Index]
	p := place{int(t.line), int(t.column)}
	tag := d.Source[t.at:]
	found := make([]place, 0, len(e.Attrs))
	at := 0 // offset of p in tag
	for i := 1; i < len(tag) && len(found) < len(e.Attrs); i++ {
		if tag[i-1] > ' ' || tag[i] <= ' ' {
			continue
		}
		// A name begins here. Continue after its value.
		open := i + bytes.IndexAny(tag[i:], `"'`)
		if open < i {
			break
		}
		if !declaresNamespace(tag[i:open]) {
			p.advance(tag[at:i])
			at = i
			found = append(found, p)
		}
		i = open + 1 + bytes.IndexByte(tag[open+1:], tag[open])
	}
	for len(found) < len(e.Attrs) { // cannot happen in text that libxml2 accepts
		found = append(found, p)
	}
	return found
}

// declaresNamespace reports whether the attribute whose name begins the text declares a namespace.
func declaresNamespace(name []byte) bool {
	return bytes.HasPrefix(name, []byte("xmlns")) && (len(name) == 5 || name[5] == ':' || name[5] == '=' || name[5] <= ' ')
}
