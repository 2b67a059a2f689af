package rspec

import "iter"

// NamedPart is a part of a request that is ours and has a client_id.
type NamedPart struct {
	// Kind is "node", "interface" or "link". Parts of one kind have different
	// client_ids.
	Kind, ClientID string
	// Nodes are the indexes in Request.Nodes of the nodes that show the part: the
	// node itself, that of the interface, or those at which the link ends.
	Nodes []int
	Line  int
}

// NamedParts yields all nodes, their interfaces and the links that end at them,
// including links that are only copied.
func (r *Request) NamedParts() iter.Seq[NamedPart] {
	return func(yield func(NamedPart) bool) {
		for i := range r.Nodes {
			n, at := &r.Nodes[i], []int{i}
			if !yield(NamedPart{"node", n.ClientID, at, n.Line}) {
				return
			}
			for _, in := range n.Interfaces {
				if !yield(NamedPart{"interface", in.ClientID, at, in.Line}) {
					return
				}
			}
		}
		for _, l := range r.links {
			e := r.doc.elements[l.element]
			if !yield(NamedPart{"link", value(e, "client_id"), l.nodes, e.Line}) {
				return
			}
		}
	}
}
