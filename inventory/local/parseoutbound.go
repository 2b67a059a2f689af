package local

import (
	"net/netip"

	"go.yaml.in/yaml/v3"
)

// maxServers is how many name servers a resolver asks, too.
const maxServers = 3

// yes reads yes or no, also as other programs write them.
func (p *parser) yes(n *yaml.Node, what string) bool {
	switch {
	case n.Kind != yaml.ScalarNode:
	case n.Value == "yes" || n.Value == "true":
		return true
	case n.Value == "no" || n.Value == "false":
		return false
	}
	p.wrong(n, "%s is %q and must be yes or no", what, value(n))
	return false
}

func (p *parser) blocks(n *yaml.Node) {
	p.OutboundBlock = p.networks(n, "outbound_block")
	for _, net := range p.OutboundBlock {
		if !net.Addr().Is4() {
			p.wrong(n, "outbound_block has %s, but nodes reach nothing outside over IPv6; drop it", net)
		}
	}
}

// maxAppearances is as how many addresses one host is seen.
const maxAppearances = 8

func (p *parser) appearances(n *yaml.Node) {
	p.OutboundAddresses = nil
	items := p.items(n, "outbound_addresses")
	if len(items) > maxAppearances {
		p.wrong(n, "outbound_addresses has %d addresses, at most %d can be", len(items), maxAppearances)
		return
	}
	for _, item := range items {
		item = deref(item)
		a, err := netip.ParseAddr(item.Value)
		if item.Kind != yaml.ScalarNode || err != nil || !a.Is4() || a.IsUnspecified() || a.IsMulticast() {
			p.wrong(item, "outbound_addresses has %q, which is no IPv4 address as which nodes could be seen outside", value(item))
			continue
		}
		p.OutboundAddresses = append(p.OutboundAddresses, a)
	}
}

func (p *parser) servers(n *yaml.Node) {
	p.DNS = nil
	items := p.items(n, "dns")
	if len(items) > maxServers {
		p.wrong(n, "dns has %d name servers, at most %d can be", len(items), maxServers)
		return
	}
	for _, item := range items {
		item = deref(item)
		a, err := netip.ParseAddr(item.Value)
		if item.Kind != yaml.ScalarNode || err != nil || a.IsUnspecified() || a.IsMulticast() {
			p.wrong(item, "dns has %q, which is no address of a name server", value(item))
			continue
		}
		p.DNS = append(p.DNS, a)
	}
}
