package rspec

import "iter"

// Claim is a client_id that a request gives to a part that is ours.
type Claim struct {
	// Kind is "node", "interface" or "link": no two parts of one kind may have
	// the same client_id.
	Kind, ClientID string
	// Nodes are the numbers among Request.Nodes of the nodes with which it is
	// shown: the node itself, the interface's, or those at which the link ends.
	Nodes []int
	Line  int
}

// Claims are those of all nodes, their interfaces and the links that end at
// them, also links that are only copied.
func (r *Request) Claims() iter.Seq[Claim] {
	return func(yield func(Claim) bool) {
		for i := range r.Nodes {
			n, at := &r.Nodes[i], []int{i}
			if !yield(Claim{"node", n.ClientID, at, n.Line}) {
				return
			}
			for _, in := range n.Interfaces {
				if !yield(Claim{"interface", in.ClientID, at, in.Line}) {
					return
				}
			}
		}
		for _, l := range r.links {
			e := r.doc.elements[l.element]
			if !yield(Claim{"link", value(e, "client_id"), l.nodes, e.Line}) {
				return
			}
		}
	}
}
