package testbed

import (
	"errors"
	"slices"

	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/egress"
	"patchbay/inventory/provider/local/fabric"
)

// checkLinks returns one error for each new or changed node whose links cannot be created, by the node's
// name. Reasons are limits of this host, the settings, too many properties, and conflicts with
// other nodes.
func (t *Testbed) checkLinks(updates []update) map[string]error {
	refusals := map[string]error{}
	fresh := map[string][]member{} // by network id
	seen := map[string]bool{}
	leaving := map[string]bool{} // nodes whose present interfaces do not count
	t.mu.Lock()
	excess := t.totalExcessWeight()
	t.mu.Unlock()
	for _, u := range updates {
		changes := u.Should
		if changes.Ensure != nil && *changes.Ensure == provider.Absent {
			leaving[u.Name] = true
		}
		urn, isChange := "", false // the slice of an existing node, and whether u changes it
		if nc := t.node(u.Name); nc != nil && changes.Interfaces != nil {
			rec := nc.snapshot()
			urn, isChange = rec.Desired.SliceURN, changes.isChange(&rec.Desired)
		}
		if seen[u.Name] || changes.Interfaces == nil || !isChange && !t.isNewNode(u) {
			continue
		}
		seen[u.Name] = true
		leaving[u.Name] = leaving[u.Name] || isChange
		if changes.SliceURN != nil {
			urn = *changes.SliceURN
		}
		ifaces, err := t.checkInterfaces(*changes.Interfaces, urn)
		if err != nil {
			refusals[u.Name] = err
			continue
		}
		if n := excessWeight(ifaces); n > 0 {
			if excess+n > sharedInterfaceWeight {
				refusals[u.Name] = errInterfaceWeight
				continue
			}
			excess += n
		}
		id := networkID(urn, u.Name)
		fresh[id] = append(fresh[id], member{u.Name, ifaces})
	}
	for id, members := range fresh {
		for name, err := range t.checkSlice(id, members, leaving) {
			refusals[name] = err
		}
	}
	return refusals
}

// isNewNode reports whether u creates a node.
func (t *Testbed) isNewNode(u update) bool {
	ensure := u.Should.Ensure
	return ensure != nil && *ensure == provider.Present && t.node(u.Name) == nil
}

// checkCapacity accepts new nodes in the order of updates while there is room, and adds the
// others to refusals. Nodes and free login ports are limited.
func (t *Testbed) checkCapacity(updates []update, refusals map[string]error) {
	seen := map[string]bool{}
	var fresh []string
	for _, u := range updates {
		if seen[u.Name] || refusals[u.Name] != nil || !t.isNewNode(u) {
			continue
		}
		seen[u.Name] = true
		fresh = append(fresh, u.Name)
	}
	if len(fresh) == 0 {
		return
	}
	nodes := t.sortedNodes()
	refuse := func(room int, err error) { // all but the first nodes, for which there is room
		for _, name := range fresh[min(len(fresh), max(0, room)):] {
			refusals[name] = err
		}
		fresh = fresh[:min(len(fresh), max(0, room))]
	}
	refuse(maxNodes-len(nodes), errFull)
	if t.settings.Publish == local.Gateway {
		return // nodes have no ports of their own
	}
	left, err := t.ports.Free()
	if err != nil {
		t.log.Warn("cannot count the free login ports", "error", err)
		return // if there is no free port, opening one fails later
	}
	for _, nc := range nodes {
		if nc.snapshot().Port == 0 {
			left-- // the node was accepted and will take a port
		}
	}
	refuse(left, errNoPort)
}

// checkInterfaces parses the requested interfaces of a node in the slice urn. It refuses those on links of
// other slices, on shared VLANs that the settings do not list, and with addresses of the outside network.
func (t *Testbed) checkInterfaces(items []string, urn string) ([]iface, error) {
	ifaces, err := parseInterfaces(items)
	if err != nil {
		return nil, provider.Refuse(provider.Failed, "%v", err)
	}
	for _, f := range ifaces {
		if err := t.refuseEgressAddresses(&f); err != nil {
			return nil, err
		}
		switch {
		case f.slice != "" && f.slice != urn:
			return nil, provider.Refuse(provider.Failed, "interface %s is on a link of another slice than its node; a link joins nodes of one slice only; to join slices, use a shared VLAN", quoteName(f.clientID))
		case f.shared == "" || slices.Contains(t.settings.SharedVLANs, f.shared):
		case len(t.settings.SharedVLANs) == 0:
			return nil, provider.Refuse(provider.Forbidden, "link %s requests the shared VLAN %s, and this testbed has none", quoteName(f.link), quoteName(f.shared))
		default:
			return nil, provider.Refuse(provider.Forbidden, "link %s requests the shared VLAN %s, which this testbed does not have; it has %s", quoteName(f.link), quoteName(f.shared), joinNames(t.settings.SharedVLANs))
		}
	}
	return ifaces, nil
}

// refuseEgressAddresses fails if f requests an address that the testbed uses for the outside network. On a
// link, such an address could equal the node's own address in the outside network, or the address of the
// node's gateway.
func (t *Testbed) refuseEgressAddresses(f *iface) error {
	if t.egress == nil || f.control {
		return nil
	}
	for _, a := range f.addresses {
		if egress.NodeNetwork().Contains(a.Addr()) {
			return provider.Refuse(provider.Unsupported, "interface %s requests the address %v, but %v is used for the outside network; choose another, such as one of 10.0.0.0/8", quoteName(f.clientID), a.Addr(), egress.NodeNetwork())
		}
	}
	return nil
}

// checkSlice plans the links of a slice's network with newMembers and without the nodes in
// leaving. It returns one error for each new node whose links cannot be created, by the node's
// name.
func (t *Testbed) checkSlice(id string, newMembers []member, leaving map[string]bool) map[string]error {
	refusals := map[string]error{}
	members := slices.DeleteFunc(t.members(id), func(m member) bool { return leaving[m.id] })
	links := planLinks(id, append(members, newMembers...))
	linkErrors := map[string]error{}
	for _, m := range newMembers {
		for i := range m.ifaces {
			f := &m.ifaces[i]
			if f.control {
				continue
			}
			on := f.linkID(m.id)
			err, ok := linkErrors[on]
			if !ok {
				err = t.checkLink(links[on], f)
				linkErrors[on] = err
			}
			if err != nil && refusals[m.id] == nil {
				refusals[m.id] = err
			}
		}
	}
	return refusals
}

// checkLink returns the reason why a link cannot be created, or nil. Messages name the interface
// f if the link has no name.
func (t *Testbed) checkLink(l *link, f *iface) error {
	if l.conflict != "" {
		return provider.Refuse(provider.Failed, "%s", l.conflictMessage(f))
	}
	err := t.fabricError
	if err != nil {
		err = errors.New("this host cannot make links; ask the testbed's operators")
	} else {
		err = t.fabric.CheckLink(l.Link)
	}
	if err == nil {
		return nil
	}
	kind := provider.Failed
	if no, ok := errors.AsType[*fabric.UnsupportedError](err); ok {
		kind = provider.Unsupported
		if no.Remedy != "" {
			t.log.Info("a link is refused", "slice", l.Slice, "link", l.title(f), "reason", no.Error())
		}
	}
	return provider.Refuse(kind, "%s", l.refusalMessage(f, err))
}
