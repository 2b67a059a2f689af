package view

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// protogeniSpace is read like schemas.Namespace.
const protogeniSpace = "http://www.protogeni.net/resources/rspec/2"

// Read reads a document. It fails if the document is not XML, exceeds the
// limits, or is not an RSpec. A zero limit means xmltree's default.
func Read(b []byte, limits xmltree.Limits) (*Document, error) {
	var root *xmltree.Element
	err := xmltree.Parse(b, limits, func(d *xmltree.Doc) error {
		root = d.Root
		return nil
	})
	if err != nil {
		if _, ok := errors.AsType[*xmltree.LimitError](err); ok {
			return nil, fmt.Errorf("the document is too big: %w; give a part of it", err)
		}
		return nil, fmt.Errorf("cannot read the document: %w", err)
	}
	switch {
	case root.Local != "rspec":
		return nil, fmt.Errorf("line %d: the document is a <%.80s>, not an RSpec; give a request, a manifest or an advertisement", root.Line, root.Local)
	case root.Space != schemas.Namespace && root.Space != protogeniSpace:
		return nil, fmt.Errorf("line %d: RSpecs of the namespace %.120q cannot be read; give one of GENI version 3, xmlns=%q", root.Line, root.Space, schemas.Namespace)
	}
	r := reader{
		core:       root.Space,
		managers:   map[string]int{},
		interfaces: map[string]interfaceIndex{},
		d: &Document{
			Kind:        kindOf(root),
			Root:        root,
			GeneratedBy: Value(root, "generated_by"),
		},
	}
	// If the expiry equals the time of generation, the expiry is unknown.
	if expires := Value(root, "expires"); expires != Value(root, "generated") {
		r.d.Expires = expires
	}
	for _, e := range r.children(root, "node") {
		r.readNode(e)
	}
	for _, e := range r.children(root, "link") {
		r.readLink(e)
	}
	r.readOffers(root)
	r.assignUnmanaged()
	return r.d, nil
}

// kindOf returns Request for an unknown type attribute.
func kindOf(root *xmltree.Element) Kind {
	switch k := Kind(strings.ToLower(Value(root, "type"))); k {
	case Manifest, Advertisement:
		return k
	}
	return Request
}

// interfaceIndex has an index of Document.Nodes and one of Node.Interfaces.
type interfaceIndex struct{ node, number int }

type reader struct {
	core       string // the namespace of the document's own elements
	d          *Document
	managers   map[string]int            // by authority
	interfaces map[string]interfaceIndex // by client_id or component_id; the first interface with the name wins
}

// children returns only elements in the RSpec's own namespace.
func (r *reader) children(e *xmltree.Element, local string) []*xmltree.Element {
	return Children(e, local, r.core)
}

func (r *reader) firstChild(e *xmltree.Element, local string) *xmltree.Element {
	if list := r.children(e, local); len(list) > 0 {
		return list[0]
	}
	return nil
}

// Children returns the children with a name in one of several namespaces, because some extensions
// have two.
func Children(e *xmltree.Element, local string, spaces ...string) []*xmltree.Element {
	var list []*xmltree.Element
	for _, c := range e.Elements() {
		if c.Local == local && slices.Contains(spaces, c.Space) {
			list = append(list, c)
		}
	}
	return list
}

// Value returns an attribute without surrounding white space. It returns "" if the attribute
// is missing or e is nil.
func Value(e *xmltree.Element, local string) string {
	if e == nil {
		return ""
	}
	v, _ := e.Attr("", local)
	return strings.TrimSpace(v)
}

// addNew appends a word that the list does not have yet, up to maxTypes words.
func addNew(list []string, word string) []string {
	if word == "" || len(list) == maxTypes || slices.Contains(list, word) {
		return list
	}
	return append(list, word)
}

// boolValue returns nil if the attribute is not an xs:boolean.
func boolValue(e *xmltree.Element, local string) *bool {
	var v bool
	switch Value(e, local) {
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

// managerNumber returns the index in Document.Managers of a node's manager, and adds a manager whose name is new. id is
// the node's component_manager_id. If it is empty, the manager is the authority in component, the node's component_id.
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
		n = len(r.d.Managers)
		r.managers[key] = n
		r.d.Managers = append(r.d.Managers, m)
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
