package service

import (
	"context"
	"net/netip"
	"time"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/rspec"
)

// AllocateOptions are the options of Allocate.
type AllocateOptions struct {
	Call
	// EndTime is the wished end of the lease; zero if none.
	EndTime time.Time
}

// Allocate binds the request's own nodes to components and reserves them, all
// or nothing (AM API v3, Allocate). The manifest covers the slivers of this
// call only. The lease is short: Provision or Renew prolong it.
//
// Errors: Forbidden, SearchFailed for a request without a node for us, Exists
// for a client_id the slice has already, and those of binder.Bind.
func (s *Service) Allocate(ctx context.Context, g credentials.Grant, slice urn.URN, req *rspec.Request, o AllocateOptions) (Outcome, error) {
	doc := am.Document{ID: newUUID(), Slice: slice, Text: req.Text()}
	var out Outcome
	var binding binder.Binding
	err := s.commit(ctx, func(v *store.View) (store.ChangeSet, error) {
		var cs store.ChangeSet
		until, err := over(v, g, slice)
		if err != nil {
			return cs, err
		}
		if len(req.Nodes) == 0 {
			return cs, am.Errorf(am.SearchFailed, "the request has no node for this aggregate (%s); it is asked for by that component_manager_id, or by none", s.cfg.Inventory.Manager)
		}
		now := v.Now().UTC()
		if !o.EndTime.IsZero() && !o.EndTime.After(now) {
			return cs, am.Errorf(am.BadArgs, "geni_end_time %s is in the past", o.EndTime.Format(time.RFC3339)).With(am.OutOfRange)
		}
		held, err := s.heldNames(v, slice)
		if err != nil {
			return cs, err
		}
		if err := held.admit(req); err != nil {
			return cs, err
		}
		binding, err = binder.Bind(req, s.cfg.Index, slice, held.addresses...)
		if err != nil {
			return cs, err
		}
		status, err := am.Next(am.Status{Allocation: am.Unallocated, Operational: am.PendingAllocation}, am.EventAllocate)
		if err != nil {
			return cs, err
		}
		doc.Received = now
		out = Outcome{Slice: slice}
		slivers := make([]am.Sliver, 0, len(binding.Nodes))
		for i, b := range binding.Nodes {
			x := am.Sliver{
				URN:   urn.URN{Authority: s.cfg.Inventory.Manager.Authority, Type: urn.Sliver, Name: newUUID()},
				Slice: slice, ClientID: b.Node.ClientID, Ordinal: i, Document: doc.ID,
				Hostname:  held.hostnames.For(b.Node.ClientID),
				Component: b.Component.URN, SliverType: b.SliverType.Name, Image: b.Image,
				Exclusive: b.Exclusive, Amount: b.Amount,
				Interfaces: b.Interfaces, PublicAddress: b.PublicAddress,
				Status: status, Created: now, Creator: g.Caller(),
				Expires:    s.reservationEnd(now, until, o.EndTime),
				Wish:       o.EndTime,
				Generation: 1,
			}
			slivers = append(slivers, x)
			cs.PutSliver(x)
			out.Slivers = append(out.Slivers, Report{Sliver: x})
		}
		cs.PutDocument(doc)
		if err := touch(&cs, v, slice); err != nil {
			return cs, err
		}
		journal(&cs, v, g, o.Call, "Allocate", slice, slivers)
		return cs, nil
	})
	if err != nil {
		return Outcome{}, err
	}
	out.Notices = append(rspec.Lines(req.Notices), Remarks(s.cfg.Inventory, req, binding)...)
	s.requests.add(doc.ID, req)
	return s.withManifest(out)
}

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
