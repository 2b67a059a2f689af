package lxd

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"time"

	"patchbay/inventory/provider"
	"patchbay/rspec/hostname"
)

// maxHosts bounds the lines of /etc/hosts.
const maxHosts = 20000

// ownAddress is the address of a node's own names if it has no link.
var ownAddress = netip.AddrFrom4([4]byte{127, 0, 1, 1})

// sliceNames are the names of the nodes of one slice.
type sliceNames struct {
	peers []hostname.Peer
	nodes map[string]int // places in peers by the name of the node
}

// namesIn returns the names of the nodes of a slice.
func namesIn(nodes map[string]*node, slice string) *sliceNames {
	s := &sliceNames{nodes: map[string]int{}}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		if n := nodes[id]; n.SliceURN == slice {
			s.nodes[id] = len(s.peers)
			s.peers = append(s.peers, n.peer())
		}
	}
	hostname.SetNames(s.peers)
	return s
}

// peer returns the node as the others of its slice know it, with those interfaces that are on links.
func (n *node) peer() hostname.Peer {
	p := hostname.Peer{ClientID: n.ClientID, Hostname: n.Hostname}
	mine, _ := n.interfaces() // a mistake is refused elsewhere
	for _, i := range mine {
		if i.linkKey() == "" {
			continue
		}
		x := hostname.Interface{Link: i.Link}
		for _, a := range i.Addresses {
			if prefix, err := netip.ParsePrefix(a); err == nil {
				x.Addresses = append(x.Addresses, prefix.Addr())
			}
		}
		p.Interfaces = append(p.Interfaces, x)
	}
	return p
}

// hosts returns lines of /etc/hosts: the names of the node itself, and of the others on its links.
func (s *sliceNames) hosts(id string) []string {
	place, ok := s.nodes[id]
	if !ok {
		return nil
	}
	own := s.peers[place].Interfaces
	var known []hostname.Peer
	for k, p := range s.peers {
		if k == place {
			p.Address = ownAddress
		} else {
			p.Interfaces = slices.DeleteFunc(slices.Clone(p.Interfaces), func(i hostname.Interface) bool {
				return !slices.ContainsFunc(own, func(o hostname.Interface) bool { return o.Link == i.Link })
			})
		}
		known = append(known, p)
	}
	return hostname.Lines(known, own, maxHosts)
}

// knownNodes returns the lines of hosts for the nodes that exist now, and their hash. The cluster's part may
// be as old as listTime.
func (w *worker) knownNodes(ctx context.Context, n *node) (lines []string, hash string, err error) {
	nodes := map[string]*node{n.Name: n}
	if len(n.Interfaces) > 0 {
		if nodes, err = w.currentNodes(ctx); err != nil {
			return nil, "", err
		}
		nodes[n.Name] = n
	}
	lines = namesIn(nodes, n.SliceURN).hosts(n.Name)
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
	nodes := nodesOf(existing)
	w.settled.Range(func(id, n any) bool {
		if s := n.(settled); s.node == nil {
			delete(nodes, id.(string))
		} else { // the list may have it as it was before a change
			nodes[id.(string)] = s.node
		}
		return true
	})
	return w.withWaiting(nodes, false)
}

// settled is what a worker knows of a node that it has settled; without node if it has removed it.
type settled struct {
	node  *node
	known string // facts.Known
}

// awaitPeers waits until no node has to learn names, but not long for a slow one.
func (w *worker) awaitPeers(ctx context.Context) {
	for until := time.Now().Add(peersTime); ctx.Err() == nil && time.Now().Before(until); pause(ctx, lookInterval) {
		if _, refreshing, err := w.waiting(); err != nil || !refreshing {
			return
		}
	}
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

// refreshPeers requests that the running nodes on the links of n learn its name, and that those on the links
// that it had before, those of was, forget it.
func (w *worker) refreshPeers(ctx context.Context, n, was *node) error {
	if len(n.Interfaces)+len(was.Interfaces) == 0 {
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
	left, _ := was.interfaces() // a mistake was refused when it was requested
	mine = append(mine, left...)
	all, peers, names := endsOf(nodes), map[string]bool{}, namesIn(nodes, n.SliceURN)
	for _, i := range mine {
		for _, other := range all[i.linkKey()] {
			if other.node != n.Name {
				peers[other.node] = true
			}
		}
	}
	var outdated []*node // those that lack a name
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
		if hashOf(names.hosts(other.Name)) != known {
			outdated = append(outdated, other)
		}
	}
	unlock, err := w.folder.lock()
	if err != nil {
		return err
	}
	defer unlock()
	for _, other := range outdated {
		if waiting, err := w.folder.read(other.Name); waiting != nil || err != nil {
			continue // it learns the names when it is settled
		}
		if err := w.folder.write(&pending{Node: *other, Since: time.Now().UTC(), Refresh: true}); err != nil {
			return err
		}
	}
	return nil
}
