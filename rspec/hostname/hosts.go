package hostname

import (
	"net/netip"
	"slices"
	"strings"
)

// Peer is a node as the nodes of its slice know it.
type Peer struct {
	ClientID string
	// Hostname is the host name, or a DNS name whose first part that is. It may be empty.
	Hostname string
	// Address reaches the node from nodes that share no link with it; invalid for none.
	Address    netip.Addr
	Interfaces []Interface
	// Names are the names of the node. SetNames sets them.
	Names []string
}

// Interface is an interface of a Peer.
type Interface struct {
	// Link is the client_id of the link.
	Link      string
	Addresses []netip.Addr
	// Aliases are the names of the node on the link. SetNames sets them.
	Aliases []string
}

// SetNames sets the Names of the nodes of a slice and the Aliases of their interfaces. If several nodes would have a
// name, the first one gets it: as its host name, else as the first part of its host name, else as its client_id.
func SetNames(peers []Peer) {
	owner := map[string]int{} // of names in lower case
	claim := func(i int, name string) {
		name = lower(name)
		if _, taken := owner[name]; !taken {
			owner[name] = i
		}
	}
	ids := map[string]int{} // client_ids in lower case
	for i := range peers {
		ids[lower(peers[i].ClientID)]++
		if IsName(peers[i].Hostname) {
			claim(i, peers[i].Hostname)
		}
	}
	for i := range peers {
		if short := Short(peers[i].Hostname); IsName(short) {
			claim(i, short)
		}
	}
	for i := range peers {
		if id := peers[i].ClientID; IsName(id) && ids[lower(id)] == 1 {
			claim(i, id)
		}
	}
	for i := range peers {
		p := &peers[i]
		p.Names = nil
		for _, name := range []string{p.Hostname, Short(p.Hostname), p.ClientID} {
			if of, ok := owner[lower(name)]; ok && of == i && !slices.Contains(p.Names, name) {
				p.Names = append(p.Names, name)
			}
		}
	}
	setAliases(peers, owner)
}

// setAliases sets the aliases NODE-LINK of the interfaces. It leaves out aliases that are names of nodes, and those
// that could mean two nodes or links. owner has the names of nodes in lower case.
func setAliases(peers []Peer, owner map[string]int) {
	type end struct {
		node int
		link string
	}
	ends := map[string]end{}
	ambiguous := map[string]bool{}
	for i := range peers {
		for k := range peers[i].Interfaces {
			x := &peers[i].Interfaces[k]
			x.Aliases = nil
			for _, name := range peers[i].Names {
				alias := name + "-" + x.Link
				key := lower(alias)
				if _, taken := owner[key]; taken || strings.Contains(name, ".") || x.Link == "" || len(x.Addresses) == 0 || !IsName(alias) {
					continue
				}
				here := end{i, x.Link}
				if other, ok := ends[key]; ok && other != here {
					ambiguous[key] = true
				}
				ends[key] = here
				x.Aliases = append(x.Aliases, alias)
			}
		}
	}
	for i := range peers {
		for k := range peers[i].Interfaces {
			x := &peers[i].Interfaces[k]
			x.Aliases = slices.DeleteFunc(x.Aliases, func(alias string) bool { return ambiguous[lower(alias)] })
		}
	}
}

// Short returns the first label of a host name.
func Short(host string) string {
	short, _, _ := strings.Cut(host, ".")
	return short
}

// Lines returns at most limit lines of /etc/hosts for a node with the given interfaces. A peer has its names
// at one address of each family: the first one on the first common link on which the node has this family,
// too. Without such an address, it is the first one on a common link, or the peer's Address.
func Lines(peers []Peer, own []Interface, limit int) []string {
	var lines, more []string // more has aliases only
	add := func(to *[]string, a netip.Addr, names ...string) {
		if len(names) > 0 {
			*to = append(*to, a.String()+"\t"+strings.Join(names, " "))
		}
	}
	for i := range peers {
		p := &peers[i]
		v4, v6 := p.address(own, netip.Addr.Is4, true), p.address(own, netip.Addr.Is6, true)
		if !v4.IsValid() && !v6.IsValid() {
			v4, v6 = p.address(own, netip.Addr.Is4, false), p.address(own, netip.Addr.Is6, false)
		}
		if !v4.IsValid() && !v6.IsValid() && p.Address.IsValid() {
			add(&lines, p.Address, p.Names...)
		}
		for k := range p.Interfaces {
			x := &p.Interfaces[k]
			for _, a := range x.Addresses {
				switch {
				case a == v4:
					add(&lines, a, slices.Concat(p.Names, x.Aliases)...)
					v4 = netip.Addr{}
				case a == v6:
					add(&lines, a, slices.Concat(p.Names, x.Aliases)...)
					v6 = netip.Addr{}
				default:
					add(&more, a, x.Aliases...)
				}
			}
		}
	}
	return append(lines, more...)[:min(len(lines)+len(more), limit)]
}

// address returns the peer's first address of a family on the first common link that has one. If both is
// true, the node must have an address of this family on the link, too.
func (p *Peer) address(own []Interface, isFamily func(netip.Addr) bool, both bool) netip.Addr {
	for _, o := range own {
		if both && !slices.ContainsFunc(o.Addresses, isFamily) {
			continue
		}
		for k := range p.Interfaces {
			if p.Interfaces[k].Link != o.Link {
				continue
			}
			if n := slices.IndexFunc(p.Interfaces[k].Addresses, isFamily); n >= 0 {
				return p.Interfaces[k].Addresses[n]
			}
		}
	}
	return netip.Addr{}
}
