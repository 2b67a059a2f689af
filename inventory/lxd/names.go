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
// host name on the first link that it shares with n, and on each link the alias NAME-LINK.
func (n *node) hosts(nodes map[string]*node) (lines []string) {
	mine, err := n.interfaces()
	if err != nil {
		return nil
	}
	links := map[string]int{}
	for k, i := range mine {
		if key := i.linkKey(); key != "" {
			if _, twice := links[key]; !twice {
				links[key] = k
			}
		}
	}
	if len(links) == 0 {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		other := nodes[id]
		theirs, err := other.interfaces()
		if err != nil || id == n.Name || !agent.IsHostname(other.Hostname) {
			continue
		}
		theirs = slices.DeleteFunc(theirs, func(i iface) bool {
			_, common := links[i.linkKey()]
			return !common || len(i.Addresses) == 0
		})
		slices.SortStableFunc(theirs, func(a, b iface) int { return links[a.linkKey()] - links[b.linkKey()] })
		for k, i := range theirs {
			var names []string
			short := shortName(other.Hostname)
			if names = append(names, other.Hostname); k > 0 {
				names = nil
			} else if short != other.Hostname {
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
	lines = n.hosts(nodes)
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
	unlock, err := w.folder.lock()
	if err != nil {
		return err
	}
	defer unlock()
	w.allocating.Lock()
	existing := w.listed
	w.allocating.Unlock()
	for k := range existing {
		i := &existing[k]
		other := i.node()
		if other == nil || other.lost || other.Name == n.Name || other.Power != provider.On || !i.isMade() {
			continue
		}
		known := i.facts().Known
		if later, ok := w.settled.Load(other.Name); ok {
			known = later.(settled).known
		}
		if lines := other.hosts(nodes); hashOf(lines) == known {
			continue
		}
		if waiting, err := w.folder.read(other.Name); waiting != nil || err != nil {
			continue // it learns the names when it is settled
		}
		if err := w.folder.write(&pending{Node: *other, Since: time.Now().UTC(), Refresh: true}); err != nil {
			return err
		}
	}
	return nil
}
