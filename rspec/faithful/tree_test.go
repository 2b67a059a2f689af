package faithful_test

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A document is read into elements that know their bytes. The reader is a few
// hundred lines of its own, so that it shares no mistake with the tokenizers of
// libxml2, of encoding/xml, or of package rspec.

const (
	core      = "http://www.geni.net/resources/rspec/3"
	instance  = "http://www.w3.org/2001/XMLSchema-instance"
	xmlSpace  = "http://www.w3.org/XML/1998/namespace"
	userExt   = "http://www.geni.net/resources/rspec/ext/user/1"
	userExtPG = "http://www.protogeni.net/resources/rspec/ext/user/1"
	proxyExt  = "http://jfed.iminds.be/proxy/1.0"
)

type kind byte

const (
	element kind = iota
	text
	comment
	instruction
	cdata
)

// item is a piece of content.
type item struct {
	kind       kind
	start, end int
	el         *elem
}

// attr is an attribute or a namespace declaration. Its bytes are b[start:end],
// the value without its quotes is b[val:end-1].
type attr struct {
	start, val, end int
	name            string // as written
	space, local    string // declarations are in the space xmlns
	value           string
}

// elem is an element: b[start:tag] is its start tag, b[endTag:end] its end tag,
// which is nothing if the element is written as one empty tag.
type elem struct {
	start, tag, endTag, end int
	empty                   bool
	name                    string // as written
	space, local            string
	attrs                   []attr
	items                   []item
	parent                  *elem
	declared                map[string]string
}

// doc is a whole document.
type doc struct {
	b           []byte
	declaration [2]int // of the XML declaration
	root        *elem
}

func (d *doc) bytes(start, end int) string { return string(d.b[start:end]) }

func (e *elem) is(space, local string) bool { return e != nil && e.space == space && e.local == local }

// attr finds an attribute by its names.
func (e *elem) attr(space, local string) *attr {
	for i := range e.attrs {
		if a := &e.attrs[i]; a.local == local && a.space == space {
			return a
		}
	}
	return nil
}

// get is the value of an attribute in no namespace.
func (e *elem) get(local string) string {
	if a := e.attr("", local); a != nil {
		return a.value
	}
	return ""
}

// all are the children of a name.
func (e *elem) all(space, local string) (list []*elem) {
	for _, i := range e.items {
		if i.kind == element && i.el.is(space, local) {
			list = append(list, i.el)
		}
	}
	return list
}

// path says where an element is, for messages.
func (e *elem) path() string {
	if e == nil {
		return ""
	}
	s := e.parent.path() + "/"
	switch e.space {
	case core:
	case "":
		s += "{}"
	default:
		s += "{" + e.space + "}"
	}
	s += e.local
	if id := e.get("client_id"); id != "" {
		s += "[" + id + "]"
	}
	return s
}

func (e *elem) resolve(prefix string) (string, bool) {
	if prefix == "xml" {
		return xmlSpace, true
	}
	for ; e != nil; e = e.parent {
		if uri, ok := e.declared[prefix]; ok {
			return uri, uri != "" || prefix == ""
		}
	}
	return "", prefix == ""
}

const blank = " \t\r\n"

func isBlank(c byte) bool { return strings.IndexByte(blank, c) >= 0 }

// scanner reads a document once, from front to back.
type scanner struct {
	b   []byte
	pos int
}

func (s *scanner) fail(format string, args ...any) error {
	line := 1 + bytes.Count(s.b[:min(s.pos, len(s.b))], []byte("\n"))
	return fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...))
}

func (s *scanner) at(prefix string) bool { return bytes.HasPrefix(s.b[s.pos:], []byte(prefix)) }

func (s *scanner) skipBlank() {
	for s.pos < len(s.b) && isBlank(s.b[s.pos]) {
		s.pos++
	}
}

// through moves behind the next occurrence of end.
func (s *scanner) through(skip int, end string) error {
	i := bytes.Index(s.b[s.pos+skip:], []byte(end))
	if i < 0 {
		return s.fail("%s is missing", end)
	}
	s.pos += skip + i + len(end)
	return nil
}

