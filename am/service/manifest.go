package service

import (
	"container/list"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

// withManifest adds the manifest of an outcome's slivers.
func (s *Service) withManifest(out Outcome) (Outcome, error) {
	err := s.cfg.Store.Read(func(v *store.View) (err error) {
		var there []Report // without those that were deleted since, and whose request went with them
		for _, x := range out.Slivers {
			switch _, err := s.requests.get(v, x.Document); {
			case err == nil:
				there = append(there, x)
			case !errors.Is(err, store.ErrNotFound):
				return err
			}
		}
		out.Manifest, err = s.manifest(v, there)
		return err
	})
	return out, err
}

// ManifestOf is the manifest of the slice that a sliver belongs to, for those
// who need no grant: the site's own providers, which hand it to the slice's nodes.
//
// Errors: SearchFailed for a sliver that is not there, Forbidden when its slice
// is shut down.
func (s *Service) ManifestOf(sliver urn.URN) ([]byte, error) {
	var manifest []byte
	err := s.cfg.Store.Read(func(v *store.View) error {
		x, _, err := v.Sliver(sliver)
		if errors.Is(err, store.ErrNotFound) || err == nil && !x.Live(v.Now()) {
			return am.Errorf(am.SearchFailed, "there is no sliver %s at this aggregate; it may be deleted or expired", sliver).About(sliver)
		}
		if err != nil {
			return err
		}
		if err := notShutDown(v, x.Slice); err != nil {
			return err
		}
		live, err := liveSlivers(v, x.Slice)
		if err != nil {
			return err
		}
		manifest, err = s.manifest(v, reports(live))
		return err
	})
	return manifest, err
}

// manifest writes the slivers into the requests that asked for them.
func (s *Service) manifest(v *store.View, slivers []Report) ([]byte, error) {
	var parts []rspec.Part
	place := map[string]int{}
	inv := s.Inventory()
	o := rspec.ManifestOptions{Manager: inv.Manager, Generated: v.Now().UTC(), GeneratedBy: s.cfg.GeneratedBy, ASCII: s.cfg.ASCIIManifests}
	for _, x := range slivers {
		if x.Status.Allocation == am.Unallocated {
			continue
		}
		i, ok := place[x.Document]
		if !ok {
			req, err := s.requests.get(v, x.Document)
			if err != nil {
				return nil, fmt.Errorf("cannot read the request of sliver %s: %w", x.URN, err)
			}
			i = len(parts)
			place[x.Document] = i
			parts = append(parts, rspec.Part{Request: req, Nodes: map[string]rspec.NodeFacts{}, Links: map[string]rspec.LinkFacts{}})
		}
		parts[i].Nodes[x.ClientID] = s.facts(inv, &x.Sliver)
		for _, in := range x.Interfaces {
			if in.VLAN != 0 {
				parts[i].Links[in.Link] = rspec.LinkFacts{VLANTag: strconv.Itoa(in.VLAN)}
			}
		}
		if o.Expires.IsZero() || x.Expires.Before(o.Expires) {
			o.Expires = x.Expires
		}
	}
	return rspec.WriteManifest(parts, o)
}

// facts are what a manifest says of one node: what was promised, whatever the
// inventory says by now. That tells of gateways, and of slivers of earlier versions.
func (s *Service) facts(inv *inventory.Inventory, x *am.Sliver) rspec.NodeFacts {
	told := *x
	remember(inv, &told)
	x = &told
	f := rspec.NodeFacts{
		ComponentID: x.Component, ComponentName: x.ComponentName, HardwareType: x.HardwareType,
		SliverID: x.URN, SliverType: x.SliverType, Exclusive: x.Exclusive,
	}
	if !x.ImageURN.IsZero() {
		f.DiskImage = x.ImageURN.String()
	}
	f.Hosts = hosts(x)
	s.tellInterfaces(&f, x)
	s.tellExtensions(&f, x)
	for _, door := range x.Observed.Logins {
		user, host, port, ok := splitDoor(door)
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
		tellGateway(&f, g)
	}
	for _, a := range x.Desired.Accounts {
		f.Users = append(f.Users, rspec.User{Login: a.Login, URN: a.User, Keys: a.Keys})
	}
	return f
}

// tellInterfaces adds what the interfaces of a node got.
func (s *Service) tellInterfaces(f *rspec.NodeFacts, x *am.Sliver) {
	if len(x.Interfaces) == 0 {
		return
	}
	f.Interfaces = make(map[string]rspec.InterfaceFacts, len(x.Interfaces))
	for _, i := range x.Interfaces {
		f.Interfaces[i.ClientID] = rspec.InterfaceFacts{ComponentID: i.Component, MAC: x.Observed.MACs[i.ClientID], Addresses: i.Addresses}
	}
}

// tellExtensions adds what only some sites tell.
func (s *Service) tellExtensions(f *rspec.NodeFacts, x *am.Sliver) {
	if slices.Contains(s.cfg.ManifestExtensions, SliverInfo) {
		f.Sliver = &rspec.SliverInfo{Creator: x.Creator, Created: x.Created, Expires: x.Expires, State: string(x.Status.Operational), Error: x.Error, ResourceID: f.ComponentName}
	}
	if slices.Contains(s.cfg.ManifestExtensions, VNode) {
		f.VNode = &rspec.VNode{Name: f.ComponentName, HardwareType: f.HardwareType}
	}
}

// gateway is the SSH host in front of a sliver: the one that its provider tells,
// or that of its component. Without a user everybody logs in as himself.
func gateway(x *am.Sliver) (rspec.Login, bool) {
	if user, host, port, ok := splitDoor(x.Observed.Proxy); ok && user != "" {
		return rspec.Login{Hostname: host, Port: port, Username: user}, true
	}
	user, host, port, ok := splitDoor(x.Gateway)
	return rspec.Login{Hostname: host, Port: port, Username: user}, ok
}

// tellGateway puts a gateway in front of each login on another host than its
// own; both sides must be logins themselves.
func tellGateway(f *rspec.NodeFacts, g rspec.Login) {
	told := map[rspec.Login]bool{}
	for _, l := range f.Logins {
		if sameHost(l.Hostname, g.Hostname) {
			continue // who reaches the gateway reaches this door
		}
		door := g
		if door.Username == "" {
			door.Username = l.Username
		}
		f.Proxies = append(f.Proxies, rspec.Proxy{
			Proxy: fmt.Sprintf("%s@%s:%d", door.Username, door.Hostname, door.Port),
			For:   fmt.Sprintf("%s@%s:%d", l.Username, l.Hostname, l.Port),
		})
		if !told[door] {
			told[door] = true
			f.Logins = append(f.Logins, door)
		}
	}
}

// sameHost tells whether two names or addresses are written for one host.
func sameHost(a, b string) bool {
	x, err1 := netip.ParseAddr(a)
	y, err2 := netip.ParseAddr(b)
	if err1 == nil && err2 == nil {
		return x.Unmap() == y.Unmap()
	}
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

// hosts are the addresses of a sliver: its public one, or those that its
// provider tells. Clients take the first for the way to the node.
func hosts(x *am.Sliver) (list []rspec.Host) {
	if x.PublicAddress.IsValid() {
		return []rspec.Host{{Name: x.Hostname, IPv4: x.PublicAddress.String()}}
	}
	for _, a := range x.Observed.Addresses {
		if ip, err := netip.ParseAddr(a); err == nil && ip.Is4() {
			list = append(list, rspec.Host{Name: x.Hostname, IPv4: ip.String()})
		}
	}
	return list
}

// splitDoor reads [user@]host:port as a provider reports it; an IPv6 address
// stands in brackets.
func splitDoor(s string) (user, host string, port int, ok bool) {
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

// cachedBytes is how much request text the cache may stand for; a parsed
// request takes about ten times its text.
const cachedBytes = 4 << 20

// requestCache keeps parsed requests: a manifest of a slice needs them again
// with every Describe, and a stored request never changes.
type requestCache struct {
	reading rspec.ReadOptions

	// parsing is held while a large document is read again.
	parsing sync.Mutex

	mu     sync.Mutex // guards the rest
	byID   map[string]*list.Element
	recent *list.List // of *cachedRequest, latest use first
	bytes  int
}

type cachedRequest struct {
	id  string
	req *rspec.Request
}

func newRequestCache(o rspec.ReadOptions) *requestCache {
	return &requestCache{reading: o, byID: map[string]*list.Element{}, recent: list.New()}
}

func (c *requestCache) get(v *store.View, id string) (*rspec.Request, error) {
	if req, ok := c.known(id); ok {
		return req, nil
	}
	doc, _, err := v.Document(id)
	if err != nil {
		return nil, err
	}
	if len(doc.Text) >= rspec.Large { // one at a time, for the memory it takes
		c.parsing.Lock()
		defer c.parsing.Unlock()
		if req, ok := c.known(id); ok { // somebody else has read it meanwhile
			return req, nil
		}
	}
	reading := c.reading
	if len(doc.Managers) > 0 { // else it is of an earlier version
		reading.Managers = doc.Managers
	}
	req, err := rspec.ParseRequest(doc.Text, reading)
	if err != nil {
		return nil, err
	}
	c.add(id, req)
	return req, nil
}

// known is a request that is in the cache.
func (c *requestCache) known(id string) (*rspec.Request, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byID[id]
	if !ok {
		return nil, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cachedRequest).req, true
}

func (c *requestCache) add(id string, req *rspec.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byID[id]; ok {
		return
	}
	c.byID[id] = c.recent.PushFront(&cachedRequest{id, req})
	c.bytes += len(req.Text())
	for c.bytes > cachedBytes && c.recent.Len() > 1 {
		last := c.recent.Remove(c.recent.Back()).(*cachedRequest)
		delete(c.byID, last.id)
		c.bytes -= len(last.req.Text())
	}
}
