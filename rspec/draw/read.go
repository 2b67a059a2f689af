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

// Read converts a document to a Picture. It fails if the document is not XML, exceeds the
// limits, or is not an RSpec. A zero limit means xmltree's default.
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
		return nil, fmt.Errorf("cannot read the document: %w", err)
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
		interfaces: map[string]interfaceIndex{},
		p: &Picture{
			Kind:        kindOf(root),
			GeneratedBy: value(root, "generated_by"),
		},
	}
	// If the expiry equals the time of generation, the expiry is unknown.
	if expires := value(root, "expires"); expires != value(root, "generated") {
		r.p.Expires = expires
	}
	for _, e := range r.children(root, "node") {
		r.readNode(e)
	}
	for _, e := range r.children(root, "link") {
		r.readLink(e)
	}
	r.readOffers(root)
	r.assignUnmanaged()
	return r.p, nil
}

// kindOf returns Request for an unknown type attribute.
func kindOf(root *xmltree.Element) Kind {
	switch k := Kind(strings.ToLower(value(root, "type"))); k {
	case Manifest, Advertisement:
		return k
	}
	return Request
}

// interfaceIndex has an index of Picture.Nodes and one of Node.Interfaces.
type interfaceIndex struct{ node, number int }

type reader struct {
	core       string // the namespace of the document's own elements
	p          *Picture
	managers   map[string]int            // by authority
	interfaces map[string]interfaceIndex // by client_id or component_id; the first interface with the name wins
}

// children returns only elements in the RSpec's own namespace.
func (r *reader) children(e *xmltree.Element, local string) []*xmltree.Element {
	return childrenOf(e, local, r.core)
}

func (r *reader) firstChild(e *xmltree.Element, local string) *xmltree.Element {
	if list := r.children(e, local); len(list) > 0 {
		return list[0]
	}
	return nil
}

// childrenOf accepts several namespaces, because some extensions have two.
func childrenOf(e *xmltree.Element, local string, spaces ...string) []*xmltree.Element {
	var list []*xmltree.Element
	for _, c := range e.Elements() {
		if c.Local == local && slices.Contains(spaces, c.Space) {
			list = append(list, c)
		}
	}
	return list
}

// value returns an attribute without surrounding white space. It returns "" if the attribute
// is missing or e is nil.
func value(e *xmltree.Element, local string) string {
	if e == nil {
		return ""
	}
	v, _ := e.Attr("", local)
	return strings.TrimSpace(v)
}

// addNew skips a word that the list contains, and keeps at most maxTypes words.
func addNew(list []string, word string) []string {
	if word == "" || len(list) == maxTypes || slices.Contains(list, word) {
		return list
	}
	return append(list, word)
}

// boolValue returns nil if the attribute is not an xs:boolean.
func boolValue(e *xmltree.Element, local string) *bool {
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

func isTrue(e *xmltree.Element, local string) bool {
	v := boolValue(e, local)
	return v != nil && *v
}

// managerNumber adds a new manager to the picture. If id is empty, the authority in the
// component's URN is the manager.
func (r *reader) managerNumber(id, component string) int {
	m := Manager{URN: id, Name: id}
	if u, err := urn.Parse(id); err == nil {
		m.Name = u.Authority
	} else if a := authorityOf(component); a != "" && id == "" {
		// Aggregates also accept such a node as their own.
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

// lastName returns the last part of a URN, a path or a URL.
func lastName(s string) string {
	if u, err := urn.Parse(s); err == nil {
		s = u.Name
	}
	s = strings.TrimRight(s, "/")
	return s[strings.LastIndexByte(s, '/')+1:]
}
