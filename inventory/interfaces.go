package inventory

import (
	"net/netip"

	"go.yaml.in/yaml/v3"

	"patchbay/am/urn"
	"patchbay/schemas/yamlfile"
)

// interfaceEntry is an interface that each component of an entry gets.
type interfaceEntry struct {
	Interface
	at *yaml.Node
	// single is the value of a key that is allowed only in an entry of one component;
	// nil without such a key. The field what is that key.
	single *yaml.Node
	what   string
}

func (s *site) readInterfaces(n *yaml.Node) (ports []interfaceEntry) {
	names := map[string]bool{}
	for _, item := range s.Items(n, "interfaces") {
		p := interfaceEntry{Interface: Interface{Role: experimentalRole}, at: item}
		bad := s.Mistakes()
		s.Keys(item, "an interface",
			yamlfile.Into("name", &p.Name, s.name),
			yamlfile.With("link", func(n *yaml.Node) {
				if p.Link = s.links[n.Value]; p.Link == nil {
					s.Unknown(n, "link", namesOf(s.Links, func(l *Link) string { return l.Name }))
				}
			}),
			yamlfile.Into("capacity", &p.Capacity, s.rate),
			yamlfile.OneOf(&s.Reader, "role", &p.Role, controlRole, experimentalRole, mixedRole),
			yamlfile.With("public_ipv4", func(n *yaml.Node) {
				var err error
				if p.PublicIPv4, err = netip.ParseAddr(n.Value); err != nil || !p.PublicIPv4.Is4() {
					s.Wrong(n, "public_ipv4 must be an IPv4 address such as 192.0.2.7")
				} else if other := s.public[p.PublicIPv4]; other == "public_addresses" {
					s.Wrong(n, "public_ipv4 %s is also in public_addresses, which are assigned to nodes that request one; remove it there", p.PublicIPv4)
				} else if other != "" {
					s.Wrong(n, "public_ipv4 %s is that of another interface; give each its own", p.PublicIPv4)
				} else if s.isUsableAddress(n, "public_ipv4 ", p.PublicIPv4) {
					s.public[p.PublicIPv4] = "an interface"
				}
				p.single, p.what = n, "public_ipv4"
			}),
			yamlfile.With("component_id", func(n *yaml.Node) {
				p.URN = s.urn(n, urn.Interface)
				p.single, p.what = n, "component_id"
			}),
		)
		switch {
		case s.Mistakes() > bad:
		case p.Name == "":
			s.Missing(item, "an interface", "name")
		case names[p.Name]:
			s.Wrong(item, "there are two interfaces %q; rename one", p.Name)
		default:
			if p.Capacity == 0 && p.Link != nil {
				p.Capacity = p.Link.Capacity
			}
			names[p.Name] = true
			ports = append(ports, p)
		}
	}
	return ports
}

// addInterfaces adds interfaces to c, which must be complete otherwise, and to their links.
func (s *site) addInterfaces(c *Component, ports []interfaceEntry) {
	for _, p := range ports {
		i := p.Interface
		i.Index, i.Component = len(s.Interfaces), c
		if i.URN.IsZero() {
			i.URN = s.urnOf(p.at, urn.Interface, i.Name)
			i.URN.Name = c.URN.Name + ":" + i.URN.Name
		}
		key := i.URN.Key()
		if s.byPort[key] != nil {
			s.Wrong(p.at, "there are two interfaces %s; rename one", i.URN)
			continue
		}
		s.byPort[key] = &i
		s.Interfaces = append(s.Interfaces, &i)
		c.Interfaces = append(c.Interfaces, &i)
		if i.Link != nil {
			i.Link.Interfaces = append(i.Link.Interfaces, &i)
		}
	}
}
