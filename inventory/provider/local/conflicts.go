package local

import (
	"fmt"
	"net/netip"
	"strings"
)

// Conflicts returns a text for each conflict between settings, with a remedy. It does
// not compare the settings with the inventory.
func (s *Settings) Conflicts() []string {
	var all []string
	if !s.Outbound {
		var idle []string
		if len(s.OutboundBlock) > 0 {
			idle = append(idle, "outbound_block")
		}
		if len(s.OutboundAddresses) > 0 {
			idle = append(idle, "outbound_addresses")
		}
		if len(s.DNS) > 0 {
			idle = append(idle, "dns")
		}
		if len(idle) > 0 {
			all = append(all, fmt.Sprintf("%s: no effect while outbound is no; set outbound: yes, or remove the line", strings.Join(idle, " and ")))
		}
	}
	address, err := netip.ParseAddr(s.PublicHost)
	here := s.PublicHost == defaultHost || err == nil && address.IsLoopback()
	switch {
	case s.Listen.IsLoopback() && !here:
		all = append(all, fmt.Sprintf("listen is %s, so no user can connect to public_host %s; set listen to an address of this host, or leave it empty", s.Listen, s.PublicHost))
	case s.Listen.IsValid() && !s.Listen.IsUnspecified() && !s.Listen.IsLoopback() && here:
		all = append(all, fmt.Sprintf("public_host is %s, but listen is %s, so the logins that experimenters get do not work; set public_host: %s", s.PublicHost, s.Listen, s.Listen))
	}
	if s.GatewayPort != 0 && s.Publish == Direct {
		all = append(all, "gateway_port: no effect while publish is direct, because experimenters do not get the gateway's address; set publish: both, or remove the line")
	}
	return all
}
