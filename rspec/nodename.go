package rspec

import (
	"fmt"
	"strings"

	"patchbay/rspec/hostname"
	"patchbay/schemas/xmltree"
)

// maxNameRemarks bounds the remarks on client_ids, so that there is room for others.
const maxNameRemarks = 5

// Parts of the remarks on client_ids.
const (
	unreached  = "node %.80q cannot be reached by its client_id: %s"
	nameRemedy = "use its name "
)

// checkNodeNames refuses client_ids that are names of each node itself, and remarks on those by which other
// nodes do not reach the node. The elements are those of the request's nodes, in their order.
func (p *requestParser) checkNodeNames(elements []*xmltree.Element) {
	if p.o.Stored {
		return
	}
	nodes, ids := make([]hostname.Node, len(elements)), map[string]bool{}
	for i := range p.r.Nodes {
		id := p.r.Nodes[i].ClientID
		nodes[i] = hostname.Node{ClientID: id, DNSNames: p.r.Nodes[i].DNSNames}
		if id == "" || ids[id] {
			return // the request is refused
		}
		ids[id] = true
	}
	hostname.Assign(nodes)
	n := 0
	for i, name := range hostname.Name(nodes) {
		id, at := nodes[i].ClientID, place{elements[i], "client_id"}
		switch why := hostname.Problem(id); {
		case hostname.IsLoopback(id):
			p.badArgs(at, id, "use another client_id", "node %.80q has a client_id that is a name of each node itself", id)
		case name == id:
		case n == maxNameRemarks:
			p.remark(at, id, "give nodes client_ids of letters, digits, hyphens and underscores", "node %.80q and perhaps later ones cannot be reached by their client_ids", id)
			return
		default:
			if n++; why == "" {
				why = "another one equals it without case, or it is a group of Ansible"
			}
			p.remark(at, id, nameRemedy+name, unreached, id, why)
		}
	}
}

// NoticesFor returns the notices of the request for the names that its nodes have in their slice, in their
// order. The parser knows no other nodes of the slice, and no names that nodes have already.
func (r *Request) NoticesFor(names []string) []Problem {
	n, known := 0, map[string]bool{}
	var list []Problem
	for _, p := range r.Notices {
		if strings.HasPrefix(p.Remedy, nameRemedy) {
			name := names[r.numbers[p.ClientID]]
			if known[p.ClientID] = true; strings.EqualFold(name, p.ClientID) {
				continue
			}
			n++
			p.Remedy = nameRemedy + name
		}
		list = append(list, p)
	}
	for i, name := range names {
		x := &r.Nodes[i]
		if !strings.EqualFold(x.ClientID, name) && !known[x.ClientID] && n < maxNameRemarks {
			n++
			list = append(list, Problem{0, x.ClientID, x.Line, x.Column, fmt.Sprintf(unreached, x.ClientID, "it means another node of the slice"), nameRemedy + name})
		}
	}
	return ByLine(list)
}
