package rspec

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"testing"

	"patchbay/schemas/xmltree"
)

// FuzzReading compares the positions of the tokenizer with the tree of libxml2: spans nest like the
// tree, begin and end with the element's own tags, and the bytes at the position of an attribute's
// value have that value.
func FuzzReading(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.request.xml")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(text) < 4<<10 {
			f.Add(text)
		}
	}
	for _, in := range []string{
		"<a b='1>2' c=\"x'y\" d = '&#62;&gt;'></a ><!-- > --><?p <a>?>",
		"<p:a xmlns:p='u:u' xmlns='u:v' p:x='' x=\"\n&#10;\"><b/><![CDATA[<c>]]><p:b xmlns:p='u:w' p:y='\"'>t</p:b></p:a>",
		"\ufeff\n<?xml version='1.1'?><a\r\n\tb='é]]>'/>",
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = xmltree.Parse(text, xmltree.Limits{Bytes: 1 << 16}, func(d *xmltree.Doc) error {
			doc, err := locate(d, text)
			if err != nil {
				return nil
			}
			for i, e := range doc.elements {
				s, own := doc.spans[i], doc.bytes(e)
				name := doc.rawName(e)
				if !bytes.HasPrefix(own, []byte("<"+name)) || own[len(own)-1] != '>' || doc.src[s.open-1] != '>' ||
					!s.selfClosing() && !bytes.HasPrefix(doc.src[s.closing:], []byte("</"+name)) || s.selfClosing() && own[len(own)-2] != '/' {
					t.Fatalf("element %d, %s, is said to be %q in %q", i, name, own, text)
				}
				if e.Parent != nil {
					if p := doc.spans[e.Parent.Index]; s.start < p.open || s.end > p.closing {
						t.Fatalf("element %d, %s, is not inside of its parent in %q", i, name, text)
					}
				}
				list, _ := doc.attributes(e)
				n := 0
				for _, a := range list {
					if a.of == nil {
						continue
					}
					n++
					if got := valueOf(t, doc.src[a.from:a.to]); got != a.of.Value {
						t.Fatalf("attribute %s of element %d is %q at its place, libxml2 reads %q in %q", a.of.Local, i, got, a.of.Value, text)
					}
				}
				if n != len(e.Attrs) {
					t.Fatalf("%d attributes of element %d were found, libxml2 reads %d in %q", n, i, len(e.Attrs), text)
				}
			}
			return nil
		})
	})
}

// valueOf returns the value of raw in an attribute: references are replaced, and each literal white
// space is a space.
func valueOf(t *testing.T, raw []byte) string {
	t.Helper()
	raw = bytes.ReplaceAll(raw, []byte("\r\n"), []byte(" "))
	raw = bytes.ReplaceAll(raw, []byte("]]>"), []byte("]]&gt;")) // which is not allowed in text
	raw = bytes.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, raw)
	token, err := xml.NewDecoder(bytes.NewReader(append(bytes.Clone(raw), '<'))).RawToken()
	if len(raw) == 0 {
		return ""
	}
	text, ok := token.(xml.CharData)
	if !ok {
		t.Fatalf("%q is no text: %v", raw, err)
	}
	return string(text)
}
