package service

import (
	"net/netip"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/rspec"
)

// sliceContent holds the data of a slice that a further request must not conflict with. They come
// from the records of slivers and the heads of documents; no document is parsed.
type sliceContent struct {
	hostnames       am.Hostnames
	addresses       []netip.Prefix
	bytes, elements int
	// names are the client_ids of the new request that slivers of the slice use already.
	names map[name]urn.URN
}

// name is a client_id, unique among the parts of its kind.
type name struct{ kind, clientID string }

// deleteHints name, in messages, the nodes that a user must Delete to free a client_id. The key
// is the kind of the part.
var deleteHints = map[string]string{"node": "that one", "interface": "its node", "link": "the nodes at its ends"}

type clientIDs struct {
	list []rspec.NamedPart
	has  map[name]bool
}

func clientIDsOf(req *rspec.Request) (c clientIDs) {
	c.has = map[name]bool{}
	for x := range req.NamedParts() {
		c.list = append(c.list, x)
		c.has[name{x.Kind, x.ClientID}] = true
	}
	return c
}

// readContent finds the client_ids of c that the slice uses already. Released and expired slivers
// do not count.
func readContent(v *store.View, slice urn.URN, c clientIDs) (*sliceContent, error) {
	live, err := liveSlivers(v, slice)
	if err != nil {
		return nil, err
	}
	h := &sliceContent{names: map[name]urn.URN{}}
	documents := map[string]bool{}
	for i := range live {
		x := &live[i]
		hold := func(kind, clientID string) {
			if n := (name{kind, clientID}); c.has[n] {
				h.names[n] = x.URN
			}
		}
		hold("node", x.ClientID)
		h.hostnames.Take(x.Hostname)
		for _, in := range x.Interfaces {
			hold("interface", in.ClientID)
			hold("link", in.Link)
			h.addresses = append(h.addresses, in.Addresses...)
		}
		for _, link := range x.CopiedLinks {
			hold("link", link)
		}
		if documents[x.Document] {
			continue
		}
		documents[x.Document] = true
		head, err := v.DocumentHead(x.Document)
		if err != nil {
			return nil, err
		}
		h.bytes += head.Bytes
		h.elements += head.Elements
	}
	return h, nil
}

// checkClientIDs returns an Exists error if the slice uses a client_id of the request already. In
// a manifest of the slice, clients could not distinguish the two parts.
func (h *sliceContent) checkClientIDs(c clientIDs) error {
	if len(h.names) == 0 {
		return nil
	}
	for _, x := range c.list {
		if u, ok := h.names[name{x.Kind, x.ClientID}]; ok {
			return am.Errorf(am.Exists, "line %d: %s %.40q is in the slice already (%s); Delete %s first, or use another client_id", x.Line, x.Kind, x.ClientID, u, deleteHints[x.Kind]).About(u)
		}
	}
	return nil
}

// setCopiedLinks stores in each sliver the client_ids of links that end at its node but have no
// interface here. Such links lead to another aggregate.
func setCopiedLinks(c clientIDs, slivers []am.Sliver) {
	made := map[string]bool{}
	for i := range slivers {
		for _, in := range slivers[i].Interfaces {
			made[in.Link] = true
		}
	}
	for _, x := range c.list {
		if x.Kind != "link" || made[x.ClientID] {
			continue
		}
		for _, n := range x.Nodes {
			slivers[n].CopiedLinks = append(slivers[n].CopiedLinks, x.ClientID)
		}
	}
}
