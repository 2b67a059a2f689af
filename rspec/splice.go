package rspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// splices collects edits of one document. Each method decides from the document
// as it stands, so what it says about an element is said once.
type splices struct {
	doc   *document
	edits []edit
	size  int // bytes of all edits' text
	// gone are the elements that were cut, by index.
	gone map[int]bool
	// blank tells of elements whether only white space is before them.
	blank map[*xmltree.Element]bool
	// extensions are those that were written.
	extensions []pair
}

// edit puts text in the place of src[from:to].
type edit struct {
	from, to int
	text     string
}

func (s *splices) replace(from, to int, text string) {
	s.edits = append(s.edits, edit{from, to, text})
	s.size += len(text)
}

// cut takes an element out, with the white space in front of it if nothing but
// white space is between it and the tag before.
func (s *splices) cut(e *xmltree.Element) {
	at := s.doc.spans[e.Index]
	from := at.start
	for from > 0 && isSpace(s.doc.src[from-1]) {
		from--
	}
	if from > 0 && s.doc.src[from-1] != '>' || !s.apart(e) {
		from = at.start
	}
	s.replace(from, at.end, "")
	if s.gone == nil {
		s.gone = map[int]bool{}
	}
	s.gone[e.Index] = true
}

// apart tells whether no text but blanks is between an element and what is
// before it. The siblings of an element that was asked about are known, too.
func (s *splices) apart(e *xmltree.Element) bool {
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

// uses notes that an extension was written.
func (s *splices) uses(space, schema string) {
	if p := (pair{space, schema}); !slices.Contains(s.extensions, p) {
		s.extensions = append(s.extensions, p)
	}
}

// appendTo puts text behind all that e contains.
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

// startTag edits the attributes of one element.
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

// find is the attribute of that expanded name.
func (t startTag) find(space, local string) (attribute, bool) {
	for _, a := range t.list {
		if a.of != nil && a.of.Local == local && a.of.Space == space {
			return a, true
		}
	}
	return attribute{}, false
}

// set gives an unprefixed attribute a value; one that already has it stays as
// it is written.
func (t startTag) set(name, value string) {
	a, found := t.find("", name)
	switch {
	case !found:
		t.add(name, escape(value))
	case a.of.Value != value:
		t.replace(a.from, a.to, escape(value))
	}
}

// setURN is set for a URN: another spelling of the same one stays, too.
func (t startTag) setURN(name string, u urn.URN) {
	if given := strings.TrimSpace(value(t.e, name)); given != "" {
		if was, err := urn.Parse(given); err == nil && was == u {
			return
		}
	}
	t.set(name, u.String())
}

// add puts a new attribute behind the others; raw is the escaped value.
func (t startTag) add(name, raw string) { t.addRaw(name, `"`+raw+`"`) }

// addRaw is add for a value that is in quotes already.
func (t startTag) addRaw(name, quoted string) { t.replace(t.end, t.end, " "+name+"="+quoted) }

// quoted is the value of an attribute as it is written, in its quotes.
func (d *document) quoted(a attribute) string { return string(d.src[a.from-1 : a.end()]) }

// drop takes an unprefixed attribute out, with the white space in front of it.
func (t startTag) drop(name string) {
	a, found := t.find("", name)
	if !found {
		return
	}
	from := a.start
	for isSpace(t.doc.src[from-1]) {
		from--
	}
	t.replace(from, a.end(), "")
}

// declared are the prefixes that the tag itself declares ("" is the default).
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

// order sorts the edits, insertions before what they stand in front of. Two
// edits overlap only by a mistake of this package.
func (s *splices) order() error {
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

// appendRange appends src[from:to] with the edits that lie in it; the edits
// must be in order.
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
