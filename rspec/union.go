package rspec

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"

	"patchbay/schemas/xmltree"
)

// union is the first part's document, to which the content of the other parts' roots is
// appended.
type union struct {
	parts []*splices
	// seen counts the elements in the union that parts may share: foreign nodes and links, and
	// root extensions.
	seen map[fingerprint]int
	root commonRoot
}

// fingerprint hashes an element's bytes and the namespaces of its names.
type fingerprint [sha256.Size]byte

func newUnion(r *Request, s *splices, hasMore bool) *union {
	m := &union{parts: []*splices{s}, root: newCommonRoot(s)}
	if !hasMore {
		return m
	}
	m.seen = map[fingerprint]int{surroundingKey(s.doc.prologue()): 1, surroundingKey(s.doc.epilogue()): 1}
	for _, e := range r.shareable() {
		m.seen[contentKey(s.doc, e)]++
	}
	return m
}

// add adds a part to the union, without the shareable elements that the union already has. If a part has equal
// elements several times, the union has as many of them as the part with the most. add fails with ErrTooLarge.
func (m *union) add(r *Request, s *splices) error {
	doc := s.doc
	shared := map[int]bool{}
	for _, e := range r.shareable() {
		shared[e.Index] = true
	}
	conflicts, given := m.root.merge(s)
	inPart := map[fingerprint]int{}
	for _, e := range doc.elements[0].Elements() {
		if s.removed[e.Index] {
			continue
		}
		if shared[e.Index] {
			key := contentKey(doc, e)
			inPart[key]++
			if inPart[key] <= m.seen[key] {
				s.cut(e)
				continue
			}
			m.seen[key] = inPart[key]
		}
		s.redeclare(e, conflicts)
		s.inherit(e, given)
		if s.size > maxManifest {
			return ErrTooLarge
		}
	}
	m.parts = append(m.parts, s)
	return nil
}

// shareable returns the children of the root that several requests may share: all but own
// nodes and own links.
func (r *Request) shareable() []*xmltree.Element {
	own := map[int]bool{}
	for i := range r.Nodes {
		own[r.Nodes[i].element] = true
	}
	for i := range r.links {
		own[r.links[i].element] = true
	}
	return slices.DeleteFunc(r.doc.elements[0].Elements(), func(e *xmltree.Element) bool { return own[e.Index] })
}

// UnionBytes returns an upper bound for the bytes that the request adds to a
// manifest of several requests, without the facts of nodes and links. It counts
// the document and, for each child of the root, the declarations and xml: attributes
// that the child inherits: a union may have to write them on each child. It also counts the
// declarations on ends and properties, which may become a part of another link.
func (r *Request) UnionBytes() int {
	d := r.doc
	root := d.elements[0]
	inherited := 0
	for _, local := range inheritable {
		v, _ := root.Attr(xmlSpace, local)
		inherited += len(` xml:space="default"`) + len(escape(v))
	}
	size := len(d.given)
	for e := range childElements(root) {
		size += inherited
		used := prefixesIn(d.bytes(e), d.rootSpaces)
		used[""] = true
		for prefix := range used {
			size += len(` xmlns:=""`) + len(prefix) + len(escape(d.rootSpaces[prefix]))
		}
	}
	for _, l := range r.links {
		size += len(d.elements[l.element].Children) * len(` xmlns=""`+Namespace)
	}
	return size
}

// redeclare declares prefixes on e, a child of the root. It skips prefixes that e does not use
// or declares itself.
func (s *splices) redeclare(e *xmltree.Element, prefixes map[string]bool) {
	if len(prefixes) == 0 {
		return
	}
	used := prefixesIn(s.doc.bytes(e), prefixes)
	if prefixes[""] {
		used[""] = true
	}
	t := s.startTag(e)
	for _, prefix := range t.declared() {
		delete(used, prefix)
	}
	for _, prefix := range slices.Sorted(maps.Keys(used)) {
		t.add(declaration(prefix), escape(s.doc.rootSpaces[prefix]))
	}
}

func declaration(prefix string) string {
	if prefix == "" {
		return "xmlns"
	}
	return "xmlns:" + prefix
}

// inherit adds the attributes to e, a child of the root, unless e has them.
func (s *splices) inherit(e *xmltree.Element, attrs []rawAttribute) {
	if len(attrs) == 0 {
		return
	}
	t := s.startTag(e)
	for _, a := range attrs {
		if _, has := t.find(xmlSpace, a.local); !has {
			t.addRaw("xml:"+a.local, a.quoted)
		}
	}
}

