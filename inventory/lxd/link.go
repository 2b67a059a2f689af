package lxd

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"patchbay/inventory/provider"
)

// linkMTU is the MTU of links. VXLAN takes 50 bytes of the members' network.
const linkMTU = 1450

// chooseBridges returns a bridge for each link of the interfaces: the one that the link has, or a
// free one.
func (w *worker) chooseBridges(ctx context.Context, mine []iface, existing []instance) (map[string]string, error) {
	used := map[string]string{} // link by bridge
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
	var all []bridge
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
		if all == nil {
			var err error
			if all, err = w.client.bridges(ctx); err != nil {
				return nil, err
			}
		}
		for _, b := range all {
			if used[b.Name] == "" && len(b.UsedBy) == 0 {
				chosen[link] = b.Name
				break
			}
		}
		if chosen[link] == "" {
			return nil, fmt.Errorf("the cluster has %d bridges for links, and all are in use", len(all))
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
		limits, err := ingress(other, nodes)
		if err != nil {
			return err
		}
		changed := map[string]map[string]string{}
		for _, to := range theirs {
			d := i.Devices[to.name]
			if !links[to.linkKey()] || to.linkKey() == "" || d == nil {
				continue
			}
			limit := ""
			if c := limits[to.ClientID]; c > 0 {
				limit = kilobits(c)
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

func kilobits(n int64) string { return strconv.FormatInt(n, 10) + "kbit" }

// ingress returns for each interface of n, by its client_id, the capacity in kbit/s of what it may
// receive, or 0 for no limit. The cluster limits what an interface receives from all others
// together, so all must have the same capacity towards it.
func ingress(n *node, others map[string]*node) (map[string]int64, error) {
	mine, err := n.interfaces()
	if err != nil {
		return nil, err
	}
	limit := map[string]int64{}
	for _, to := range mine {
		if to.linkKey() == "" {
			continue
		}
		first := true
		for name, other := range others {
			if name == n.Name {
				continue
			}
			theirs, err := other.interfaces()
			if err != nil {
				continue
			}
			for _, from := range theirs {
				if from.linkKey() != to.linkKey() {
					continue
				}
				c := from.capacityTo(to.ClientID)
				if !first && c != limit[to.ClientID] {
					return nil, refusal{provider.Unsupported, fmt.Sprintf("link %.80s asks for capacity that differs between the senders to one interface, which cannot be made here", to.Link)}
				}
				first, limit[to.ClientID] = false, c
			}
		}
	}
	return limit, nil
}

func (i *iface) capacityTo(clientID string) (kbits int64) {
	for _, p := range i.Properties {
		if slices.Contains(p.To, clientID) {
			return p.Capacity
		}
		if len(p.To) == 0 {
			kbits = p.Capacity
		}
	}
	return kbits
}
