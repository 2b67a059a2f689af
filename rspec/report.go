package rspec

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"patchbay/schemas/xmltree"
)

const (
	maxProblems = 50
	maxRemarks  = 20
)

// place is an element, or an attribute of it: unprefixed, or of one of our extensions.
type place struct {
	e    *xmltree.Element
	attr string
}

// finding is a problem before its text and position are computed. Only reported findings need
// both.
type finding struct {
	place
	kind     Kind
	clientID string
	remedy   string
	format   string
	args     []any
}

// report keeps the findings that come first in the document.
type report struct {
	most int // number of findings to keep
	list []finding
	more int // number of dropped findings
}

func (r *report) add(x finding) {
	r.list = append(r.list, x)
	if len(r.list) > 40*r.most {
		r.trim()
	}
}

func (r *report) trim() {
	slices.SortStableFunc(r.list, func(a, b finding) int { return cmp.Compare(a.e.Index, b.e.Index) })
	if len(r.list) > r.most {
		r.more += len(r.list) - r.most
		clear(r.list[r.most:])
		r.list = r.list[:r.most]
	}
}

// problems returns the kept findings as Problems, by line and column. The offset of each place is computed
// once, in the order of the document.
func (r *report) problems(doc *document) []Problem {
	r.trim()
	offsets := make([]int, len(r.list))
	order := make([]int, len(r.list))
	for i, x := range r.list {
		offsets[i], order[i] = doc.offset(x.place), i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(offsets[a], offsets[b]) })
	at := newPosition(doc.given)
	var out []Problem
	for _, i := range order {
		x := r.list[i]
		at.moveTo(offsets[i])
		out = append(out, Problem{x.kind, x.clientID, at.line, at.column, fmt.Sprintf(x.format, x.args...), x.remedy})
	}
	return out
}

// offset returns the position of p in the bytes of the document as received.
func (d *document) offset(p place) int {
	at := d.spans[p.e.Index].start
	if p.attr != "" {
		list, _ := d.attributes(p.e)
		for _, a := range list {
			if a.of != nil && a.of.Local == p.attr && (a.of.Space == "" || strings.HasPrefix(a.of.Space, ExtensionBase)) {
				at = a.start
				break
			}
		}
	}
	return d.cut + at
}

type position struct {
	text         []byte
	at           int
	line, column int
}

// newPosition skips a byte order mark.
func newPosition(text []byte) position {
	p := position{text: text, line: 1, column: 1}
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		p.at = 3
	}
	return p
}

// moveTo requires an offset that is not before the last one.
func (p *position) moveTo(offset int) {
	passed := p.text[p.at:offset]
	if n := bytes.Count(passed, []byte{'\n'}); n > 0 {
		p.line += n
		p.column = 1
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	p.column += utf8.RuneCount(passed)
	p.at = offset
}
