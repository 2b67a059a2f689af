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

// held are the names that a slice's live slivers and links bear already, and
// the addresses of their interfaces with their networks.
type held struct {
	nodes, links map[string]urn.URN
	hostnames    am.Hostnames
	addresses    []netip.Prefix
}

// heldNames collects what is in use; slivers on their way out do not count.
func (s *Service) heldNames(v *store.View, slice urn.URN) (*held, error) {
	h := &held{nodes: map[string]urn.URN{}, links: map[string]urn.URN{}}
	live, err := liveSlivers(v, slice)
	if err != nil {
		return nil, err
	}
	documents := map[string]bool{}
	for _, x := range live {
		h.nodes[x.ClientID] = x.URN
		h.hostnames.Take(x.Hostname)
		documents[x.Document] = true
		for _, i := range x.Interfaces {
			h.addresses = append(h.addresses, i.Addresses...)
		}
	}
	for id := range documents {
		req, err := s.requests.get(v, id)
		if err != nil {
			return nil, err
		}
		h.holdLinks(req)
	}
	return h, nil
}

// holdLinks adds the links of a request that still end at a node.
func (h *held) holdLinks(req *rspec.Request) {
	if len(req.Links) == 0 {
		return
	}
	at := map[string]urn.URN{} // interface → sliver
	for _, n := range req.Nodes {
		if u, ok := h.nodes[n.ClientID]; ok {
			for _, i := range n.Interfaces {
				at[i.ClientID] = u
			}
		}
	}
	for _, l := range req.Links {
		for _, i := range l.Interfaces {
			if u, ok := at[i]; ok {
				h.links[l.ClientID] = u
			}
		}
	}
}

// admit refuses a request that uses a client_id again: a manifest of the slice
// could not tell the two apart.
func (h *held) admit(req *rspec.Request) error {
	for _, n := range req.Nodes {
		if u, ok := h.nodes[n.ClientID]; ok {
			return am.Errorf(am.Exists, "line %d: the slice has a node %.40q already (%s); Delete that one first, or use another client_id", n.Line, n.ClientID, u).About(u)
		}
	}
	for _, l := range req.Links {
		if _, ok := h.links[l.ClientID]; ok {
			return am.Errorf(am.Exists, "line %d: the slice has a link %.40q already; Delete its nodes first, or use another client_id", l.Line, l.ClientID)
		}
	}
	return nil
}
