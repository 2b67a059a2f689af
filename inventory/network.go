package inventory

import (
	"net/netip"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/am/urn"
	"patchbay/schemas/yamlfile"
)

func (s *site) readLinks(n *yaml.Node) {
	for _, item := range s.Items(n, "links") {
		l := &Link{Type: "ethernet"}
		bad := s.Mistakes()
		s.Keys(item, "a link",
			yamlfile.Into("name", &l.Name, s.name),
			yamlfile.Into("type", &l.Type, s.name),
			yamlfile.Into("capacity", &l.Capacity, s.rate),
		)
		switch {
		case l.Name == "" && s.Mistakes() > bad:
		case l.Name == "":
			s.Missing(item, "a link", "name")
		case s.links[l.Name] != nil:
			s.Wrong(item, "there are two links %q; rename one", l.Name)
		default: // also a link with other mistakes, so that references to it are valid
			l.Index, l.URN = len(s.Links), s.urnOf(item, urn.Link, l.Name)
			if key := l.URN.Key(); s.linkURNs[key] {
				s.Wrong(item, "there are two links %s; rename one", l.URN)
			} else {
				s.linkURNs[key] = true
			}
			s.links[l.Name] = l
			s.Links = append(s.Links, l)
		}
	}
}

// maxTag is the largest usable VLAN tag: 4095 is reserved.
const maxTag = 4094

func (s *site) readVLANs(n *yaml.Node) {
	for _, item := range s.Texts(n, "vlans") {
		from, to, isRange := strings.Cut(item.Value, "..")
		if !isRange {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || first < 1 || last > maxTag || last < first {
			s.Wrong(item, "vlans: %.80q is neither a tag from 1 to %d nor a range of tags; write 250 or 100..199, for example", item.Value, maxTag)
			continue
		}
		for tag := first; tag <= last; tag++ {
			if s.tags[tag] != "" {
				s.Wrong(item, "vlans: the tag %d is listed twice; remove one", tag)
				break
			}
			s.tags[tag] = "vlans"
			s.VLANs = append(s.VLANs, tag)
		}
	}
}

func (s *site) readSharedVLANs(n *yaml.Node) {
	for _, item := range s.Items(n, "shared_vlans") {
		v := &SharedVLAN{}
		bad := s.Mistakes()
		s.Keys(item, "a shared VLAN",
			yamlfile.Into("name", &v.Name, s.name),
			yamlfile.With("tag", func(n *yaml.Node) {
				if v.Tag = int(s.Whole(n, "tag")); v.Tag < 1 || v.Tag > maxTag {
					s.Wrong(n, "tag must be from 1 to %d", maxTag)
				}
			}),
			yamlfile.Into("description", &v.Description, s.Text),
			yamlfile.Into("restricted", &v.Restricted, s.flag),
		)
		switch {
		case s.Mistakes() > bad:
		case v.Name == "":
			s.Missing(item, "a shared VLAN", "name")
		case v.Tag == 0:
			s.Missing(item, "shared VLAN "+v.Name, "tag")
		case s.shared[v.Name] != nil:
			s.Wrong(item, "there are two shared VLANs %q; rename one", v.Name)
		case s.tags[v.Tag] == "vlans":
			s.Wrong(item, "shared VLAN %s has the tag %d, which is also in vlans, the tags of private links; remove it there", v.Name, v.Tag)
		case s.tags[v.Tag] != "":
			s.Wrong(item, "shared VLANs %s and %s have the same tag %d; give each its own", s.tags[v.Tag], v.Name, v.Tag)
		default:
			s.tags[v.Tag] = v.Name
			s.shared[v.Name] = v
			s.SharedVLANs = append(s.SharedVLANs, v)
		}
	}
}

// defaultLinkAddresses is used when a file has no link_addresses.
var defaultLinkAddresses = netip.MustParsePrefix("10.128.0.0/9")

// privateNetworks are the networks that links may use without hiding public hosts
// from nodes.
var privateNetworks = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
}

// readLinkAddresses reads the range for addresses of links: a private network with a prefix of at most 24 bits, so
// that it has room for one link.
func (s *site) readLinkAddresses(n *yaml.Node) {
	p, err := netip.ParsePrefix(n.Value)
	switch {
	case err != nil || !p.Addr().Is4():
		s.Wrong(n, "link_addresses must be an IPv4 network such as %s", defaultLinkAddresses)
		return
	case p != p.Masked():
		s.Wrong(n, "link_addresses %s is an address in a network; write the network, %s", p, p.Masked())
		return
	case p.Bits() > 24:
		s.Wrong(n, "link_addresses %s is too small, because each link gets a /24 or more; write a network with a prefix of at most 24 bits, such as %s", p, defaultLinkAddresses)
		return
	}
	for _, private := range privateNetworks {
		if private.Bits() <= p.Bits() && private.Contains(p.Addr()) {
			s.LinkAddresses = p
			return
		}
	}
	s.Wrong(n, "link_addresses %s has public addresses, which nodes could then no longer reach; write a private network such as %s", p, defaultLinkAddresses)
}

// maxAddresses is the maximum number of public addresses. It protects the memory from a
// mistyped range.
const maxAddresses = 1 << 16

// reserved are addresses that no node can have.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("224.0.0.0/3"),
}

// isUsableAddress reports whether a node can have the address a. If not, it records a mistake, whose text begins with
// prefix.
func (s *site) isUsableAddress(n *yaml.Node, prefix string, a netip.Addr) bool {
	for _, p := range reserved {
		if p.Contains(a) {
			s.Wrong(n, "%s%s is in %s, whose addresses cannot reach a node; remove it", prefix, a, p)
			return false
		}
	}
	if s.LinkAddresses.Contains(a) {
		s.Wrong(n, "%s%s is in %s, the range for addresses of links; remove it, or set link_addresses to another private network", prefix, a, s.LinkAddresses)
		return false
	}
	return true
}

func (s *site) readPublicAddresses(n *yaml.Node) {
	for _, item := range s.Texts(n, "public_addresses") {
		from, to, isRange := strings.Cut(item.Value, "..")
		if !isRange {
			to = from
		}
		first, err1 := netip.ParseAddr(from)
		last, err2 := netip.ParseAddr(to)
		if err1 != nil || err2 != nil || !first.Is4() || !last.Is4() || last.Less(first) {
			s.Wrong(item, "public_addresses: %.80q is neither an IPv4 address nor a range of them; write 192.0.2.7 or 192.0.2.10..192.0.2.20, for example", item.Value)
			continue
		}
		for a := first; a.IsValid() && !last.Less(a); a = a.Next() {
			if len(s.PublicAddresses) == maxAddresses {
				s.Wrong(item, "public_addresses: with %q there are more than the %d addresses that an inventory may have", item.Value, maxAddresses)
				return
			}
			if s.public[a] != "" {
				s.Wrong(item, "public_addresses: %s is listed twice; remove one", a)
				break
			}
			if !s.isUsableAddress(item, "public_addresses: ", a) {
				break
			}
			s.public[a] = "public_addresses"
			s.PublicAddresses = append(s.PublicAddresses, a)
		}
	}
}
