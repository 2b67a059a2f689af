package rspec

import (
	"maps"
	"slices"
)

// Piece is the text of an own node or an own link.
type Piece struct {
	ClientID string
	// Text is the element as written.
	Text string
	// Nodes are the sorted client_ids of the own nodes at which the link ends, or the
	// client_id of the node itself.
	Nodes []string
}

// NodePieces returns the text of the own nodes.
func (r *Request) NodePieces() []Piece {
	list := make([]Piece, len(r.Nodes))
	for i := range r.Nodes {
		n := &r.Nodes[i]
		list[i] = Piece{n.ClientID, r.textOf(n.element), []string{n.ClientID}}
	}
	return list
}

// LinkPieces returns the text of the links that end at own nodes.
func (r *Request) LinkPieces() []Piece {
	list := make([]Piece, len(r.links))
	for i, l := range r.links {
		ends := map[string]bool{}
		for _, n := range l.nodes {
			ends[r.Nodes[n].ClientID] = true
		}
		list[i] = Piece{value(r.doc.elements[l.element], "client_id"), r.textOf(l.element), slices.Sorted(maps.Keys(ends))}
	}
	return list
}

func (r *Request) textOf(element int) string {
	at := r.doc.spans[element]
	return string(r.doc.src[at.start:at.end])
}

// HasSameNamespaces reports whether the roots of two requests declare the same
// namespaces, so that equal bytes below them mean the same.
func (r *Request) HasSameNamespaces(other *Request) bool {
	return maps.Equal(r.doc.rootSpaces, other.doc.rootSpaces)
}

// Only returns the request without the own nodes for which keep returns false, and without
// the own links that end at none of the remaining nodes. All other bytes are unchanged.
func (r *Request) Only(keep func(clientID string) bool) ([]byte, error) {
	s := &splices{doc: r.doc}
	kept := make([]bool, len(r.Nodes))
	for i := range r.Nodes {
		if kept[i] = keep(r.Nodes[i].ClientID); !kept[i] {
			s.cut(r.doc.elements[r.Nodes[i].element])
		}
	}
	for _, l := range r.links {
		if !slices.ContainsFunc(l.nodes, func(n int) bool { return kept[n] }) {
			s.cut(r.doc.elements[l.element])
		}
	}
	if err := s.sortEdits(); err != nil {
		return nil, err
	}
	return s.appendRange(nil, 0, len(r.doc.src)), nil
}
