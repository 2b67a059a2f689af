package rspec

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"patchbay/schemas/xmltree"
)

// union is one document made of the first part's, with the content of the other
// parts' roots put behind its own.
type union struct {
	parts []*splices
	// seen are the foreign nodes and links and the root extensions that are in
	// already, by their bytes and by what their prefixes mean.
	seen map[string]bool
	// spaces are what prefixes mean under the common root; added are those of
	// them that the first part's root does not declare itself.
	spaces map[string]string
	added  []string
	// pairs are the schema locations of the parts behind the first.
	pairs []pair
	// users and proxies tell whether these extensions were written.
	users, proxies bool
}

// newUnion begins with the first part.
func newUnion(p *Part, s *splices) *union {
	m := &union{seen: map[string]bool{}, spaces: maps.Clone(s.doc.rootSpaces)}
	m.take(p, s)
	return m
}

// remember notes what the first part holds, in case that others hold it, too.
func (m *union) remember(p *Part) {
	for _, e := range p.Request.shared() {
		m.seen[meaning(p.Request.doc, e)] = true
	}
}

// add fits a further part to those before.
func (m *union) add(p *Part, s *splices) error {
	doc := s.doc
	shared := map[int]bool{}
	for _, e := range p.Request.shared() {
		shared[e.Index] = true
	}
	conflicts := m.merge(doc.rootSpaces)
	for _, e := range doc.elements[0].Elements() {
		if shared[e.Index] {
			key := meaning(doc, e)
			if m.seen[key] {
				s.cut(e)
				continue
			}
			m.seen[key] = true
		}
		s.redeclare(e, conflicts)
		if s.size > maxManifest {
			return errTooLarge
		}
	}
	if raw, found := doc.schemaLocation(); found {
		m.pairs = append(m.pairs, pairsOf(raw)...)
	}
	m.take(p, s)
	return nil
}

func (m *union) take(p *Part, s *splices) {
	for i := range p.Request.Nodes {
		f := p.Nodes[p.Request.Nodes[i].ClientID]
		m.users = m.users || len(f.Users) > 0
		m.proxies = m.proxies || len(f.Proxies) > 0
	}
	m.parts = append(m.parts, s)
}

// shared are the root's children that several requests may have alike: all but
// own nodes and own links.
func (r *Request) shared() []*xmltree.Element {
	own := map[int]bool{}
	for i := range r.Nodes {
		own[r.Nodes[i].element] = true
	}
	for i := range r.links {
		own[r.links[i].element] = true
	}
	return slices.DeleteFunc(r.doc.elements[0].Elements(), func(e *xmltree.Element) bool { return own[e.Index] })
}

// merge takes the declarations of another root up into the common one where the
// prefix is free there. It returns the prefixes that mean something else.
func (m *union) merge(spaces map[string]string) (conflicts []string) {
	for _, prefix := range slices.Sorted(maps.Keys(spaces)) {
		was, taken := m.spaces[prefix]
		switch {
		case prefix == "":
		case !taken:
			m.spaces[prefix] = spaces[prefix]
			m.added = append(m.added, prefix)
		case was != spaces[prefix]:
			conflicts = append(conflicts, prefix)
		}
	}
	if spaces[""] != m.spaces[""] {
		conflicts = append(conflicts, "")
	}
	return conflicts
}

// redeclare gives the start tag of a root's child those of the prefixes that
// it may use and does not declare itself.
func (s *splices) redeclare(e *xmltree.Element, prefixes []string) {
	if len(prefixes) == 0 {
		return
	}
	t := s.startTag(e)
	for _, prefix := range prefixes {
		uri := escape(s.doc.rootSpaces[prefix])
		switch {
		case t.declares(prefix):
		case prefix == "":
			t.add("xmlns", uri)
		case bytes.Contains(s.doc.bytes(e), []byte(prefix+":")): // in names or in content
			t.add("xmlns:"+prefix, uri)
		}
	}
}

// meaning is what makes two children of roots the same: equal bytes, in which
// equal prefixes stand for equal namespaces.
func meaning(doc *document, e *xmltree.Element) string {
	used := map[string]bool{}
	var walk func(*xmltree.Element)
	walk = func(e *xmltree.Element) {
		used[e.Prefix+"="+e.Space] = true
		for _, a := range e.Attrs {
			if a.Prefix != "" {
				used[a.Prefix+"="+a.Space] = true
			}
		}
		for _, c := range e.Children {
			if c, ok := c.(*xmltree.Element); ok {
				walk(c)
			}
		}
	}
	walk(e)
	return strings.Join(slices.Sorted(maps.Keys(used)), " ") + "\n" + string(doc.bytes(e))
}

// write puts the parts together.
func (m *union) write(o ManifestOptions) (string, error) {
	base := m.parts[0]
	root := base.doc.elements[0]
	var more strings.Builder
	for _, s := range m.parts[1:] {
		if err := s.order(); err != nil {
			return "", err
		}
		if at := s.doc.spans[0]; !at.selfClosing() {
			s.appendRange(&more, at.open, at.closing)
		}
		if more.Len() > maxManifest {
			return "", errTooLarge
		}
	}
	m.editRoot(root, o)
	base.appendTo(root, more.String())
	if err := base.order(); err != nil {
		return "", err
	}
	var b strings.Builder
	b.Grow(len(base.doc.src) + base.size)
	base.appendRange(&b, 0, len(base.doc.src))
	return b.String(), nil
}

// editRoot edits the start tag of the common root.
func (m *union) editRoot(root *xmltree.Element, o ManifestOptions) {
	t := m.parts[0].startTag(root)
	t.set("type", "manifest")
	for _, a := range rootAttributes(o) {
		t.set(a.name, a.value)
	}
	for _, prefix := range m.added {
		t.add("xmlns:"+prefix, escape(m.spaces[prefix]))
	}
	add := m.pairs
	if m.users {
		add = append(add, pair{userSpace, userSchema})
	}
	if m.proxies {
		add = append(add, pair{proxySpace, proxySchema})
	}
	if a, found := t.find(xsiSpace, "schemaLocation"); found {
		was := string(t.doc.src[a.from:a.to])
		if is := manifestLocations(was, add); is != was {
			t.replace(a.from, a.to, is)
		}
		return
	}
	prefix := xsiPrefix(m.spaces)
	if m.spaces[prefix] != xsiSpace {
		t.add("xmlns:"+prefix, xsiSpace)
	}
	t.add(prefix+":schemaLocation", manifestLocations(Namespace+" "+ManifestSchema, add))
}
