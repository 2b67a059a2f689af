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

// checkNodeNames refuses client_ids such as localhost, which each node uses for itself. It adds remarks on
// client_ids by which other nodes do not reach the node, at most maxNameRemarks and a last one for the rest. The
// elements are those of Request.Nodes, in their order.
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
	remarks := 0
	for i, name := range hostname.Name(nodes) {
		id, at := nodes[i].ClientID, place{elements[i], "client_id"}
		switch why := hostname.Problem(id); {
		case hostname.IsLoopback(id):
			p.badArgs(at, id, "use another client_id", "node %.80q has a client_id that is a name of each node itself", id)
		case name == id:
		case remarks == maxNameRemarks:
			p.remark(at, id, "give nodes client_ids of letters, digits, hyphens and underscores", "node %.80q and perhaps later ones cannot be reached by their client_ids", id)
			return
		default:
			if remarks++; why == "" {
				why = "another one equals it without case, or it is a group of Ansible"
			}
			p.remark(at, id, nameRemedy+name, unreached, id, why)
		}
	}
}

// NoticesFor returns the notices of the request, by line, with remarks on client_ids that are true in its slice.
// names are the names of Request.Nodes there, in their order. The remarks of the parser may be wrong, because it
// knows neither the other nodes of the slice nor names that nodes have already. So NoticesFor drops those on
// client_ids that are names, corrects the others, and adds missing ones, up to maxNameRemarks.
func (r *Request) NoticesFor(names []string) []Problem {
	remarks, checked := 0, map[string]bool{}
	var list []Problem
	for _, p := range r.Notices {
		if strings.HasPrefix(p.Remedy, nameRemedy) {
			name := names[r.numbers[p.ClientID]]
			if checked[p.ClientID] = true; strings.EqualFold(name, p.ClientID) {
				continue
			}
			remarks++
			p.Remedy = nameRemedy + name
		}
		list = append(list, p)
	}
	for i, name := range names {
		x := &r.Nodes[i]
		if !strings.EqualFold(x.ClientID, name) && !checked[x.ClientID] && remarks < maxNameRemarks {
			remarks++
			list = append(list, Problem{0, x.ClientID, x.Line, x.Column, fmt.Sprintf(unreached, x.ClientID, "it means another node of the slice"), nameRemedy + name})
		}
	}
	return ByLine(list)
}
