package fabric

import (
	"context"

	"github.com/vishvananda/netlink"
)

// Counters returns the counters of a slice's attached ends, by the end's id. The
// counters of a new interface start at zero. A change of the link resets Dropped,
// except for the frames over the inflow limit. The counts of these frames and Overruns
// are kept while the link has the end.
func (h *Host) Counters(ctx context.Context, slice string) (map[string]Counters, error) {
	s, unlock, err := h.lockSlice(ctx, slice)
	if err != nil {
		return nil, err
	}
	defer unlock()
	there, err := s.open(false)
	if err != nil || !there {
		return nil, err
	}
	list, err := s.net.links()
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*netlink.LinkAttrs, len(list))
	for _, l := range list {
		byName[l.Attrs().Name] = l.Attrs()
	}
	dropped, err := s.dropped(ctx, byName)
	if err != nil {
		return nil, err
	}
	m := make(map[string]Counters)
	for _, l := range s.links {
		for _, e := range l.link.Ends {
			name := l.device(kindPort, e.ID)
			a := byName[name]
			if a == nil || a.Statistics == nil {
				continue
			}
			c := Counters{
				RxPackets: a.Statistics.TxPackets, RxBytes: a.Statistics.TxBytes,
				TxPackets: a.Statistics.RxPackets, TxBytes: a.Statistics.RxBytes,
				Dropped: dropped[name],
			}
			// A TAP drops frames when its queue is full, because the vswitch does not read
			// them in time.
			if tap := byName[l.device(kindTAP, e.ID)]; tap != nil && tap.Statistics != nil {
				c.Overruns = tap.Statistics.TxDropped
			}
			m[e.ID] = c
		}
	}
	return m, nil
}

// dropped returns the number of dropped packets of each port, by the name of its
// device. Shaping, the inflow limit and the vswitch drop packets.
func (s *slice) dropped(ctx context.Context, byName map[string]*netlink.LinkAttrs) (map[string]uint64, error) {
	m := make(map[string]uint64)
	shapes := false
	for _, l := range s.links {
		for _, p := range l.plan.ports {
			shapes = shapes || p.tbf != 0 || p.netem != properties{}
		}
	}
	if shapes {
		names := make(map[int]string, len(byName))
		for name, a := range byName {
			names[a.Index] = name
		}
		list, err := s.net.queues()
		if err != nil {
			return nil, err
		}
		for _, q := range list {
			// A parent's counter includes the drops of its children.
			if a := q.Attrs(); a.Statistics != nil && a.Statistics.Queue != nil && a.Parent == netlink.HANDLE_ROOT {
				m[names[a.LinkIndex]] += uint64(a.Statistics.Queue.Drops)
			}
		}
	}
	if s.hasInflow {
		list, err := s.net.cutFrames()
		if err != nil {
			return nil, err
		}
		for name, n := range list {
			m[name] += n
		}
	}
	if s.manager != nil {
		links, err := s.manager.Counters(ctx)
		if err != nil {
			return nil, err
		}
		for _, l := range s.links {
			for _, e := range l.link.Ends {
				c := links[l.link.Name][e.ID]
				m[l.device(kindPort, e.ID)] += c.Lost + c.Full
			}
		}
	}
	return m, nil
}
