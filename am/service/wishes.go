package service

import (
	"fmt"
	"net/netip"
	"slices"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/rspec"
)

// notFulfilled says what the aggregate does not do, by the wish of a node or link.
var notFulfilled = map[string]string{
	"public":   "there are no public addresses here, so net:public is copied without effect",
	"outports": "ports are open to others only on nodes with a public address, so net:outports is copied without effect",
	"route":    "this aggregate sets no routes, so net:route is copied without effect; set it in a step of the nodes",
	"nat":      "this aggregate makes no node translate addresses, so net:nat is copied without effect; set it up in a step of the node",
	"proxy":    "this aggregate uses no SSH proxies of experimenters, so net:proxy is copied without effect; the manifest names the logins",
}

// unfulfilled returns the wishes that are not fulfilled. isPublic says whether the node, or all nodes
// on the link, have a public address.
func unfulfilled(wishes []string, isPublic bool) (list []string) {
	for _, wish := range wishes {
		if !isPublic || wish != "public" && wish != "outports" {
			list = append(list, wish)
		}
	}
	return list
}

func wishNotices(wishes []string, isPublic bool) (list []string) {
	for _, wish := range unfulfilled(wishes, isPublic) {
		list = append(list, notFulfilled[wish])
	}
	return list
}

// isPublic reports whether no interface of the link is among private, those of nodes without a public
// address.
func isPublic(l *rspec.Link, private map[string]bool) bool {
	return !slices.ContainsFunc(l.Interfaces, func(id string) bool { return private[id] })
}

// nameNotices says which DNS names of a node the slice's nodes do not know.
func nameNotices(n *rspec.Node, x *am.Sliver) (list []string) {
	for _, name := range n.DNSNames {
		if name != x.DNSName {
			list = append(list, fmt.Sprintf("the DNS name %.80s is copied without effect: a node gets one, of at most 64 characters, whose first part is no host name of another node", name))
		}
	}
	return list
}

// nameRemarks adds remarks on the DNS names that are not used. slivers are those of the request's nodes, in their order.
func (r *remarks) nameRemarks(req *rspec.Request, slivers []am.Sliver) {
	for i := range slivers {
		n := &req.Nodes[i]
		for _, text := range nameNotices(n, &slivers[i]) {
			r.add("node", n.ClientID, "dns", "%s", text)
		}
	}
}

// wishRemarks says which wishes about networks are not fulfilled.
func (r *remarks) wishRemarks(req *rspec.Request, b binder.Binding) {
	private, outside := map[string]bool{}, map[string]bool{}
	ranges := map[string]netip.Prefix{}
	for i := range req.Links {
		ranges[req.Links[i].ClientID] = req.Links[i].Range
	}
	for i := range b.Nodes {
		n := &b.Nodes[i]
		for _, in := range n.Interfaces {
			if p := ranges[in.Link]; p.IsValid() && slices.ContainsFunc(in.Addresses, func(a netip.Prefix) bool {
				return a.Addr().BitLen() == p.Addr().BitLen() && !p.Contains(a.Addr())
			}) {
				outside[in.Link] = true
			}
		}
		for _, in := range n.Node.Interfaces {
			private[in.ClientID] = !n.PublicAddress.IsValid()
		}
		for _, wish := range unfulfilled(n.Node.Wishes, n.PublicAddress.IsValid()) {
			r.add("node", n.Node.ClientID, wish, "%s", notFulfilled[wish])
		}
	}
	for i := range req.Links {
		l := &req.Links[i]
		for _, wish := range unfulfilled(l.Wishes, isPublic(l, private)) {
			r.add("link", l.ClientID, wish, "%s", notFulfilled[wish])
		}
		if outside[l.ClientID] {
			r.add("link", l.ClientID, "cidr", "not all of its interfaces have addresses in %s: those that the request gives, and those of nodes that stay, do not change", l.Range)
		}
	}
}

// addLinkNotices adds the wishes of links that are not fulfilled to the parts of a manifest.
func addLinkNotices(parts []rspec.Part, slivers []Report) {
	private := map[string]bool{}
	for i := range slivers {
		for _, in := range slivers[i].Interfaces {
			private[in.ClientID] = !slivers[i].PublicAddress.IsValid()
		}
	}
	for _, p := range parts {
		for i := range p.Request.Links {
			l := &p.Request.Links[i]
			if len(l.Wishes) > 0 {
				facts := p.Links[l.ClientID]
				facts.Notices = wishNotices(l.Wishes, isPublic(l, private))
				p.Links[l.ClientID] = facts
			}
		}
	}
}