// parse reads a document that may begin with a byte order mark and blanks.
func parse(b []byte) (*doc, error) {
	if !utf8.Valid(b) {
		return nil, errors.New("not UTF-8")
	}
	d, s := &doc{b: b}, &scanner{b: b}
	if s.at("\ufeff") {
		s.pos += 3
	}
	s.skipBlank()
	d.declaration = [2]int{s.pos, s.pos}
	if s.at("<?xml") && s.pos+5 < len(b) && isBlank(b[s.pos+5]) {
		if err := s.through(5, "?>"); err != nil {
			return nil, err
		}
		d.declaration[1] = s.pos
	}
	for s.skipBlank(); s.pos < len(b); s.skipBlank() {
		switch {
		case s.at("<!--"), s.at("<?"):
			if _, err := s.misc(); err != nil {
				return nil, err
			}
		case b[s.pos] != '<' || d.root != nil || s.at("<!") || s.at("</"):
			return nil, s.fail("only one element, comments and instructions are allowed here")
		default:
			if err := s.tree(d); err != nil {
				return nil, err
			}
		}
	}
	if d.root == nil {
		return nil, s.fail("no element")
	}
	return d, nil
}

func (s *scanner) misc() (item, error) {
	start := s.pos
	switch {
	case s.at("<!--"):
		if err := s.through(4, "--"); err != nil {
			return item{}, err
		}
		if !s.at(">") {
			return item{}, s.fail("-- in a comment")
		}
		s.pos++
		return item{kind: comment, start: start, end: s.pos}, nil
	case s.at("<![CDATA["):
		err := s.through(9, "]]>")
		return item{kind: cdata, start: start, end: s.pos}, err
	case s.at("<?"):
		target, _, _ := strings.Cut(string(s.b[s.pos+2:min(len(s.b), s.pos+6)]), "?")
		if len(target) >= 3 && strings.EqualFold(target[:3], "xml") && (len(target) == 3 || isBlank(target[3])) {
			return item{}, s.fail("an XML declaration that is not at the beginning")
		}
		err := s.through(2, "?>")
		return item{kind: instruction, start: start, end: s.pos}, err
	}
	return item{}, s.fail("markup that is not allowed here")
}

// tree reads the root and all that is inside.
func (s *scanner) tree(d *doc) error {
	var e *elem
	for {
		switch {
		case s.pos >= len(s.b):
			return s.fail("the document ends inside <%s>", e.name)
		case s.b[s.pos] != '<':
			start := s.pos
			for s.pos < len(s.b) && s.b[s.pos] != '<' {
				s.pos++
			}
			if t := s.b[start:s.pos]; bytes.Contains(t, []byte("]]>")) {
				return s.fail("]]> in text")
			} else if _, err := decode(string(t), false); err != nil {
				return s.fail("%v", err)
			}
			e.items = append(e.items, item{kind: text, start: start, end: s.pos})
		case s.at("<!"), s.at("<?"):
			i, err := s.misc()
			if err != nil {
				return err
			}
			e.items = append(e.items, i)
		case s.at("</"):
			e.endTag = s.pos
			s.pos += 2
			if name := s.name(); name != e.name {
				return s.fail("</%s> ends <%s>", name, e.name)
			}
			if s.skipBlank(); !s.at(">") {
				return s.fail("> is missing")
			}
			s.pos++
			e.end = s.pos
			if e = e.parent; e == nil {
				return nil
			}
		default:
			child, err := s.startTag(e)
			if err != nil {
				return err
			}
			if e == nil {
				d.root = child
			} else {
				e.items = append(e.items, item{kind: element, start: child.start, el: child})
			}
			if e = child; child.empty {
				if e = child.parent; e == nil {
					return nil
				}
			}
		}
	}
}

func (s *scanner) name() string {
	start := s.pos
	for s.pos < len(s.b) && !isBlank(s.b[s.pos]) && strings.IndexByte("=/><'\"&;!?", s.b[s.pos]) < 0 {
		s.pos++
	}
	return string(s.b[start:s.pos])
}

func (s *scanner) startTag(parent *elem) (*elem, error) {
	e := &elem{start: s.pos, parent: parent}
	s.pos++
	if e.name = s.name(); e.name == "" {
		return nil, s.fail("an element without name")
	}
	for {
		start := s.pos
		s.skipBlank()
		switch {
		case s.at("/>"), s.at(">"):
			e.empty = s.at("/>")
			if s.pos++; e.empty {
				s.pos++
			}
			e.tag, e.endTag, e.end = s.pos, s.pos, s.pos
			return e, s.names(e)
		case start == s.pos:
			return nil, s.fail("<%s> goes wrong", e.name)
		}
		a := attr{start: s.pos}
		a.name = s.name()
		s.skipBlank()
		if a.name == "" || !s.at("=") {
			return nil, s.fail("an attribute of <%s> goes wrong", e.name)
		}
		s.pos++
		s.skipBlank()
		if !s.at(`"`) && !s.at(`'`) {
			return nil, s.fail("a value without quotes")
		}
		quote := string(s.b[s.pos])
		a.val = s.pos + 1
		if err := s.through(1, quote); err != nil {
			return nil, err
		}
		a.end = s.pos
		raw := string(s.b[a.val : a.end-1])
		var err error
		if a.value, err = decode(raw, true); err != nil || strings.Contains(raw, "<") {
			return nil, s.fail("the value of %s: %v", a.name, err)
		}
		e.attrs = append(e.attrs, a)
	}
}

