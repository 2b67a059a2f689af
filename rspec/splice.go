package rspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// splices collects edits of one document. All methods read the unedited document, so
// the caller must not write the same attribute or child twice.
type splices struct {
	doc   *document
	edits []edit
	size  int // bytes of all edits' text
	// removed are the elements that were cut, by index.
	removed map[int]bool
	// blank caches the results of hasOnlyBlanksBefore.
	blank      map[*xmltree.Element]bool
	extensions []pair
}

// edit replaces src[from:to] with text.
type edit struct {
	from, to int
	text     string
}

func (s *splices) replace(from, to int, text string) {
	s.edits = append(s.edits, edit{from, to, text})
	s.size += len(text)
}

// cut removes the element, and the white space before it if that follows a tag.
func (s *splices) cut(e *xmltree.Element) {
	at := s.doc.spans[e.Index]
	from := at.start
	for from > 0 && isSpace(s.doc.src[from-1]) {
		from--
	}
	if from > 0 && s.doc.src[from-1] != '>' || !s.hasOnlyBlanksBefore(e) {
		from = at.start
	}
	s.replace(from, at.end, "")
	if s.removed == nil {
		s.removed = map[int]bool{}
	}
	s.removed[e.Index] = true
}

// hasOnlyBlanksBefore reports whether only white space is between an element and the markup
// before it. The answer is cached for all siblings.
func (s *splices) hasOnlyBlanksBefore(e *xmltree.Element) bool {
	if e.Parent == nil {
		return true
	}
	if _, known := s.blank[e]; !known {
		if s.blank == nil {
			s.blank = map[*xmltree.Element]bool{}
		}
		blank := true
		for _, c := range e.Parent.Children {
			switch c := c.(type) {
			case *xmltree.Element:
				s.blank[c], blank = blank, true
			case xmltree.Text:
				blank = strings.Trim(string(c), " \t\r\n") == ""
			default:
				blank = true
			}
		}
	}
	return s.blank[e]
}

func (s *splices) addExtension(space, schema string) {
	if p := (pair{space, schema}); !slices.Contains(s.extensions, p) {
		s.extensions = append(s.extensions, p)
	}
}

// appendTo inserts text at the end of the content of e.
func (s *splices) appendTo(e *xmltree.Element, text string) {
	if text == "" {
		return
	}
	at := s.doc.spans[e.Index]
	if at.selfClosing() {
		s.replace(at.open-len("/>"), at.open, ">"+text+"</"+s.doc.rawName(e)+">")
		return
	}
	s.replace(at.closing, at.closing, text)
}

type startTag struct {
	*splices
	e    *xmltree.Element
	list []attribute
	end  int // where new attributes go
}

func (s *splices) startTag(e *xmltree.Element) startTag {
	list, end := s.doc.attributes(e)
	return startTag{s, e, list, end}
}

func (t startTag) find(space, local string) (attribute, bool) {
	for _, a := range t.list {
		if a.of != nil && a.of.Local == local && a.of.Space == space {
			return a, true
		}
	}
	return attribute{}, false
}

// set sets an unprefixed attribute. If the attribute already has the value, its text does not
// change.
func (t startTag) set(name, value string) {
	a, found := t.find("", name)
	switch {
	case !found:
		t.add(name, escape(value))
	case a.of.Value != value:
		t.replace(a.from, a.to, escape(value))
	}
}

// setURN sets an unprefixed attribute, unless it already has the same URN in another spelling.
func (t startTag) setURN(name string, u urn.URN) {
	if given := strings.TrimSpace(value(t.e, name)); given != "" {
		if was, err := urn.Parse(given); err == nil && was == u {
			return
		}
	}
	t.set(name, u.String())
}

// add inserts an attribute after the others; raw is the escaped value.
func (t startTag) add(name, raw string) { t.addRaw(name, `"`+raw+`"`) }

// addRaw inserts an attribute after the others; quoted is the escaped value in quotes.
func (t startTag) addRaw(name, quoted string) { t.replace(t.end, t.end, " "+name+"="+quoted) }

func (d *document) quoted(a attribute) string { return string(d.src[a.from-1 : a.end()]) }

// drop removes an attribute, if there is one, with the white space before it.
func (t startTag) drop(space, name string) {
	a, found := t.find(space, name)
	if !found {
		return
	}
	from := a.start
	for isSpace(t.doc.src[from-1]) {
		from--
	}
	t.replace(from, a.end(), "")
}

// declared returns prefixes; "" stands for the default namespace.
func (t startTag) declared() []string {
	var list []string
	for _, a := range t.list {
		if a.of == nil {
			_, prefix, _ := strings.Cut(string(t.doc.src[a.start:a.nameEnd]), ":")
			list = append(list, prefix)
		}
	}
	return list
}

// sortEdits puts insertions before replacements. It fails if edits overlap, which would be a
// bug of this package.
func (s *splices) sortEdits() error {
	slices.SortStableFunc(s.edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(min(a.to-a.from, 1), min(b.to-b.from, 1)))
	})
	at := 0
	for _, e := range s.edits {
		if e.from < at || e.to < e.from || e.to > len(s.doc.src) {
			return fmt.Errorf("edits of the manifest overlap at byte %d", e.from)
		}
		at = e.to
	}
	return nil
}

// appendRange appends src[from:to] with its edits, which must be sorted.
func (s *splices) appendRange(b []byte, from, to int) []byte {
	first, _ := slices.BinarySearchFunc(s.edits, from, func(e edit, from int) int { return cmp.Compare(e.from, from) })
	at := from
	for _, e := range s.edits[first:] {
		if e.from > to || e.from == to && e.to > to {
			break
		}
		b = append(b, s.doc.src[at:e.from]...)
		b = append(b, e.text...)
		at = e.to
	}
	return append(b, s.doc.src[at:to]...)
}
