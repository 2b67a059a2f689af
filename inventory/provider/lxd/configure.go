package lxd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/node/inside"
	"patchbay/rspec/hostname"
)

const (
	configureTime = 90 * time.Second
	maxAddresses  = 16 // of the first interface
)

// configure starts the node if it is off, and gives it its accounts, addresses and host keys. It sets the facts that the
// node reports: host keys, addresses, login, the names that it knows, and its problem.
func (w *worker) configure(ctx context.Context, n *node, i *instance, f *facts) error {
	accounts, err := n.accounts()
	if err != nil {
		return err
	}
	private, public, err := w.hostKeys(n.Name)
	if err != nil {
		return err
	}
	config := inside.Config{
		Configuration: agent.Configuration{Hostname: cmp.Or(hostname.Short(n.Hostname), "node"), Accounts: accounts},
		HostKeys:      private,
	}
	var known string
	if config.Hosts, known, err = w.knownNodes(ctx, n); err != nil {
		return err
	}
	mine, err := n.interfaces()
	if err != nil {
		return err
	}
	i.setNames(mine)
	for _, m := range mine {
		if d := i.Devices[m.name]; d["hwaddr"] == m.mac {
			p, err := m.netem()
			if err != nil {
				return err
			}
			config.Interfaces = append(config.Interfaces, inside.Interface{Name: m.name, MAC: m.mac, MTU: linkMTU, Addresses: m.Addresses, Delay: p.delay, Loss: p.loss})
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	if i.Status != statusRunning {
		if err := w.switchTo(ctx, i.Name, "start"); !errors.Is(err, errAgain) {
			return fmt.Errorf("the node cannot be started: %w", err)
		}
	}
	var r inside.Report
	err = w.client.exec(ctx, i.Name, command{words: []string{"configure"}, input: bytes.NewReader(text), limit: configureTime, output: decode(&r)})
	if errors.Is(err, errLate) {
		return fmt.Errorf("the node cannot be configured: %w", err)
	}
	if err != nil {
		return fmt.Errorf("the node cannot be configured: %v", err) // no apiError: another attempt may succeed
	}
	f.HostKeys, f.Addresses, f.Known, f.Problem = public, nil, known, oneLine(strings.Join(r.Problems, "; "))
	if w.Logins != loginsNetwork {
		return nil // users log in at the port of the member
	}
	if f.Addresses, err = w.acceptAddresses(ctx, n, r.Addresses); err != nil {
		return err
	}
	if f.Login = ""; len(f.Addresses) == 0 {
		return fmt.Errorf("the node has no address of its own in the network %s yet", w.Network)
	}
	f.Login = net.JoinHostPort(f.Addresses[0], "22")
	return nil
}

// acceptAddresses returns those of the reported addresses that may be the node's: they are in the network,
// and no other node has them. It records them in w.addresses. Root of the node chooses what it reports.
func (w *worker) acceptAddresses(ctx context.Context, n *node, reported []string) (accepted []string, err error) {
	own, err := w.client.ownAddresses(ctx, w.Network)
	if err != nil {
		return nil, err
	}
	w.allocating.Lock()
	defer w.allocating.Unlock()
	existing, err := w.instances(ctx, true)
	if err != nil {
		return nil, err
	}
	taken := maps.Clone(w.addresses)
	for k := range existing {
		if other := existing[k].node(); other != nil {
			for _, a := range existing[k].facts().Addresses {
				if ip, err := netip.ParseAddr(a); err == nil {
					taken[ip] = other.Name
				}
			}
		}
	}
	for _, a := range reported {
		ip, err := netip.ParseAddr(a)
		if ip = ip.WithZone(""); err != nil || !ip.IsGlobalUnicast() || ip.IsLinkLocalUnicast() || len(accepted) == maxAddresses {
			continue
		}
		isInside := func(p netip.Prefix) bool { return p.Contains(ip) && p.Addr() != ip }
		if holder := taken[ip]; holder != "" && holder != n.Name || len(own) > 0 && !slices.ContainsFunc(own, isInside) {
			w.logf("%s: it reports the address %s, which is not its own", n.Name, ip)
			continue
		}
		w.addresses[ip] = n.Name
		accepted = append(accepted, ip.String())
	}
	return accepted, nil
}
