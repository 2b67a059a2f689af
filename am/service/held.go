package service

import (
	"net/netip"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/rspec"
)

// held is what a slice has, as far as a further request must fit to it. All of it is
// in the records of slivers and at the heads of documents: no document is parsed.
type held struct {
	hostnames am.Hostnames
	// addresses are those of the slice's interfaces, with their networks.
	addresses []netip.Prefix
	// bytes and elements are the sums of the slice's documents.
	bytes, elements int
	// names are the slivers that have a client_id of the request already.
	names map[name]urn.URN
}

// name is a client_id, which no two parts of one kind may have.
type name struct{ kind, clientID string }

// holders hold a name, by the kind of what has it.
var holders = map[string]string{"node": "that one", "interface": "its node", "link": "the nodes at its ends"}

// claims are the client_ids that a request gives to parts that are ours, with the
// first line of each.
type claims struct {
	list []rspec.Claim
	has  map[name]bool
}

func claimsOf(req *rspec.Request) (c claims) {
	c.has = map[name]bool{}
	for x := range req.Claims() {
		c.list = append(c.list, x)
		c.has[name{x.Kind, x.ClientID}] = true
	}
	return c
}

// heldBy collects what a slice has, and which of a request's names are among it;
// slivers on their way out do not count.
func heldBy(v *store.View, slice urn.URN, c claims) (*held, error) {
	live, err := liveSlivers(v, slice)
	if err != nil {
		return nil, err
	}
	h := &held{names: map[name]urn.URN{}}
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

// admit refuses a request that uses a client_id again: a manifest of the slice
// could not tell the two apart, nor could it be asked for as it is.
func (h *held) admit(c claims) error {
	if len(h.names) == 0 {
		return nil
	}
	for _, x := range c.list {
		if u, ok := h.names[name{x.Kind, x.ClientID}]; ok {
			return am.Errorf(am.Exists, "line %d: %s %.40q is in the slice already (%s); Delete %s first, or use another client_id", x.Line, x.Kind, x.ClientID, u, holders[x.Kind]).About(u)
		}
	}
	return nil
}

// copiedLinks are the client_ids of a request's links that end at a node, by its
// number, and are not among the interfaces that are made.
func copiedLinks(c claims, slivers []am.Sliver) {
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
