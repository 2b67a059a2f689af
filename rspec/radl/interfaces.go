package radl

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"patchbay/rspec"
)

// numbered splits the name of a feature such as net_interface.0.ip with the prefix net_interface
// into 0 and ip.
func numbered(name, prefix string) (index int, rest string, ok bool) {
	name, ok = strings.CutPrefix(name, prefix+".")
	number, rest, dot := strings.Cut(name, ".")
	index, err := strconv.Atoi(number)
	return index, rest, ok && dot && err == nil && index >= 0
}

// interfacesOf returns the interfaces of a system's nodes, by index.
func (c *compiler) interfacesOf(b *Block) (list []netInterface) {
	byIndex := map[int]int{}
	for i := range b.Features {
		f := &b.Features[i]
		index, rest, ok := numbered(f.Name, "net_interface")
		if !ok {
			continue
		}
		at, found := byIndex[index]
		if !found {
			at = len(list)
			byIndex[index] = at
			list = append(list, netInterface{index: index, at: f.Place})
		}
		c.readInterface(&list[at], f, rest)
	}
	slices.SortFunc(list, func(a, b netInterface) int { return cmp.Compare(a.index, b.index) })
	return list
}

// interfaceFeatures are those that have a place in a request.
var interfaceFeatures = []string{"connection", "ip", "ipv6", "dns_name", "additional_dns_names", "dns.i.name"}

func (c *compiler) readInterface(in *netInterface, f *Feature, name string) {
	text := f.Value.Text
	switch numberedName.ReplaceAllString(name, "dns.i.") {
	case "connection":
		in.connection, in.at = text, f.Place
	case "ip", "ipv6":
		if text == "" {
			return
		}
		a, err := netip.ParseAddr(text)
		if a = a.Unmap(); err != nil || !isHost(a) {
			c.refuse(rspec.BadArgs, f.Place, "write one such as 10.0.0.1", "%s: %.80q is not the address of a node", f.Name, text)
			return
		}
		bits := 24
		if a.Is6() {
			bits = 64
		}
		in.fixed = append(in.fixed, netip.PrefixFrom(a, bits))
	case "dns_name", "additional_dns_names", "dns.i.name":
		list := f.Value.List
		if f.Value.Kind == Text && text != "" {
			list = strings.Split(text, ",")
		}
		for _, item := range list {
			item = strings.Replace(item, "@", ".", 1) // name@zone
			if item = strings.TrimSpace(item); !rspec.IsDNSName(strings.ReplaceAll(item, "#N#", "9999")) {
				c.refuse(rspec.BadArgs, f.Place, "write one such as node-#N#.example.org, of letters, digits, hyphens and dots", "%s: %.80q is not a DNS name", f.Name, item)
				continue
			}
			in.names = append(in.names, item)
		}
	}
}

// maxNames limits the DNS names of one node.
const maxNames = 64

// countNames refuses too many DNS names.
func (c *compiler) countNames(s *system) {
	count := 0
	for _, in := range s.interfaces {
		count += len(in.names)
	}
	if count > maxNames {
		c.refuse(rspec.TooBig, s.block.Place, "leave some out", "the nodes of system %.80q have more than %d DNS names", s.block.ID, maxNames)
	}
}

func isHost(a netip.Addr) bool {
	return a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// checkAddresses gives fixed addresses the prefix length of their network, and refuses those
// that no node can have.
func (c *compiler) checkAddresses(in *netInterface) {
	p := in.network.prefix
	for i, a := range in.fixed {
		if p.IsValid() && p.Addr().BitLen() == a.Addr().BitLen() {
			a = netip.PrefixFrom(a.Addr(), p.Bits())
			in.fixed[i] = a
			if !p.Contains(a.Addr()) {
				c.warn(in.at, "take one of the range", "the address %s is not in the range %s of network %.80q", a.Addr(), p, in.network.block.ID)
			}
		}
		if a.Addr().Is4() && a.Bits() <= 30 && (a.Addr() == a.Masked().Addr() || a.Addr() == rspec.LastAddress(a.Masked())) {
			c.refuse(rspec.BadArgs, in.at, "take another one", "%s is the address or the broadcast address of the whole network %s", a.Addr(), a.Masked())
		}
	}
}

// checkFixed refuses fixed addresses that several nodes would have.
func (c *compiler) checkFixed() {
	type address struct {
		network *network
		addr    netip.Addr
	}
	used := map[address]bool{}
	for _, x := range c.deployed {
		if !c.o.Work.Spend(len(x.system.interfaces)) {
			return
		}
		for _, in := range x.system.interfaces {
			for _, a := range in.fixed {
				key := address{in.network, a.Addr()}
				if x.first+x.Count > 1 || used[key] {
					c.refuse(rspec.BadArgs, x.Place, "leave the address out, and give the network a cidr", "several nodes would have the address %s", a.Addr())
				}
				used[key] = true
				in.network.taken[a.Addr()] = true
			}
		}
	}
}
