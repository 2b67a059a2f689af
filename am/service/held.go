package service

import (
	"net/netip"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/rspec"
)

// held are the names that the parts of a slice's manifest bear already, and the
// addresses of its interfaces with their networks.
type held struct {
	names     map[name]urn.URN // the sliver with which a part is shown
	hostnames am.Hostnames
	addresses []netip.Prefix
}

// name is a client_id, which no two parts of one kind may have.
type name struct{ kind, clientID string }

// holders hold a name, by the kind of what bears it.
var holders = map[string]string{"node": "that one", "interface": "its node", "link": "the nodes at its ends"}

// heldNames collects what is in use; slivers on their way out do not count.
func (s *Service) heldNames(v *store.View, slice urn.URN) (*held, error) {
	h := &held{names: map[name]urn.URN{}}
	live, err := liveSlivers(v, slice)
	if err != nil {
		return nil, err
	}
	documents := map[string]map[string]urn.URN{} // what lives of each: client_id → sliver
	for _, x := range live {
		of := documents[x.Document]
		if of == nil {
			of = map[string]urn.URN{}
			documents[x.Document] = of
		}
		of[x.ClientID] = x.URN
		h.names[name{"node", x.ClientID}] = x.URN
		h.hostnames.Take(x.Hostname)
		for _, i := range x.Interfaces {
			h.addresses = append(h.addresses, i.Addresses...)
		}
	}
	for id, slivers := range documents {
		req, err := s.requests.get(v, id)
		if err != nil {
			return nil, err
		}
		h.hold(req, slivers)
	}
	return h, nil
}

// hold adds what a request has at slivers, which are by client_id.
func (h *held) hold(req *rspec.Request, slivers map[string]urn.URN) {
	for c := range req.Claims() {
		for _, i := range c.Nodes {
			if u, ok := slivers[req.Nodes[i].ClientID]; ok {
				h.names[name{c.Kind, c.ClientID}] = u
				break
			}
		}
	}
}

// admit refuses a request that uses a client_id again: a manifest of the slice
// could not tell the two apart, nor could it be asked for as it is.
func (h *held) admit(req *rspec.Request) error {
	for c := range req.Claims() {
		u, ok := h.names[name{c.Kind, c.ClientID}]
		if !ok {
			continue
		}
		return am.Errorf(am.Exists, "line %d: %s %.40q is in the slice already (%s); Delete %s first, or use another client_id", c.Line, c.Kind, c.ClientID, u, holders[c.Kind]).About(u)
	}
	return nil
}
