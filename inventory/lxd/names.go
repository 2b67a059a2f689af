package lxd

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"patchbay/inventory/local/agent"
	"patchbay/inventory/provider"
)

// maxHosts bounds the lines of /etc/hosts.
const maxHosts = 20000

// hosts returns lines of /etc/hosts: the names of the other nodes on the links of n. A node has its
// host name on the first link that it shares with n, and on each link the alias NAME-LINK. all has the
// interfaces of nodes.
func (n *node) hosts(nodes map[string]*node, all ends) (lines []string) {
	mine, err := n.interfaces()
	if err != nil {
		return nil
	}
	links := map[string]int{}
	theirs := map[string][]iface{} // by node
	for k, i := range mine {
		key := i.linkKey()
		if _, twice := links[key]; twice || key == "" {
			continue
		}
		links[key] = k
		for _, other := range all[key] {
			if other.node != n.Name && len(other.Addresses) > 0 {
				theirs[other.node] = append(theirs[other.node], other)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(theirs)) {
		host := nodes[id].Hostname
		if !agent.IsHostname(host) {
			continue
		}
		for k, i := range theirs[id] { // in the order of links of n
			var names []string
			short := shortName(host)
			if names = append(names, host); k > 0 {
				names = nil
			} else if short != host {
				names = append(names, short)
			}
			if alias := short + "-" + i.Link; agent.IsHostname(alias) {
				names = append(names, alias)
			}
			address, err := netip.ParsePrefix(i.Addresses[0])
			if err == nil && len(names) > 0 && len(lines) < maxHosts {
				lines = append(lines, address.Addr().String()+" "+strings.Join(names, " "))
			}
		}
	}
	return lines
}

// knownNodes returns the lines of hosts for the nodes that exist now, and their hash; both are empty if
// the node has no link. The cluster's part may be as old as listTime.
func (w *worker) knownNodes(ctx context.Context, n *node) (lines []string, hash string, err error) {
	if len(n.Interfaces) == 0 {
		return nil, "", nil
	}
	nodes, err := w.currentNodes(ctx)
	if err != nil {
		return nil, "", err
	}
	lines = n.hosts(nodes, endsOf(nodes))
	return lines, hashOf(lines), nil
}

// currentNodes returns the nodes of the cluster's list, which may be old, those that this worker has
// settled since, and those that are waiting.
func (w *worker) currentNodes(ctx context.Context) (map[string]*node, error) {
	w.allocating.Lock()
	existing, err := w.instances(ctx, true)
	w.allocating.Unlock()
	if err != nil {
		return nil, err
	}
	nodes, err := w.nodes(existing)
	w.settled.Range(func(id, n any) bool {
		if s := n.(settled); s.node == nil {
			delete(nodes, id.(string))
		} else if nodes[id.(string)] == nil {
			nodes[id.(string)] = s.node
		}
		return true
	})
	return nodes, err
}

// settled is what a worker knows of a node that it has settled; without node if it has removed it.
type settled struct {
	node  *node
	known string // facts.Known
}

func hashOf(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	sum := fnv.New64a()
	for _, line := range lines {
		fmt.Fprintln(sum, line)
	}
	return fmt.Sprintf("%x", sum.Sum64())
}

// refreshPeers requests that the running nodes on the links of n learn its name.
func (w *worker) refreshPeers(ctx context.Context, n *node) error {
	if len(n.Interfaces) == 0 {
		return nil
	}
	nodes, err := w.currentNodes(ctx)
	if err != nil {
		return err
	}
	w.allocating.Lock()
	existing := w.listed
	w.allocating.Unlock()
	mine, err := n.interfaces()
	if err != nil {
		return err
	}
	all, peers := endsOf(nodes), map[string]bool{}
	for _, i := range mine {
		for _, other := range all[i.linkKey()] {
			peers[other.node] = other.node != n.Name
		}
	}
	var old []*node // those that lack a name
	for k := range existing {
		i := &existing[k]
		other := i.node()
		if other == nil || !peers[other.Name] || other.lost || other.Power != provider.On || !i.isMade() {
			continue
		}
		known := i.facts().Known
		if later, ok := w.settled.Load(other.Name); ok {
			known = later.(settled).known
		}
		if hashOf(other.hosts(nodes, all)) != known {
			old = append(old, other)
		}
	}
	unlock, err := w.folder.lock()
	if err != nil {
		return err
	}
	defer unlock()
	for _, other := range old {
		if waiting, err := w.folder.read(other.Name); waiting != nil || err != nil {
			continue // it learns the names when it is settled
		}
		if err := w.folder.write(&pending{Node: *other, Since: time.Now().UTC(), Refresh: true}); err != nil {
			return err
		}
	}
	return nil
}
