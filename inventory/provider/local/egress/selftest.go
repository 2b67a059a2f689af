package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"

	"patchbay/inventory/provider/local/netspace"
)

// SelfTest creates a node, a host and an Internet in temporary namespaces, and connects
// them. It checks that allowed traffic passes and forbidden traffic is refused.
func SelfTest() error {
	var spaces []*os.File
	defer func() {
		for _, f := range spaces {
			f.Close()
		}
	}()
	for range 4 {
		f, err := netspace.New()
		if err != nil {
			return err
		}
		spaces = append(spaces, f)
	}
	host, internet, node, space := spaces[0], spaces[1], spaces[2], spaces[3]
	spaces = spaces[:3] // the Router closes the last one
	ours, theirs := netip.MustParsePrefix("192.0.2.2/24"), netip.MustParsePrefix("192.0.2.1/24")
	if err := joinSpaces(host, internet, ours, theirs); err != nil {
		return errors.Join(err, space.Close())
	}
	e, err := start(Options{Instance: "try", Number: 1, Servers: []netip.Addr{theirs.Addr()}, host: host}, space)
	if err != nil {
		return err
	}
	err = e.Attach(context.Background(), 1, node)
	if err == nil {
		err = checkConnection(node, internet, theirs.Addr())
	}
	if err == nil {
		err = netspace.Inside(node, func() error {
			c, err := net.DialTimeout("tcp4", "10.0.0.1:80", tryTime)
			if err == nil {
				c.Close()
			}
			if !errors.Is(err, syscall.EHOSTUNREACH) {
				return fmt.Errorf("a connection to a private network was not refused; result: %v", err)
			}
			return nil
		})
	}
	return errors.Join(err, e.Close())
}

const tryTime = 3 * time.Second

// joinSpaces connects the namespaces of the host and the Internet, and makes the Internet the host's gateway.
func joinSpaces(host, internet *os.File, hostAddress, internetAddress netip.Prefix) error {
	const name = "way0"
	err := netlinkIn(internet, func(h *netlink.Handle) error {
		at := netlink.NewLinkAttrs()
		at.Name, at.HardwareAddr = name, hardware(6, 0)
		pair := netlink.NewVeth(at)
		pair.PeerName, pair.PeerHardwareAddr, pair.PeerNamespace = name, hardware(5, 0), netlink.NsFd(int(host.Fd()))
		if err := h.LinkAdd(pair); err != nil {
			return fmt.Errorf("cannot make a pair of devices: %w", err)
		}
		return configure(h, name, internetAddress, hostAddress.Addr(), hardware(5, 0))
	})
	if err != nil {
		return err
	}
	return netlinkIn(host, func(h *netlink.Handle) error {
		if err := configure(h, name, hostAddress, internetAddress.Addr(), hardware(6, 0)); err != nil {
			return err
		}
		awaitCarrier(h, name)
		l, err := mustLink(h, name)
		if err != nil {
			return err
		}
		return addRoute(h, l, netlink.Route{Gw: internetAddress.Addr().AsSlice()})
	})
}

// checkConnection fails unless the node can connect to a server in the Internet's namespace.
func checkConnection(node, internet *os.File, address netip.Addr) error {
	at := netip.AddrPortFrom(address, 9).String()
	var server net.Listener
	err := netspace.Inside(internet, func() (err error) {
		server, err = net.Listen("tcp4", at)
		return err
	})
	if err != nil {
		return err
	}
	defer server.Close()
	return netspace.Inside(node, func() error {
		c, err := net.DialTimeout("tcp4", at, tryTime)
		if err != nil {
			return fmt.Errorf("no reply from outside to a node's packet: %w", err)
		}
		return c.Close()
	})
}

// Obstacle is something on the host that blocks nodes.
type Obstacle struct{ Message, Remedy string }

// Obstacles returns the filters of the host that drop unknown forwarded packets and have
// no rule for the uplinks of Patchbay. The calling thread must be in the host's network
// namespace. Rules of iptables-legacy cannot be read.
func Obstacles() (all []Obstacle) {
	c, err := nftables.New()
	if err != nil {
		return nil
	}
	chains, err := c.ListChains()
	if err != nil {
		return nil
	}
	for _, chain := range chains {
		if chain.Hooknum == nil || *chain.Hooknum != *nftables.ChainHookForward || chain.Policy == nil || *chain.Policy != nftables.ChainPolicyDrop {
			continue
		}
		family := ""
		switch chain.Table.Family {
		case nftables.TableFamilyIPv4:
			family = "ip"
		case nftables.TableFamilyINet:
			family = "inet"
		default:
			continue // not about traffic from nodes
		}
		if hasRuleForUs(c, chain) {
			continue
		}
		o := Obstacle{Message: fmt.Sprintf("the firewall of this host drops unknown forwarded packets (nftables, table %s %s, chain %s)", family, chain.Table.Name, chain.Name)}
		if chain.Table.Name == "filter" && chain.Name == "FORWARD" {
			o.Remedy = fmt.Sprintf("accept packets of nodes there, which Patchbay's own rules filter: iptables -I FORWARD -i %[1]s+ -j ACCEPT && iptables -I FORWARD -o %[1]s+ -j ACCEPT", devicePrefix)
		} else {
			where := fmt.Sprintf("%s %s %s", family, chain.Table.Name, chain.Name)
			o.Remedy = fmt.Sprintf("accept packets of nodes there, which Patchbay's own rules filter: nft insert rule %[1]s iifname '%[2]s*' accept && nft insert rule %[1]s oifname '%[2]s*' accept", where, devicePrefix)
		}
		all = append(all, o)
	}
	return all
}

func hasRuleForUs(c *nftables.Conn, chain *nftables.Chain) bool {
	rules, err := c.GetRules(chain.Table, chain)
	return err == nil && slices.ContainsFunc(rules, func(r *nftables.Rule) bool {
		return slices.ContainsFunc(r.Exprs, func(e expr.Any) bool {
			cmp, ok := e.(*expr.Cmp)
			return ok && strings.HasPrefix(string(cmp.Data), devicePrefix)
		})
	})
}
