package vswitch

import (
	"cmp"
	"fmt"
	"slices"
)

// plan is a Link as the switch process receives it.
type plan struct {
	ID    string
	Ports []plannedPort
	Paths []Path
	// Headers means that the frames of all ports have a header; else none has.
	Headers bool
}

// plannedPort is a Port without its device.
type plannedPort struct {
	ID  string
	MTU int
}

// configure changes the switch to a plan that check has accepted. Ports that remain keep their
// counters. If no port is removed, learned addresses and frames in flight on unchanged paths
// remain.
func (l *lan) configure(p plan, s *chunkPool) {
	old := make(map[string]*port)
	for _, o := range l.ports {
		old[o.id] = o
	}
	var stay, fresh []*port
	for _, n := range p.Ports {
		if o := old[n.ID]; o != nil {
			stay = append(stay, o)
		} else {
			fresh = append(fresh, &port{id: n.ID})
		}
	}
	allPortsStay := len(stay) == len(l.ports)
	// If no port is removed, all keep their numbers, which the table and the frames in flight contain.
	slices.SortFunc(stay, func(a, b *port) int { return cmp.Compare(a.number, b.number) })
	ports := append(stay, fresh...)
	numbers := make(map[string]int, len(ports))
	for i, n := range ports {
		numbers[n.id] = i
	}
	paths, pathOf := l.makePaths(p.Paths, numbers, s)
	kept := make(map[string]*path) // whose frames in flight remain, by key
	if allPortsStay && l.header == headerOf(p) {
		for _, o := range l.paths {
			kept[o.key] = o
		}
	} else {
		l.table = newTable()
	}
	for _, o := range l.paths {
		l.schedule.remove(o)
	}
	for _, n := range paths {
		if o := kept[n.key]; o != nil {
			n.takeQueue(o)
			delete(kept, n.key)
		}
	}
	for _, o := range l.paths {
		o.queue.empty()
	}
	for i, n := range ports {
		n.number = uint16(i)
	}
	for _, n := range p.Ports {
		ports[numbers[n.ID]].mtu = n.MTU
	}
	l.ports, l.paths, l.pathOf, l.header = ports, paths, pathOf, headerOf(p)
	for _, n := range paths {
		l.schedule.update(n)
	}
}

func headerOf(p plan) int {
	if p.Headers {
		return headerSize
	}
	return 0
}

// takeQueue requires that previous is an equal path.
func (p *path) takeQueue(previous *path) {
	p.busy, p.remainder, p.last = previous.busy, previous.remainder, previous.last
	p.queue, previous.queue = previous.queue, queue{pool: previous.queue.pool}
}

// makePaths returns in pathOf the path of each pair of ports, by the numbers of source and
// destination. The parameter numbers holds the ports' numbers by id.
func (l *lan) makePaths(planned []Path, numbers map[string]int, s *chunkPool) (paths []*path, pathOf [][]*path) {
	pathOf = make([][]*path, len(numbers))
	if len(planned) == 0 {
		none := make([]*path, len(numbers))
		for i := range pathOf {
			pathOf[i] = none
		}
		return nil, pathOf
	}
	all := make([]int, len(numbers))
	for i := range pathOf {
		pathOf[i], all[i] = make([]*path, len(numbers)), i
	}
	list := func(ids []string) []int {
		if len(ids) == 0 {
			return all
		}
		list := make([]int, len(ids))
		for i, id := range ids {
			list[i] = numbers[id]
		}
		return list
	}
	for _, p := range planned {
		key := fmt.Sprintf("%q %q %d %v %d", p.From, p.To, p.Delay, p.Loss, p.Rate)
		paths = append(paths, &path{lan: l, delay: int64(p.Delay), loss: p.Loss, rate: p.Rate, key: key, at: -1, queue: queue{pool: s}})
	}
	// The most specific paths come first: listed counts whether a path lists its sources and its destinations.
	for listed := 2; listed >= 0; listed-- {
		for i, p := range planned {
			if min(1, len(p.From))+min(1, len(p.To)) != listed {
				continue
			}
			to := list(p.To)
			for _, f := range list(p.From) {
				for _, t := range to {
					if pathOf[f][t] == nil && f != t {
						pathOf[f][t] = paths[i]
					}
				}
			}
		}
	}
	return paths, pathOf
}
