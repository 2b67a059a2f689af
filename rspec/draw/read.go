package draw

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"patchbay/am/urn"
	"patchbay/rspec"
	"patchbay/schemas/xmltree"
)

// protogeniSpace is read like rspec.Namespace.
const protogeniSpace = "http://www.protogeni.net/resources/rspec/2"

// Read takes what is to be seen out of a document. Its errors say why there is
// nothing to draw: no XML, beyond the limits (whose zero is xmltree's default),
// or no RSpec.
func Read(b []byte, limits xmltree.Limits) (*Picture, error) {
	var root *xmltree.Element
	err := xmltree.Parse(b, limits, func(d *xmltree.Doc) error {
		root = d.Root
		return nil
	})
	if err != nil {
		if _, ok := errors.AsType[*xmltree.LimitError](err); ok {
			return nil, fmt.Errorf("too big to draw: %w; draw a part of it", err)
		}
		return nil, fmt.Errorf("cannot read the document: %w; check it with xmllint --noout", err)
	}
	switch {
	case root.Local != "rspec":
		return nil, fmt.Errorf("line %d: the document is a <%.80s>, not an RSpec; draw a request, a manifest or an advertisement", root.Line, root.Local)
	case root.Space != rspec.Namespace && root.Space != protogeniSpace:
		return nil, fmt.Errorf("line %d: RSpecs of the namespace %.120q cannot be drawn; give one of GENI version 3, xmlns=%q", root.Line, root.Space, rspec.Namespace)
	}
	r := reader{
		core:       root.Space,
		managers:   map[string]int{},
		interfaces: map[string]place{},
		p: &Picture{
			Kind:        kindOf(root),
			GeneratedBy: value(root, "generated_by"),
		},
	}
	// Equal to generated it means that nobody knows.
	if expires := value(root, "expires"); expires != value(root, "generated") {
		r.p.Expires = expires
	}
	for _, e := range r.children(root, "node") {
		r.node(e)
	}
	for _, e := range r.children(root, "link") {
		r.link(e)
	}
	r.offers(root)
	r.settle()
	return r.p, nil
}

func kindOf(root *xmltree.Element) Kind {
	switch k := Kind(strings.ToLower(value(root, "type"))); k {
	case Manifest, Advertisement:
		return k
	}
	return Request
}

// place is an interface of a node, by number.
type place struct{ node, number int }

// reader fills in a Picture.
type reader struct {
	core       string // the namespace of the document's own elements
	p          *Picture
	managers   map[string]int   // by authority
	interfaces map[string]place // by client_id or component_id; the first bearer wins
}

// children are those elements below e that are RSpec's own.
func (r *reader) children(e *xmltree.Element, local string) []*xmltree.Element {
	return childrenOf(e, local, r.core)
}

// first is the first of them, or nil.
func (r *reader) first(e *xmltree.Element, local string) *xmltree.Element {
	if list := r.children(e, local); len(list) > 0 {
		return list[0]
	}
	return nil
}

// childrenOf are the children of e of that name in one of the namespaces: an
// extension with two spellings is understood in both.
func childrenOf(e *xmltree.Element, local string, spaces ...string) []*xmltree.Element {
	var list []*xmltree.Element
	for _, c := range e.Elements() {
		if c.Local == local && slices.Contains(spaces, c.Space) {
			list = append(list, c)
		}
	}
	return list
}

// value is an attribute without the blanks around it; e may be nil.
func value(e *xmltree.Element, local string) string {
	if e == nil {
		return ""
	}
	v, _ := e.Attr("", local)
	return strings.TrimSpace(v)
}

// addNew adds a word to a list of at most maxTypes that does not have it.
func addNew(list []string, word string) []string {
	if word == "" || len(list) == maxTypes || slices.Contains(list, word) {
		return list
	}
	return append(list, word)
}

// truth is an attribute of type xs:boolean, nil for anything else.
func truth(e *xmltree.Element, local string) *bool {
	var v bool
	switch value(e, local) {
	case "true", "1":
		v = true
	case "false", "0":
	default:
		return nil
	}
	return &v
}

// isTrue tells whether an attribute of type xs:boolean is true.
func isTrue(e *xmltree.Element, local string) bool {
	v := truth(e, local)
	return v != nil && *v
}

// manager is the number of the manager that id names, or of the one whose
// component it is.
func (r *reader) manager(id, component string) int {
	m := Manager{URN: id, Name: id}
	if u, err := urn.Parse(id); err == nil {
		m.Name = u.Authority
	} else if a := authorityOf(component); a != "" && id == "" {
		// Aggregates take such a node as their own, too.
		m = Manager{URN: component, Name: a}
	}
	key := strings.ToLower(m.Name)
	n, known := r.managers[key]
	if !known {
		n = len(r.p.Managers)
		r.managers[key] = n
		r.p.Managers = append(r.p.Managers, m)
	}
	return n
}

// lastName is the part of a URN, a path or a URL that tells it from its like.
func lastName(s string) string {
	if u, err := urn.Parse(s); err == nil {
		s = u.Name
	}
	s = strings.TrimRight(s, "/")
	return s[strings.LastIndexByte(s, '/')+1:]
}