// names resolves the prefixes of a tag.
func (s *scanner) names(e *elem) error {
	e.declared = map[string]string{}
	for i := range e.attrs {
		a := &e.attrs[i]
		switch prefix, local, ok := strings.Cut(a.name, ":"); {
		case a.name == "xmlns":
			a.space, a.local = "xmlns", ""
			e.declared[""] = a.value
		case ok && prefix == "xmlns":
			if a.value == "" {
				return s.fail("the prefix %s stands for nothing", local)
			}
			a.space, a.local = "xmlns", local
			e.declared[local] = a.value
		}
	}
	name := func(n string, element bool) (space, local string, err error) {
		prefix, local, ok := strings.Cut(n, ":")
		if !ok {
			prefix, local = "", n
		}
		if strings.Contains(local, ":") || ok && (prefix == "" || local == "") {
			return "", "", s.fail("%s is no name", n)
		}
		if !ok && !element {
			return "", local, nil
		}
		if space, ok = e.resolve(prefix); !ok {
			return "", "", s.fail("nobody declares the prefix of %s", n)
		}
		return space, local, nil
	}
	seen := map[[2]string]bool{}
	for i := range e.attrs {
		a := &e.attrs[i]
		if a.space != "xmlns" {
			var err error
			if a.space, a.local, err = name(a.name, false); err != nil {
				return err
			}
		}
		if key := [2]string{a.space, a.local}; seen[key] {
			return s.fail("%s twice in <%s>", a.name, e.name)
		} else {
			seen[key] = true
		}
	}
	var err error
	e.space, e.local, err = name(e.name, true)
	return err
}

// unit is a character and how it is written.
type unit struct {
	raw string
	r   rune
}

// units cuts text, or the value of an attribute, into characters.
func units(raw string, value bool) ([]unit, error) {
	var list []unit
	for raw != "" {
		r, n := utf8.DecodeRuneInString(raw)
		switch {
		case r == '&':
			end := strings.IndexByte(raw, ';')
			if end < 0 {
				return nil, errors.New("& without ;")
			}
			n = end + 1
			switch ref := raw[1:end]; {
			case ref == "lt":
				r = '<'
			case ref == "gt":
				r = '>'
			case ref == "amp":
				r = '&'
			case ref == "quot":
				r = '"'
			case ref == "apos":
				r = '\''
			case strings.HasPrefix(ref, "#"):
				digits, base := ref[1:], 10
				if strings.HasPrefix(digits, "x") {
					digits, base = digits[1:], 16
				}
				v, err := strconv.ParseUint(digits, base, 32)
				if err != nil || v > utf8.MaxRune || !isChar(rune(v)) {
					return nil, fmt.Errorf("the reference &%s;", ref)
				}
				r = rune(v)
			default:
				return nil, fmt.Errorf("the entity &%s;", ref)
			}
		case !isChar(r):
			return nil, fmt.Errorf("the character %U", r)
		case strings.HasPrefix(raw, "\r\n"):
			n, r = 2, '\n'
		case r == '\r':
			r = '\n'
		}
		if value && (r == '\n' || r == '\t') && raw[0] != '&' {
			r = ' '
		}
		list = append(list, unit{raw[:n], r})
		raw = raw[n:]
	}
	return list, nil
}

func isChar(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD || r >= 0x10000
}

func decode(raw string, value bool) (string, error) {
	if !strings.ContainsFunc(raw, func(r rune) bool {
		return r == '&' || r == '\r' || value && (r == '\n' || r == '\t') || !isChar(r)
	}) {
		return raw, nil
	}
	list, err := units(raw, value)
	var b strings.Builder
	for _, u := range list {
		b.WriteRune(u.r)
	}
	return b.String(), err
}
