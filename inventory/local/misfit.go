package local

import (
	"fmt"
	"net/netip"
	"strings"
)

// Misfits returns the conflicts between settings, each with a remedy. It does not compare
// the settings with the inventory.
func (s *Settings) Misfits() []string {
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
			all = append(all, fmt.Sprintf("%s: without effect as long as outbound is no; set outbound: yes in the settings and in inventory.yaml, or drop it", strings.Join(idle, " and ")))
		}
	}
	address, err := netip.ParseAddr(s.PublicHost)
	here := s.PublicHost == defaultHost || err == nil && address.IsLoopback()
	switch {
	case s.Listen.IsLoopback() && !here:
		all = append(all, fmt.Sprintf("listen is %s, so nobody comes in at public_host %s; set listen to an address of this host, or leave it empty", s.Listen, s.PublicHost))
	case s.Listen.IsValid() && !s.Listen.IsUnspecified() && !s.Listen.IsLoopback() && here:
		all = append(all, fmt.Sprintf("public_host is %s, and listen is %s, so logins do not work as they are told; set public_host: %s", s.PublicHost, s.Listen, s.Listen))
	}
	if s.GatewayPort != 0 && s.Publish == Direct {
		all = append(all, "gateway_port is not told to anybody as long as publish is direct; set publish: both, or drop it")
	}
	return all
}
