package binder

import (
	"slices"

	"patchbay/inventory"
)

// groupKey is equal for groups of equal nodes.
type groupKey struct {
	demand
	size int
}

// colocated are nodes of a request that share one host.
type colocated []*node

// eachClassHas reports whether c is of the class of each node.
func (g colocated) eachClassHas(c *inventory.Component) bool {
	return !slices.ContainsFunc(g, func(n *node) bool { return !n.class().has(c) })
}

// want returns what the nodes need together on c.
func (g colocated) want(c *inventory.Component) want {
	w := want{within: g[0].within}
	for _, n := range g {
		w.amount = w.amount.Add(n.amountOn(c))
		w.nodes++
		w.alone = w.alone || n.alone
		w.traffic = w.traffic.add(n.traffic)
	}
	return w
}

// bindGroup puts the nodes of g on one host, or refuses them all. It leaves out their preferences, and then takes later options
// of theirs, if no host has room otherwise.
func (b *binding) bindGroup(name string, g colocated) {
	i, ok := b.hostFor(g)
	if !ok && b.leaveOutPreferences(g) {
		i, ok = b.hostFor(g)
	}
	if !ok {
		i, ok = b.hostForOthers(g)
	}
	forbidden := !ok && b.permitPrevents(g[0], len(g), g.want, g.eachClassHas)
	for _, n := range g {
		switch {
		case ok:
			b.assign(n, i)
		case forbidden:
			b.refuseForbidden(n)
		default:
			b.refuseGroup(n, name, len(g))
		}
	}
}

// hostForOthers returns a host on which the nodes fit with the second, or third, option of each and
// so on. If there is none, they keep their options.
func (b *binding) hostForOthers(g colocated) (i int32, ok bool) {
	was := make([]option, len(g))
	for k, n := range g {
		was[k] = n.option()
	}
	for hasMore := true; hasMore && !b.work.isOver(); {
		hasMore = false
		for _, n := range g {
			if len(n.options) > 1 {
				hasMore, n.options = true, n.options[1:]
				n.use(n.options[0])
			}
		}
		if hasMore {
			if i, ok = b.hostFor(g); ok {
				return i, true
			}
		}
	}
	for k, n := range g {
		n.use(was[k])
	}
	return 0, false
}

// leaveOutPreferences makes the nodes of g require only what they must have. It returns false if none of them
// has preferences.
func (b *binding) leaveOutPreferences(g colocated) bool {
	if !slices.ContainsFunc(g, func(n *node) bool { return len(n.Node.Prefer) > 0 }) {
		return false
	}
	for _, n := range g {
		n.matching = b.requiredOnly(n)
	}
	return true
}

// hostFor returns the best shared component on which the nodes fit together. Groups of equal nodes share one
// list of hosts.
func (b *binding) hostFor(g colocated) (i int32, ok bool) {
	k := groupKey{g[0].demand(), len(g)}
	areEqual := !slices.ContainsFunc(g, func(n *node) bool { return n.demand() != k.demand })
	hosts := b.groups[k]
	if hosts == nil || !areEqual {
		hosts = b.hostsOf(g)
		if areEqual {
			b.groups[k] = hosts
		}
	}
	return hosts.nextFitting(b.work, 2*len(g), func(i int32) bool { return b.check(i, g.want(b.x.inv.Components[i])) == fits })
}

// hostsOf returns the shared components on which the nodes fit together.
func (b *binding) hostsOf(g colocated) *candidates {
	shared := b.baseOf(g[0].demand()).shared
	var all []run
	for j, i := range shared {
		if !b.work.add(6 * len(g)) {
			break
		}
		c := b.x.inv.Components[i]
		if !g.eachClassHas(c) || b.check(i, g.want(c)) != fits {
			continue
		}
		r := run{members: shared[j : j+1], use: b.preference(i, g.want(c))}
		for _, n := range g {
			if n.matching != nil {
				r.score += n.matching.of(c).grant.Score
			}
		}
		all = append(all, r)
	}
	return &candidates{lists: &lists{b.sortRuns(all)}}
}
