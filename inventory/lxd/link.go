package lxd

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"patchbay/inventory/provider"
)

// linkMTU is the MTU of links. VXLAN takes 50 bytes of the members' network.
const linkMTU = 1450

// chooseBridges returns a bridge for each link of the interfaces: the one that the link has, or a
// free one. all has the interfaces of all nodes.
func (w *worker) chooseBridges(ctx context.Context, mine []iface, existing []instance, all ends) (map[string]string, error) {
	maps.DeleteFunc(w.bridges, func(link, _ string) bool { return len(all[link]) == 0 }) // its nodes are gone
	used := map[string]string{}                                                          // link by bridge
	byLink := map[string]string{}
	for link, bridge := range w.bridges {
		used[bridge], byLink[link] = link, bridge
	}
	for i := range existing {
		for link, bridge := range existing[i].facts().Bridges {
			used[bridge], byLink[link] = link, bridge
			delete(w.bridges, link) // the cluster knows it now
		}
	}
	var pool []bridge
	chosen := map[string]string{}
	for _, i := range mine {
		link := i.linkKey()
		if link == "" || chosen[link] != "" {
			continue
		}
		if byLink[link] != "" {
			chosen[link] = byLink[link]
			continue
		}
		if pool == nil {
			var err error
			if pool, err = w.client.bridges(ctx); err != nil {
				return nil, err
			}
		}
		for _, b := range pool {
			if used[b.Name] == "" && len(b.UsedBy) == 0 {
				chosen[link] = b.Name
				break
			}
		}
		if chosen[link] == "" {
			return nil, fmt.Errorf("the cluster has %d bridges for links, and all are in use", len(pool))
		}
		used[chosen[link]], byLink[link], w.bridges[link] = link, chosen[link], chosen[link]
	}
	return chosen, nil
}

// limitLinks makes the other ends of the node's links receive no more than the node may send.
func (w *worker) limitLinks(ctx context.Context, n *node) error {
	mine, err := n.interfaces()
	if err != nil {
		return err
	}
	links := map[string]bool{}
	limited := false
	for _, i := range mine {
		if links[i.linkKey()] = true; len(i.Properties) > 0 {
			limited = true
		}
	}
	if !limited {
		return nil
	}
	existing, err := w.client.instances(ctx)
	if err != nil {
		return err
	}
	nodes, err := w.nodes(existing)
	if err != nil {
		return err
	}
	all := endsOf(nodes)
	for k := range existing {
		i := &existing[k]
		other := i.node()
		if other == nil {
			continue
		}
		theirs, err := other.interfaces()
		if err != nil {
			continue
		}
		changed := map[string]map[string]string{}
		for _, to := range theirs {
			d := i.Devices[to.name]
			if !links[to.linkKey()] || to.linkKey() == "" || d == nil {
				continue
			}
			limit, err := all.ingress(&to)
			if err != nil {
				return err
			}
			if d["limits.ingress"] != limit {
				d = maps.Clone(d)
				d["limits.ingress"] = limit
				changed[to.name] = d
			}
		}
		if len(changed) == 0 {
			continue
		}
		if err := w.client.patch(ctx, i.Name, nil, changed); err != nil && !isStatus(err, http.StatusNotFound) {
			return fmt.Errorf("the capacity of a link cannot be set: %w", err)
		}
	}
	return nil
}

// ends are the interfaces of all nodes, by iface.linkKey.
type ends map[string][]iface

func endsOf(nodes map[string]*node) ends {
	e := ends{}
	for _, n := range nodes {
		all, err := n.interfaces()
		if err != nil {
			continue // it is refused elsewhere
		}
		for _, i := range all {
			if key := i.linkKey(); key != "" {
				e[key] = append(e[key], i)
			}
		}
	}
	return e
}

// check refuses a link whose properties differ where one mechanism makes them for all.
func (e ends) check(key string) error {
	for _, end := range e[key] {
		if _, err := e.ingress(&end); err != nil {
			return err
		}
		if p, err := end.netem(); err != nil || p == (netem{}) {
			continue
		}
		for _, to := range e[key] {
			if p, named := end.to(to.ClientID); to.node != end.node && (!named || p.netem() == (netem{})) {
				return end.differs("latency or packet_loss", "the receivers of one interface")
			}
		}
	}
	return nil
}

// ingress returns what an interface may receive, for the key limits.ingress. The cluster limits what
// an interface receives from all others together, so all must have the same capacity towards it.
func (e ends) ingress(to *iface) (limit string, err error) {
	first, kbits := true, int64(0)
	for _, from := range e[to.linkKey()] {
		if from.node == to.node {
			continue
		}
		p, _ := from.to(to.ClientID)
		if !first && p.Capacity != kbits {
			return "", to.differs("capacity", "the senders to one interface")
		}
		first, kbits = false, p.Capacity
	}
	if kbits > 0 {
		limit = strconv.FormatInt(kbits, 10) + "kbit"
	}
	return limit, nil
}

func (i *iface) differs(properties, between string) error {
	return refusal{provider.Unsupported, fmt.Sprintf("link %.80s asks for %s that differs between %s, which cannot be made here", i.Link, properties, between)}
}

// to returns the properties of frames to another interface. The result named means that an item is about
// them.
func (i *iface) to(clientID string) (p property, named bool) {
	for _, q := range i.Properties {
		if slices.Contains(q.To, clientID) {
			return q, true
		}
		if len(q.To) == 0 {
			p, named = q, true
		}
	}
	return p, named
}

// netem describes how a node delays and loses the frames that it sends, to all receivers alike.
type netem struct {
	delay time.Duration
	loss  float64 // of a hundred frames
}

func (p *property) netem() netem {
	return netem{time.Duration(p.Latency * float64(time.Millisecond)), p.PacketLoss}
}

// netem returns an error if the properties differ.
func (i *iface) netem() (n netem, err error) {
	for k, p := range i.Properties {
		if k > 0 && p.netem() != n {
			return n, i.differs("latency or packet_loss", "the receivers of one interface")
		}
		n = p.netem()
	}
	return n, nil
}
