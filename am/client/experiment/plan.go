package experiment

import (
	"fmt"
	"slices"
	"strings"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/rspec"
)

// Action is what a plan does with a node.
type Action string

// Actions of a plan.
const (
	Keep Action = "keep"
	// ChangeInPlace keeps the node, with its files and processes.
	ChangeInPlace Action = "change"
	Add           Action = "add"
	Replace       Action = "replace"
	Remove        Action = "remove"
)

// InPlace says what an aggregate can do with a slice that has nodes.
type InPlace int

// Levels of InPlace.
const (
	Nothing InPlace = iota
	AddNodes
	ChangeNodes
)

// InPlaceOf returns what the aggregate can do.
func InPlaceOf(v client.Version) InPlace {
	switch {
	case v.ChangesNodes:
		return ChangeNodes
	case v.AddsNodes:
		return AddNodes
	}
	return Nothing
}

// Change is the action on one node, and its reason.
type Change struct {
	Node   string
	Action Action
	Why    string
	// Slivers are the URNs of the node's slivers. If the node is replaced or removed, they
	// will be deleted.
	Slivers []string
}

// Plan has a change for each node: first the nodes of the request, in its order, then the nodes
// to remove.
type Plan []Change

// Compare plans the changes from the existing slivers of a slice to the new request. previous is
// the request from which the slivers were created; nil if it is unknown. With ChangeNodes, Compare
// replaces a node only if its type, image, component or first setup changes; with AddNodes, also if
// its links or later steps do. With Nothing, it keeps a node only
// if its text, its links and all nodes at the other ends of these links are unchanged. A relation
// between the steps of two nodes counts as a link, because a plan belongs to one request.
func Compare(previous, request *rspec.Request, existing []client.Sliver, may InPlace) Plan {
	var p Plan
	slivers := map[string][]client.Sliver{}
	for _, s := range existing {
		slivers[s.ClientID] = append(slivers[s.ClientID], s)
	}
	was := map[string]rspec.Piece{}
	if previous != nil && (may > Nothing || previous.HasSameNamespaces(request)) {
		for _, n := range previous.NodePieces() {
			was[n.ClientID] = n
		}
	}
	indexes := map[string]int{}
	for _, n := range request.NodePieces() {
		indexes[n.ClientID] = len(p)
		p = append(p, compareNode(n, was, slivers[n.ClientID], may > Nothing))
		delete(slivers, n.ClientID)
	}
	gone := make([]Change, 0, len(slivers))
	for name, list := range slivers {
		gone = append(gone, Change{name, Remove, "it is no longer in the request", urnsOf(list)})
	}
	slices.SortFunc(gone, func(a, b Change) int { return strings.Compare(a.Node, b.Node) })
	p = append(p, gone...)
	if may > Nothing && len(was) > 0 {
		p.compareInPlace(previous, request, may == ChangeNodes)
	} else {
		p.compareLinks(previous, request, indexes)
	}
	return p
}

// compareNode plans the action on a node of the request. It ignores the links of the node. With
// inPlace, it also ignores the text.
func compareNode(n rspec.Piece, was map[string]rspec.Piece, existing []client.Sliver, inPlace bool) Change {
	c := Change{Node: n.ClientID, Action: Replace, Slivers: urnsOf(existing)}
	failed := slices.IndexFunc(existing, func(s client.Sliver) bool { return s.Operational == string(am.Failed) })
	old, known := was[n.ClientID]
	switch {
	case len(existing) == 0:
		c.Action = Add
		if known {
			c.Why = "it no longer exists"
		}
	case !known:
		c.Why = "the request from which it was created is unknown"
	case old.Text != n.Text && !inPlace:
		c.Why = "the node changed in the request"
	case failed >= 0:
		c.Why = "it failed"
		if existing[failed].Error != "" {
			c.Why += ": " + existing[failed].Error
		}
	default:
		c.Action = Keep
	}
	return c
}

// compareLinks changes Keep to Replace for nodes whose links changed, until all kept nodes
// have links and relations to kept nodes only. indexes has the index of each node in the plan.
func (p Plan) compareLinks(previous, request *rspec.Request, indexes map[string]int) {
	old := map[string]rspec.Piece{}
	if previous != nil {
		for _, l := range previous.LinkPieces() {
			old[l.ClientID] = l
		}
	}
	links := request.LinkPieces()
	again := true
	replace := func(nodes []string, why string) {
		for _, name := range nodes {
			if i, ok := indexes[name]; ok && p[i].Action == Keep {
				p[i].Action, p[i].Why, again = Replace, why, true
			}
		}
	}
	for again {
		again = false
		for _, l := range links {
			was, known := old[l.ClientID]
			replaced := slices.IndexFunc(l.Nodes, func(n string) bool { return p[indexes[n]].Action != Keep })
			switch {
			case !known:
				replace(l.Nodes, fmt.Sprintf("the link %s is new", l.ClientID))
			case was.Text != l.Text || !slices.Equal(was.Nodes, l.Nodes):
				replace(l.Nodes, fmt.Sprintf("the link %s changed in the request", l.ClientID))
			case replaced >= 0:
				replace(l.Nodes, fmt.Sprintf("the link %s connects it to %s", l.ClientID, l.Nodes[replaced]))
			}
		}
		for i := range request.Nodes {
			n := &request.Nodes[i]
			for _, step := range n.Services.Steps {
				if step.Relation == nil {
					continue
				}
				pair := []string{n.ClientID, step.Relation.ClientID}
				if slices.ContainsFunc(pair, func(name string) bool { return p[indexes[name]].Action != Keep }) {
					replace(pair, fmt.Sprintf("a step of %s has a relation to %s", pair[0], pair[1]))
				}
			}
		}
		for id, was := range old {
			if !slices.ContainsFunc(links, func(l rspec.Piece) bool { return l.ClientID == id }) {
				replace(was.Nodes, fmt.Sprintf("the link %s is no longer in the request", id))
			}
		}
	}
}

func urnsOf(list []client.Sliver) []string {
	var urns []string
	for _, s := range list {
		urns = append(urns, s.URN)
	}
	return urns
}

// Has reports whether the plan has an action of one of the kinds.
func (p Plan) Has(kinds ...Action) bool {
	return slices.ContainsFunc(p, func(c Change) bool { return slices.Contains(kinds, c.Action) })
}

func (p Plan) delete() (urns []string) {
	for _, c := range p {
		if c.Action == Replace || c.Action == Remove {
			urns = append(urns, c.Slivers...)
		}
	}
	return urns
}

func (p Plan) allocates(node string) bool {
	return slices.ContainsFunc(p, func(c Change) bool { return c.Node == node && (c.Action == Add || c.Action == Replace) })
}
