package binder

import (
	"time"

	"patchbay/am"
	"patchbay/inventory"
)

// peaks finds the most that slivers hold at one time of shared components and of physical
// interfaces. The sum of all holds in an interval is more if some of them begin later, since
// others may have ended by then.
type peaks struct {
	from time.Time
	// components and ports are those with a hold that begins later.
	components map[*inventory.Component][]am.Hold
	ports      map[*inventory.Interface][]am.Hold
}

func newPeaks(from time.Time) *peaks {
	return &peaks{from, map[*inventory.Component][]am.Hold{}, map[*inventory.Interface][]am.Hold{}}
}

func (p *peaks) noteComponent(c *inventory.Component, h *am.Hold) {
	if !c.Exclusive && h.From.After(p.from) {
		p.components[c] = nil
	}
}

func (p *peaks) notePort(i *inventory.Interface, h *am.Hold) {
	if h.From.After(p.from) {
		p.ports[i] = nil
	}
}

func (p *peaks) isEmpty() bool { return len(p.components)+len(p.ports) == 0 }

// lowerToPeaks replaces the sums for the resources in p by the most that is held at one time.
func (x *occupancy) lowerToPeaks(p *peaks, v *View, until time.Time, mine am.Hash) error {
	for c := range p.components {
		p.components[c] = make([]am.Hold, 0, x.usage[c.Index].slivers)
	}
	for i := range p.ports {
		p.ports[i] = make([]am.Hold, 0, x.network.ports[i.Index].users)
	}
	err := v.Calendar(func(h *am.Hold) bool {
		if !h.Overlaps(p.from, until, v.Now) {
			return true
		}
		kept := *h // h and its list are used again for the next hold
		kept.Interfaces = nil
		c := x.componentOf(h)
		if list, ok := p.components[c]; ok {
			p.components[c] = append(list, kept)
		}
		for i := range h.Interfaces {
			port := x.interfaceOf(&h.Interfaces[i], c)
			if list, ok := p.ports[port]; ok {
				kept.Interfaces = []am.InterfaceHold{h.Interfaces[i]}
				p.ports[port] = append(list, kept)
			}
		}
		return true
	})
	for c, list := range p.components {
		var u, most usage
		count := func(sign int64) func(*am.Hold) { return func(h *am.Hold) { u.add(h, h.Slice == mine, sign) } }
		am.Sweep(list, p.from, v.Now, count(1), count(-1), func(time.Time) bool { most = most.max(&u); return true })
		x.usage[c.Index] = most
	}
	for i, list := range p.ports {
		var sum, most port
		count := func(sign int64) func(*am.Hold) { return func(h *am.Hold) { sum.add(&h.Interfaces[0], sign) } }
		am.Sweep(list, p.from, v.Now, count(1), count(-1), func(time.Time) bool {
			most = port{max(most.out, sum.out), max(most.in, sum.in), max(most.users, sum.users)}
			return true
		})
		x.network.ports[i.Index] = most
	}
	return err
}

func (u usage) max(o *usage) usage {
	most := func(a, b am.Amount) am.Amount {
		return am.Amount{Slots: max(a.Slots, b.Slots), Cores: max(a.Cores, b.Cores), GPUs: max(a.GPUs, b.GPUs), Memory: max(a.Memory, b.Memory), Disk: max(a.Disk, b.Disk)}
	}
	return usage{
		most(u.used, o.used), most(u.cleaningUsed, o.cleaningUsed),
		max(u.slivers, o.slivers), max(u.cleaning, o.cleaning),
		max(u.exclusive, o.exclusive), max(u.cleaningExclusive, o.cleaningExclusive),
		max(u.others, o.others), max(u.othersCleaning, o.othersCleaning),
		max(u.othersExclusive, o.othersExclusive), max(u.othersCleaningExclusive, o.othersCleaningExclusive),
	}
}