// prefixesIn returns the prefixes that precede a colon anywhere in the text, in a name or in
// content.
func prefixesIn[V any](text []byte, prefixes map[string]V) map[string]bool {
	used := map[string]bool{}
	if len(prefixes) == 0 {
		return used
	}
	for at := 0; ; {
		n := bytes.IndexByte(text[at:], ':')
		if n < 0 {
			return used
		}
		end := at + n
		start := end
		for start > at && isNameByte(text[start-1]) {
			start--
		}
		if _, ok := prefixes[string(text[start:end])]; ok && start < end {
			used[string(text[start:end])] = true
		}
		at = end + 1
	}
}

// isNameByte accepts all bytes beyond ASCII.
func isNameByte(c byte) bool {
	return c >= 0x80 || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

// contentKey returns equal fingerprints for two children of roots if their bytes are equal,
// their prefixes stand for the same namespaces, and they inherit the same xml: attributes.
func contentKey(doc *document, e *xmltree.Element) fingerprint {
	type binding struct{ prefix, space string }
	used := map[binding]bool{}
	var walk func(*xmltree.Element)
	walk = func(e *xmltree.Element) {
		used[binding{e.Prefix, e.Space}] = true
		for i := range e.Attrs {
			if a := &e.Attrs[i]; a.Prefix != "" {
				used[binding{a.Prefix, a.Space}] = true
			}
		}
		for _, c := range e.Children {
			if c, ok := c.(*xmltree.Element); ok {
				walk(c)
			}
		}
	}
	walk(e)
	// Prefixes in content have the root's namespaces unless e declares them itself.
	text := doc.bytes(e)
	content := prefixesIn(text, doc.rootSpaces)
	for _, prefix := range (&splices{doc: doc}).startTag(e).declared() {
		delete(content, prefix)
	}
	for prefix := range content {
		used[binding{prefix, doc.rootSpaces[prefix]}] = true
	}
	for _, local := range inheritable {
		if v, found := doc.elements[0].Attr(xmlSpace, local); found {
			used[binding{"xml:" + local, v}] = true
		}
	}
	sum := sha256.New()
	var words []byte
	for _, b := range slices.SortedFunc(maps.Keys(used), func(a, b binding) int {
		return cmp.Or(cmp.Compare(a.prefix, b.prefix), cmp.Compare(a.space, b.space))
	}) {
		words = strconv.AppendQuote(words[:0], b.prefix)
		words = strconv.AppendQuote(words, b.space)
		sum.Write(words)
	}
	sum.Write([]byte{0})
	sum.Write(text)
	return fingerprint(sum.Sum(nil))
}

func surroundingKey(text []byte) fingerprint {
	return sha256.Sum256(append([]byte("around\x00"), text...))
}

// prologue is the text between the XML declaration and the root, without surrounding blanks.
func (d *document) prologue() []byte {
	head := d.src[:d.spans[0].start]
	if len(head) > 5 && bytes.HasPrefix(head, []byte("<?xml")) && isSpace(head[5]) {
		head = head[bytes.Index(head, []byte("?>"))+2:]
	}
	return bytes.TrimSpace(head)
}

// epilogue is the text after the root, without surrounding blanks.
func (d *document) epilogue() []byte { return bytes.TrimSpace(d.src[d.spans[0].end:]) }

// write returns the manifest: the first part's document with the content of the others before its end tag. It
// fails with ErrTooLarge.
func (m *union) write(o ManifestOptions) ([]byte, error) {
	base := m.parts[0]
	root := base.doc.elements[0]
	var more []byte
	for _, s := range m.parts[1:] {
		if err := s.sortEdits(); err != nil {
			return nil, err
		}
		more = m.appendAround(more, s.doc.prologue())
		if at := s.doc.spans[0]; !at.selfClosing() {
			more = s.appendRange(more, at.open, at.closing)
		}
		more = m.appendAround(more, s.doc.epilogue())
		if len(more) > maxManifest {
			return nil, ErrTooLarge
		}
	}
	m.root.write(base, o, m.extensions())
	base.appendTo(root, string(more))
	if err := base.sortEdits(); err != nil {
		return nil, err
	}
	return base.appendRange(make([]byte, 0, len(base.doc.src)+base.size), 0, len(base.doc.src)), nil
}

// appendAround appends comments and processing instructions around a root, unless the union
// has them already.
func (m *union) appendAround(b, text []byte) []byte {
	key := surroundingKey(text)
	if len(text) == 0 || m.seen[key] > 0 {
		return b
	}
	m.seen[key]++
	b = append(append(b, '\n'), text...)
	return append(b, '\n')
}

func (m *union) extensions() []pair {
	var list []pair
	for _, s := range m.parts {
		list = append(list, s.extensions...)
	}
	return list
}
