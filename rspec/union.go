package rspec

import (
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
	// pairs are the schema locations of the parts behind the first.
	pairs []pair
	// users and proxies tell whether these extensions were written.
	users, proxies bool
}

// add edits a part and fits it to the parts before.
func (m *union) add(p *Part, o ManifestOptions) {
	s := p.edit(o.Manager)
	doc := s.doc
	own := map[int]bool{}
	for i := range p.Request.Nodes {
		own[p.Request.Nodes[i].element] = true
	}
	for _, l := range p.Request.links {
		own[l.element] = true
	}
	first := len(m.parts) == 0
	for _, e := range doc.elements[0].Elements() {
		if !own[e.Index] {
			key := meaning(doc, e)
			if m.seen[key] && !first {
				s.cut(e)
				continue
			}
			m.seen[key] = true
		}
		if !first {
			s.redeclare(e, m.parts[0].doc)
		}
	}
	if !first {
		if raw, found := doc.schemaLocation(); found {
			m.pairs = append(m.pairs, pairsOf(raw)...)
		}
	}
	for _, n := range p.Request.Nodes {
		f := p.Nodes[n.ClientID]
		m.users = m.users || len(f.Users) > 0
		m.proxies = m.proxies || len(f.Proxies) > 0
	}
	m.parts = append(m.parts, s)
}

// redeclare gives the start tag of a root's child the namespaces that mean
// something else, or nothing, under the other root.
func (s *splices) redeclare(e *xmltree.Element, other *document) {
	var missing []string
	for prefix, uri := range s.doc.rootSpaces {
		if was, found := other.rootSpaces[prefix]; (!found && uri != "") || found && was != uri {
			missing = append(missing, prefix)
		}
	}
	if _, found := s.doc.rootSpaces[""]; !found && other.rootSpaces[""] != "" {
		missing = append(missing, "")
	}
	if len(missing) == 0 {
		return
	}
	slices.Sort(missing)
	t := s.startTag(e)
	for _, prefix := range missing {
		switch {
		case t.declares(prefix):
		case prefix == "":
			t.add("xmlns", escape(s.doc.rootSpaces[""]))
		default:
			t.add("xmlns:"+prefix, escape(s.doc.rootSpaces[prefix]))
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
	list := make([]string, 0, len(used))
	for u := range used {
		list = append(list, u)
	}
	slices.Sort(list)
	return strings.Join(list, " ") + "\n" + string(doc.bytes(e))
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
	}
	base.root(root, m, o)
	base.appendTo(root, more.String())
	if err := base.order(); err != nil {
		return "", err
	}
	var b strings.Builder
	b.Grow(len(base.doc.src)*3/2 + more.Len())
	base.appendRange(&b, 0, len(base.doc.src))
	return b.String(), nil
}

// root edits the root's start tag.
func (s *splices) root(root *xmltree.Element, m *union, o ManifestOptions) {
	t := s.startTag(root)
	t.set("type", "manifest")
	for _, a := range rootAttributes(o) {
		t.set(a.name, a.value)
	}
	add := m.pairs
	if m.users {
		add = append(add, pair{userSpace, userSchema})
	}
	if m.proxies {
		add = append(add, pair{proxySpace, proxySchema})
	}
	if a, found := t.find(xsiSpace, "schemaLocation"); found {
		was := string(s.doc.src[a.from:a.to])
		if is := manifestLocations(was, add); is != was {
			t.replace(a.from, a.to, is)
		}
		return
	}
	prefix := s.doc.xsiPrefix()
	if s.doc.rootSpaces[prefix] != xsiSpace {
		t.add("xmlns:"+prefix, xsiSpace)
	}
	t.add(prefix+":schemaLocation", manifestLocations(Namespace+" "+ManifestSchema, add))
}
