package rspec

import "iter"

// NamedPart is an own node, one of its interfaces, or an own link.
type NamedPart struct {
	// Kind is "node", "interface" or "link". Parts of one kind have different
	// client_ids.
	Kind, ClientID string
	// Nodes are indexes of Request.Nodes: the node itself, the node of the interface,
	// or the nodes at which the link ends. A manifest shows the part if it shows one of
	// these nodes.
	Nodes []int
	Line  int
	// Join means that the part is a link that adds ends to one of the slice.
	Join bool
}

// NamedParts yields all own nodes, their interfaces and the links that end at own nodes,
// including links that are only copied.
func (r *Request) NamedParts() iter.Seq[NamedPart] {
	return func(yield func(NamedPart) bool) {
		for i := range r.Nodes {
			n, at := &r.Nodes[i], []int{i}
			if !yield(NamedPart{"node", n.ClientID, at, n.Line, false}) {
				return
			}
			for _, in := range n.Interfaces {
				if !yield(NamedPart{"interface", in.ClientID, at, in.Line, false}) {
					return
				}
			}
		}
		for _, l := range r.links {
			e := r.doc.elements[l.element]
			if !yield(NamedPart{"link", value(e, "client_id"), l.nodes, e.Line, l.join}) {
				return
			}
		}
	}
}
