package service

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

// ManifestOf returns the manifest of a sliver's slice. It requires no grant, because only the
// site's providers use it: they pass the manifest to the slice's nodes.
//
// Errors: SearchFailed for a sliver that does not exist, Forbidden if its slice is shut
// down, and those of manifest.
func (s *Service) ManifestOf(sliver urn.URN) ([]byte, error) {
	return s.manifest(context.Background(), func(v *store.View) (urn.URN, []Report, error) {
		x, _, err := v.Sliver(sliver)
		if errors.Is(err, store.ErrNotFound) || err == nil && !x.Live(v.Now()) {
			return x.Slice, nil, am.Errorf(am.SearchFailed, "there is no sliver %s at this aggregate; it may be deleted or expired", sliver).About(sliver)
		}
		if err != nil {
			return x.Slice, nil, err
		}
		if err := checkNotShutDown(v, x.Slice); err != nil {
			return x.Slice, nil, err
		}
		live, err := liveSlivers(v, x.Slice)
		return x.Slice, reportsOf(live), err
	})
}

// manifest writes the manifest of the slivers that find returns. It reads one snapshot of the
// store. The memory for the documents counts for the caller that find returns. It fails with an
// error of find, ServerBusy if no memory is free, TooBig for a manifest above 64 MiB, or ctx's
// error if the client has disconnected.
func (s *Service) manifest(ctx context.Context, find func(*store.View) (caller urn.URN, slivers []Report, err error)) ([]byte, error) {
	var slivers []Report
	var documents []am.Document
	var caller urn.URN
	release := func() {}
	err := s.cfg.Store.Read(func(v *store.View) error {
		var found []Report
		var err error
		caller, found, err = find(v)
		if err != nil {
			return err
		}
		if release, err = s.holdDocuments(v, caller, found); err != nil {
			return err
		}
		slivers = found
		documents, err = documentsOf(v, found)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer release()
	return s.writeDocuments(ctx, caller, slivers, documents)
}

// holdDocuments reserves the memory for the parsed requests. If no memory is free, it fails at
// once.
func (s *Service) holdDocuments(v *store.View, caller urn.URN, slivers []Report) (release func(), err error) {
	size, elements := 0, 0
	for id := range documentIDs(slivers) {
		head, err := v.DocumentHead(id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		size += head.Bytes
		elements += head.Elements
	}
	return s.memory.Hold(caller.Key(), size, elements)
}

// documentsOf returns the requests of the slivers, the oldest first. It skips those that do not exist
// any more: they were deleted with their slivers.
func documentsOf(v *store.View, slivers []Report) (all []am.Document, err error) {
	for id := range documentIDs(slivers) {
		d, _, err := v.Document(id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	slices.SortStableFunc(all, func(a, b am.Document) int { return a.Received.Compare(b.Received) })
	return all, nil
}

// documentIDs yields each id once.
func documentIDs(slivers []Report) iter.Seq[string] {
	return func(yield func(string) bool) {
		seen := map[string]bool{}
		for _, x := range slivers {
			if !seen[x.Document] && !yield(x.Document) {
				return
			}
			seen[x.Document] = true
		}
	}
}

// writeDocuments waits for the caller's turn to parse (see Memory.Parse).
func (s *Service) writeDocuments(ctx context.Context, caller urn.URN, slivers []Report, documents []am.Document) ([]byte, error) {
	requests, err := s.parseDocuments(ctx, caller, documents)
	if err != nil {
		return nil, err
	}
	return s.writeManifest(slivers, documents, requests)
}

// parseDocuments returns the requests by the ids of the documents. It waits as writeDocuments does.
func (s *Service) parseDocuments(ctx context.Context, caller urn.URN, documents []am.Document) (map[string]*rspec.Request, error) {
	requests := map[string]*rspec.Request{}
	for _, doc := range documents {
		reading := s.cfg.Reading
		if len(doc.Managers) > 0 { // empty in records of earlier versions
			reading.Managers = doc.Managers
		}
		req, err := s.memory.Parse(ctx, caller.Key(), doc.Text, reading)
		if err != nil {
			return nil, fmt.Errorf("cannot read the stored request %s of slice %s: %w", doc.ID, doc.Slice, err)
		}
		requests[doc.ID] = req
	}
	return requests, ctx.Err()
}

// writeManifest writes the manifest of slivers. It takes their documents, the oldest first, and the parsed requests by
// document id. It leaves out released slivers, and slivers whose document is missing.
func (s *Service) writeManifest(slivers []Report, documents []am.Document, requests map[string]*rspec.Request) ([]byte, error) {
	var parts []rspec.Part
	place := map[string]int{}
	for _, d := range documents {
		place[d.ID] = len(parts)
		parts = append(parts, rspec.Part{Request: requests[d.ID], Nodes: map[string]rspec.NodeFacts{}, Links: map[string]rspec.LinkFacts{}})
	}
	inv := s.Inventory()
	o := rspec.ManifestOptions{Manager: inv.Manager, Generated: s.cfg.Store.Now().UTC(), GeneratedBy: s.cfg.GeneratedBy, ASCII: s.cfg.ASCIIManifests}
	for _, x := range slivers {
		i, ok := place[x.Document]
		if x.Status.Allocation == am.Unallocated || !ok {
			continue
		}
		facts := s.nodeFacts(inv, &x.Sliver)
		if n, ok := requests[x.Document].Node(x.ClientID); ok {
			facts.Notices = append(wishNotices(n.Wishes, x.PublicAddress.IsValid()), nameNotices(n, &x.Sliver)...)
			if text := imageNotice(inv, n, &x.Sliver); text != "" {
				facts.Notices = append(facts.Notices, text)
			}
		}
		parts[i].Nodes[x.ClientID] = facts
		for _, in := range x.Interfaces {
			if in.VLAN != 0 {
				parts[i].Links[in.Link] = rspec.LinkFacts{VLANTag: strconv.Itoa(in.VLAN)}
			}
		}
		if o.Expires.IsZero() || x.Expires.Before(o.Expires) {
			o.Expires = x.Expires
		}
	}
	if len(slivers) > 0 { // a request without nodes has only extensions, which are copied
		parts = slices.DeleteFunc(parts, func(p rspec.Part) bool { return len(p.Nodes) == 0 })
	}
	addLinkNotices(parts, slivers)
	text, err := rspec.WriteManifest(parts, o)
	if errors.Is(err, rspec.ErrTooLarge) {
		err = am.Errorf(am.TooBig, "%v", err)
	}
	return text, err
}

// nodeFacts returns what the manifest says about the node of a sliver. The data are from the sliver's record. The inventory adds only the gateway, and
// data that records of earlier versions lack.
func (s *Service) nodeFacts(inv *inventory.Inventory, x *am.Sliver) rspec.NodeFacts {
	filled := *x
	fillIn(inv, &filled)
	x = &filled
	f := rspec.NodeFacts{
		ComponentID: x.Component, ComponentName: x.ComponentName, HardwareType: x.HardwareType,
		SliverID: x.URN, SliverType: x.SliverType, Exclusive: x.Exclusive,
	}
	if !x.ImageURN.IsZero() {
		f.DiskImage = x.ImageURN.String()
	}
	f.Hosts = hosts(x)
	f.Interfaces = make(map[string]rspec.InterfaceFacts, len(x.Interfaces))
	for _, i := range x.Interfaces {
		f.Interfaces[i.ClientID] = rspec.InterfaceFacts{ComponentID: i.Component, MAC: x.Observed.MACs[i.ClientID], Addresses: i.Addresses}
	}
	for _, g := range x.Features {
		f.Granted = append(f.Granted, rspec.Granted(g))
	}
	s.addExtensions(&f, x)
	for _, login := range x.Observed.Logins {
		user, host, port, ok := splitEndpoint(login)
		switch {
		case !ok:
		case user != "":
			f.Logins = append(f.Logins, rspec.Login{Hostname: host, Port: port, Username: user})
		default:
			for _, a := range x.Desired.Accounts {
				f.Logins = append(f.Logins, rspec.Login{Hostname: host, Port: port, Username: a.Login})
			}
		}
	}
	if g, ok := gateway(x); ok {
		addGateway(&f, g)
	}
	for _, a := range x.Desired.Accounts {
		f.Users = append(f.Users, rspec.User{Login: a.Login, URN: a.User, Keys: a.Keys})
	}
	return f
}

func (s *Service) addExtensions(f *rspec.NodeFacts, x *am.Sliver) {
	if slices.Contains(s.cfg.ManifestExtensions, SliverInfo) {
		state := strings.TrimPrefix(string(x.Status.Operational), "geni_") // readyToLogin.py compares it with ExoGENI's "ready"
		f.Sliver = &rspec.SliverInfo{Creator: x.Creator, Created: x.Created, Expires: x.Expires, State: state, Error: x.Error, ResourceID: f.ComponentName}
	}
	if slices.Contains(s.cfg.ManifestExtensions, VNode) {
		f.VNode = &rspec.VNode{Name: f.ComponentName, HardwareType: f.HardwareType}
	}
}

// gateway returns the SSH host through which users reach a sliver: the host that the provider
// reports, or else the gateway of the sliver's component. If login has no user name, users log in
// to the host with their own accounts. ok is false if there is no such host.
func gateway(x *am.Sliver) (login rspec.Login, ok bool) {
	if user, host, port, ok := splitEndpoint(x.Observed.Proxy); ok && user != "" {
		return rspec.Login{Hostname: host, Port: port, Username: user}, true
	}
	user, host, port, ok := splitEndpoint(x.Gateway)
	return rspec.Login{Hostname: host, Port: port, Username: user}, ok
}

// addGateway adds g as the proxy of each login that is on another host. It also adds g as a
// login, because a manifest must list both sides of a proxy as logins.
func addGateway(f *rspec.NodeFacts, g rspec.Login) {
	added := map[rspec.Login]bool{}
	for _, l := range f.Logins {
		if isSameHost(l.Hostname, g.Hostname) {
			continue // the login is on the gateway itself
		}
		proxy := g
		if proxy.Username == "" {
			proxy.Username = l.Username
		}
		f.Proxies = append(f.Proxies, rspec.Proxy{
			Proxy: fmt.Sprintf("%s@%s:%d", proxy.Username, proxy.Hostname, proxy.Port),
			For:   fmt.Sprintf("%s@%s:%d", l.Username, l.Hostname, l.Port),
		})
		if !added[proxy] {
			added[proxy] = true
			f.Logins = append(f.Logins, proxy)
		}
	}
}

// isSameHost reports whether two names or addresses mean the same host in different spellings.
func isSameHost(a, b string) bool {
	x, err1 := netip.ParseAddr(a)
	y, err2 := netip.ParseAddr(b)
	if err1 == nil && err2 == nil {
		return x.Unmap() == y.Unmap()
	}
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

// hosts returns the public IPv4 address, or else the addresses that the provider reports. Clients
// use the first address to reach the node. The node's DNS name comes last.
func hosts(x *am.Sliver) (list []rspec.Host) {
	if x.PublicAddress.IsValid() {
		list = []rspec.Host{{Name: x.Hostname, IPv4: x.PublicAddress.String()}}
	} else {
		for _, a := range x.Observed.Addresses {
			if ip, err := netip.ParseAddr(a); err == nil && ip.Is4() {
				list = append(list, rspec.Host{Name: x.Hostname, IPv4: ip.String()})
			}
		}
	}
	if x.DNSName != "" && x.DNSName != x.Hostname {
		dns := rspec.Host{Name: x.DNSName}
		if len(list) > 0 {
			dns.IPv4 = list[0].IPv4
		}
		list = append(list, dns)
	}
	return list
}

// splitEndpoint parses [user@]host:port. An IPv6 address is in brackets.
func splitEndpoint(s string) (user, host string, port int, ok bool) {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		user, s = s[:i], s[i+1:]
	}
	i := strings.LastIndexByte(s, ':')
	if i <= 0 {
		return "", "", 0, false
	}
	port, err := strconv.Atoi(s[i+1:])
	host = strings.Trim(s[:i], "[]")
	return user, host, port, err == nil && port > 0 && port < 65536 && host != ""
}
