package manifesttest_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strings"
)

const (
	core      = "http://www.geni.net/resources/rspec/3"
	instance  = "http://www.w3.org/2001/XMLSchema-instance"
	xmlSpace  = "http://www.w3.org/XML/1998/namespace"
	userExt   = "http://www.geni.net/resources/rspec/ext/user/1"
	userExtPG = "http://www.protogeni.net/resources/rspec/ext/user/1"
	proxyExt  = "http://jfed.iminds.be/proxy/1.0"
	infoExt   = "http://groups.geni.net/exogeni/attachment/wiki/RspecExtensions/sliver-info/1"
	emulabExt = "http://www.protogeni.net/resources/rspec/ext/emulab/1"

	blank = " \t\r\n"
)

// doc is a document as encoding/xml reads it, which is neither the tokenizer of
// package rspec nor libxml2. Elements know their bytes.
type doc struct {
	b           []byte
	declaration [2]int // of the XML declaration
	root        *elem
}

// elem is an element: b[start:tag] is its start tag, b[endTag:end] its end tag,
// which is nothing if the element is written as one empty tag.
type elem struct {
	start, tag, endTag, end int
	name                    string // as written
	space, local            string
	attrs                   []attr
	items                   []item
	parent                  *elem
}

// attr is an attribute: its bytes are b[start:end], with the white space before
// it, and its value without quotes is b[val:end-1]. Declarations of namespaces
// are in the space xmlns; the default one has no local name.
type attr struct {
	start, val, end     int
	name                string // as written
	space, local, value string
}

// item is a piece of content: an element, text (with CDATA), or neither.
type item struct {
	start, end int
	el         *elem
	isText     bool
}

func (d *doc) bytes(start, end int) string { return string(d.b[start:end]) }

func (e *elem) is(space, local string) bool { return e.space == space && e.local == local }

func (e *elem) isEmpty() bool { return e.endTag == e.end }

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
		if i.el != nil && i.el.is(space, local) {
			list = append(list, i.el)
		}
	}
	return list
}

var (
	declaration = regexp.MustCompile(`^(?:\x{FEFF})?[ \t\r\n]*(<\?xml[ \t\r\n][^?]*\?>)?`)
	attribute   = regexp.MustCompile(`[ \t\r\n]+[^ \t\r\n=]+[ \t\r\n]*=[ \t\r\n]*("[^"]*"|'[^']*')`)
)

// parse reads a document that may begin with a byte order mark and blanks.
func parse(b []byte) (*doc, error) {
	d := &doc{b: b}
	m := declaration.FindSubmatchIndex(b)
	d.declaration = [2]int{m[1], m[1]}
	if m[2] >= 0 {
		d.declaration[0] = m[2]
	}
	skip := m[1]
	x := xml.NewDecoder(bytes.NewReader(b[skip:]))
	var e *elem
	for {
		start := skip + int(x.InputOffset())
		token, err := x.Token()
		if err == io.EOF && d.root != nil {
			return d, nil
		} else if err != nil {
			return nil, err
		}
		end := skip + int(x.InputOffset())
		i := item{start: start, end: end}
		switch token := token.(type) {
		case xml.StartElement:
			child := &elem{start: start, tag: end, endTag: end, end: end, space: token.Name.Space, local: token.Name.Local, parent: e}
			if child.attrs, err = d.attributes(child, token.Attr); err != nil {
				return nil, err
			}
			if i.el = child; e == nil && d.root == nil {
				d.root, e = child, child
				continue
			}
			if e == nil {
				return nil, fmt.Errorf("a second root at byte %d", start)
			}
			e.items, e = append(e.items, i), child
			continue
		case xml.EndElement:
			e.endTag, e.end = start, end
			if e.parent != nil {
				last := &e.parent.items[len(e.parent.items)-1]
				last.end = end
			}
			e = e.parent
			continue
		case xml.CharData:
			i.isText = true
		}
		if e != nil {
			e.items = append(e.items, i)
		} else if i.isText && strings.Trim(d.bytes(start, end), blank) != "" {
			return nil, fmt.Errorf("text outside of the root at byte %d", start)
		}
	}
}

// attributes finds where the attributes of a tag are.
func (d *doc) attributes(e *elem, read []xml.Attr) (list []attr, err error) {
	tag := d.b[e.start:e.tag]
	e.name = string(tag[1 : 1+bytes.IndexAny(tag[1:], blank+"/>")])
	found := attribute.FindAllSubmatchIndex(tag, -1)
	if len(found) != len(read) {
		return nil, fmt.Errorf("%d attributes are read of %q, and %d are found", len(read), tag, len(found))
	}
	for i, m := range found {
		a := attr{name: strings.Trim(string(tag[m[0]:m[2]]), blank+"="), start: e.start + m[0], val: e.start + m[2] + 1, end: e.start + m[1], space: read[i].Name.Space, local: read[i].Name.Local, value: read[i].Value}
		if a.space == "" && a.local == "xmlns" {
			a.space, a.local = "xmlns", ""
		}
		list = append(list, a)
	}
	return list, nil
}
