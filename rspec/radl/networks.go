package radl

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"patchbay/rspec"
	"patchbay/rspec/generate"
)

// network is a network with interfaces of new nodes.
type network struct {
	block    *Block
	isPublic bool
	prefix   netip.Prefix        // zero without a range of addresses
	last     netip.Addr          // the last address that was handed out
	taken    map[netip.Addr]bool // fixed addresses
	// links are its parts by the URN of the aggregate; empty for the own one.
	links []*generate.Link
}

// networkFeatures are those that have a place in a request.
var networkFeatures = []string{"outbound", "outports", "cidr", "router", "proxy_host"}

// network returns the network with the name, which must be defined. At the first call it adds it to those that nodes
// use, and refuses too many.
func (c *compiler) network(name string) *network {
	if n := c.networks[name]; n != nil {
		return n
	}
	b := c.networkBlocks[name]
	n := &network{block: b, isPublic: b.text("outbound") == "yes", prefix: c.ranges[name], taken: map[netip.Addr]bool{}}
	if n.prefix.IsValid() {
		n.last = n.prefix.Addr()
	}
	c.networks[name] = n
	c.networkOrder = append(c.networkOrder, name)
	if len(c.networkOrder) == maxNetworks+1 {
		c.refuse(rspec.TooBig, b.Place, "divide it among several slices", "the nodes use more than %d networks", maxNetworks)
	}
	return n
}

// linkAt returns the part of n at an aggregate, which it adds at the first call.
func (n *network) linkAt(manager string) *generate.Link {
	for _, l := range n.links {
		if l.Manager == manager {
			return l
		}
	}
	l := &generate.Link{Manager: manager}
	n.links = append(n.links, l)
	return l
}

// takeAddress returns the next free address of the network; ok is false if there is none.
func (n *network) takeAddress() (a netip.Prefix, ok bool) {
	for {
		n.last = n.last.Next()
		next := netip.PrefixFrom(n.last, n.prefix.Bits())
		if !n.prefix.Contains(n.last) || n.last.Is4() && n.last == rspec.LastAddress(n.prefix) {
			return a, false
		}
		if !n.taken[n.last] {
			return next, true
		}
	}
}

// addLinks writes the links of all networks.
func (c *compiler) addLinks() {
	names := map[string]bool{}
	for _, name := range c.networkOrder {
		names[name] = true
	}
	for _, name := range c.networkOrder {
		n := c.networks[name]
		for _, l := range n.links {
			l.ClientID = name
			if l.Manager != "" {
				l.ClientID = c.foreignName(name, l.Manager, names)
			}
			if l.Manager != "" && len(n.links) > 1 {
				c.warn(n.block.Place, "connect them by other means", "network %.80q: a link does not leave an aggregate, so its nodes at %s get the link %.80q of their own", name, l.Manager, l.ClientID)
			}
			c.fillLink(n, l)
			c.request.Links = append(c.request.Links, *l)
		}
	}
}

// foreignName returns a name for the part of a network at another aggregate.
func (c *compiler) foreignName(name, manager string, names map[string]bool) string {
	authority := manager
	if parts := strings.Split(manager, "+"); len(parts) > 1 {
		authority = parts[1]
	}
	name += "-" + authority
	for names[name] {
		name += "-"
	}
	names[name] = true
	return name
}

// fillLink adds what the source says about the network n to its link l.
func (c *compiler) fillLink(n *network, l *generate.Link) {
	b := n.block
	l.Origin = generate.Origin{ID: b.ID, Features: carriedExcept(b.Features, networkFeatures...)}
	if l.Join = l.Manager == "" && slices.Contains(c.o.Links, l.ClientID); l.Join {
		l.Comments = append(l.Comments, "network "+b.ID+": the slice has it already, and gets these interfaces too")
	}
	l.LAN = len(l.Interfaces) > 2 && !l.Join
	l.Ports = b.text("outports")
	if l.Range = n.prefix; n.prefix.IsValid() && strings.Contains(b.text("cidr"), "*") {
		l.Comments = append(l.Comments, fmt.Sprintf("network %s: %s is the first range of %s that no other network uses", b.ID, n.prefix, b.text("cidr")))
	}
	if n.isPublic {
		l.Comments = append(l.Comments, "network "+b.ID+": outbound, so its interfaces ask for public addresses; the nodes also reach each other over this link")
	}
	for i := range b.Features {
		switch f := &b.Features[i]; f.Name {
		case "router":
			c.addRoute(l, f)
		case "proxy_host":
			l.Proxy = c.parseProxy(f)
		}
	}
}

// addRoute reads a feature router = 'range,system'.
func (c *compiler) addRoute(l *generate.Link, f *Feature) {
	to, system, _ := strings.Cut(f.Value.Text, ",")
	p, err := netip.ParsePrefix(strings.TrimSpace(to))
	if err != nil {
		c.refuse(rspec.BadArgs, f.Place, "write a range and a system, such as '10.0.0.0/8,gateway'", "router %.80q names no range of addresses", f.Value.Text)
		return
	}
	system = strings.TrimSpace(system)
	via := ""
	for i := range l.Interfaces {
		node, _, _ := strings.Cut(l.Interfaces[i], ":")
		if id, _, _ := splitNode(node); id == system {
			via = node
			break
		}
	}
	if via == "" && l.Join && c.afterExisting[system] > 0 {
		return // the link has the route already
	}
	if via == "" {
		c.refuse(rspec.BadArgs, f.Place, "deploy such a node with an interface on this network, or leave the router out", "router %.80q: no node of system %.80q is on the network", f.Value.Text, system)
		return
	}
	l.Routes = append(l.Routes, generate.Route{To: p.Masked(), Via: via})
	l.Comments = append(l.Comments, fmt.Sprintf("router: %s is the first node of system %s on this network", via, system))
}

// splitNode splits the client_id of a node into its system and number.
func splitNode(name string) (system string, number int, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return "", 0, false
	}
	number, err := strconv.Atoi(name[i+1:])
	return name[:i], number, err == nil && number >= 0 && number < 1<<30
}

// parseProxy reads a feature proxy_host = 'user@host:port'. It returns nil after a mistake.
func (c *compiler) parseProxy(f *Feature) *generate.Proxy {
	at := strings.LastIndexByte(f.Value.Text, '@')
	if at < 0 {
		c.refuse(rspec.BadArgs, f.Place, "write user@host or user@host:port", "proxy_host names no user")
		return nil
	}
	user := f.Value.Text[:at]
	host, port, hasPort := strings.Cut(f.Value.Text[at+1:], ":")
	p := &generate.Proxy{User: user, Host: host}
	n, err := strconv.ParseUint(cmp.Or(port, "22"), 10, 16)
	isName := func(s string) bool { return isWord(s) && !strings.ContainsAny(s, "@:/") }
	if p.Port = int(n); !isName(user) || !isName(host) || hasPort && (err != nil || n == 0) {
		c.refuse(rspec.BadArgs, f.Place, "write user@host or user@host:port", "proxy_host has no user, no host, or a wrong port")
		return nil
	}
	return p
}

// isWord reports whether s is a short text without blanks and control characters.
func isWord(s string) bool {
	return s != "" && len(s) <= 256 && !strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) })
}

// carriedExcept returns the features that are not in names, as texts.
func carriedExcept(list []Feature, names ...string) []generate.Feature {
	return carried("", slices.DeleteFunc(slices.Clone(list), func(f Feature) bool { return slices.Contains(names, f.Name) }))
}
