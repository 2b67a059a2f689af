package fabric

import (
	"context"
	"slices"

	"patchbay/inventory/provider/local/vswitch"
)

// SetLink creates a link, or changes an existing one, and returns the emulator that makes
// the link. Attached ends stay attached. Ends that the link no longer has are removed.
// After an interruption at any point, SetLink can be repeated. It returns an
// *UnsupportedError if this host cannot make the link.
func (h *Host) SetLink(ctx context.Context, l Link) (emulator string, err error) {
	if err := l.check(); err != nil {
		return "", err
	}
	p, err := decide(l, h.features, h.options.Emulator)
	if err != nil {
		return "", err
	}
	s, unlock, err := h.lockSlice(ctx, l.Slice)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := s.open(true); err != nil {
		return "", err
	}
	l.Ends, l.Shapes = slices.Clone(l.Ends), nil
	if err := h.makeLink(ctx, s, &made{link: l, plan: p, shaped: make(map[string]shaper)}); err != nil {
		return "", err
	}
	return p.emulator, nil
}

// makeLink makes the link m, or changes the link of that name to m. It first creates the devices, then
// moves the ports to them, and last removes the devices that are no longer needed.
func (h *Host) makeLink(ctx context.Context, s *slice, m *made) error {
	have, err := s.net.devices()
	if err != nil {
		return err
	}
	before := s.links[m.link.Name]
	if before != nil {
		m.shaped = before.shaped
	}
	wanted := make(map[string]bool)
	if err := s.makeBridges(m, have, wanted); err != nil {
		return err
	}
	if m.link.Shared != "" {
		wanted[m.device(kindUplink, uplink)] = true
		if err := h.joinShared(s, m); err != nil {
			return err
		}
	}
	if m.plan.vswitch {
		if err := h.setVSwitchLink(ctx, s, m, before, have); err != nil {
			return err
		}
	}
	for i, e := range m.link.Ends {
		name := m.device(kindPort, e.ID)
		wanted[name] = true
		if p, ok := have[name]; ok {
			if err := s.placePort(m, i, p); err != nil {
				return err
			}
		}
	}
	s.links[m.link.Name] = m
	if err := s.limitInflow(m, before.portsWithout(m)); err != nil {
		return err
	}
	if !m.plan.vswitch && s.manager != nil {
		if err := s.manager.RemoveLink(ctx, m.link.Name); err != nil {
			return err
		}
	}
	return h.removeDevices(s, have, func(d device) bool { return ofLink(d.alias, m.link.Name) && !wanted[d.name] })
}

func (m *made) device(kind, end string) string { return deviceName(kind, m.link.Name, end) }

func (m *made) parent(i int) string {
	if m.plan.vswitch || m.plan.ports[i].split {
		return m.device(kindOwn, m.id(i))
	}
	return m.device(kindBridge, "")
}

// id returns uplink for the shared VLAN's port.
func (m *made) id(i int) string {
	if i == len(m.link.Ends) {
		return uplink
	}
	return m.link.Ends[i].ID
}

// hostMTU returns the MTU of the devices on the host for the port. For the shared VLAN's port it is the
// largest of all ends.
func (m *made) hostMTU(i int) int {
	if i < len(m.link.Ends) {
		return m.link.Ends[i].hostMTU()
	}
	most := 0
	for j := range m.link.Ends {
		most = max(most, m.hostMTU(j))
	}
	return most
}

func (m *made) shaper(i int) shaper {
	p := m.plan.ports[i]
	return shaper{rate: p.tbf, delay: p.netem.delay, loss: p.netem.loss, mtu: m.hostMTU(i)}
}

// makeBridges creates the missing bridges of the link, and the pairs of devices that split segments. It adds to
// needed the name of each device that the link needs. existing holds the slice's devices by name.
func (s *slice) makeBridges(m *made, existing map[string]device, needed map[string]bool) error {
	bridge := func(name, end string) (int, error) {
		needed[name] = true
		if d, ok := existing[name]; ok {
			return d.index, nil
		}
		return s.net.bridge(name, alias(m.link.Name, end))
	}
	middle := 0
	if !m.plan.vswitch {
		var err error
		if middle, err = bridge(m.device(kindBridge, ""), ""); err != nil {
			return err
		}
	}
	for i, p := range m.plan.ports {
		if !m.plan.vswitch && !p.split {
			continue
		}
		own, err := bridge(m.device(kindOwn, m.id(i)), m.id(i))
		if err != nil {
			return err
		}
		if !p.split {
			needed[m.device(kindTAP, m.id(i))] = true
			continue
		}
		name := m.device(kindCut, m.id(i))
		needed[name] = true
		if _, ok := existing[name]; ok {
			continue
		}
		first := s.joining(m, i, 0, middle, m.device(kindBridge, ""))
		second := s.joining(m, i, 0, own, m.device(kindOwn, m.id(i)))
		if err := s.net.segmentBetween(name, m.device(kindCutEnd, m.id(i)), m.hostMTU(i), first, second); err != nil {
			return err
		}
	}
	return nil
}

// placePort shapes the device p of port i, and adds p to its bridge. It skips steps that
// are already done.
func (s *slice) placePort(m *made, i int, p device) error {
	master, err := s.net.mustDevice(m.parent(i))
	if err != nil {
		return err
	}
	known := m.knows(p.name)
	if want := m.shaper(i); !known || m.shaped[p.name] != want {
		delete(m.shaped, p.name)
		if err := s.net.shape(p.index, want); err != nil {
			return err
		}
		m.shaped[p.name] = want
	}
	if known && p.master == master.index && p.alias != "" {
		return nil
	}
	return s.net.join(s.joining(m, i, p.index, master.index, master.name))
}

// joining returns how a device of port i joins one of the link's bridges. index is the
// interface index of the device, master that of the bridge.
func (s *slice) joining(m *made, i, index, master int, bridge string) joining {
	j := joining{index: index, master: master, alias: alias(m.link.Name, m.id(i))}
	switch middle := bridge == m.device(kindBridge, ""); {
	case !middle:
		j.noLearning = true
	case !s.limitsLearning:
		j.noLearning = true
		if i < len(m.link.Ends) {
			j.mac = m.link.Ends[i].MAC
		}
	}
	return j
}

// knows reports whether this process has set the shaping of a port.
func (m *made) knows(name string) bool {
	_, ok := m.shaped[name]
	return ok
}

func (h *Host) vswitchOptions(slice string) vswitch.Options {
	o := h.options.VSwitch
	if h.options.SetLimits != nil {
		o.SetLimits = func(pid int) error { return h.options.SetLimits(slice, pid) }
	}
	o.Ended = func() { h.vswitchEnded(slice) }
	return o
}

func (h *Host) vswitchEnded(slice string) {
	if h.options.Ended == nil {
		return
	}
	if err := h.options.Ended(slice); err != nil {
		h.options.Log.Warn("cannot remove the limits of a switch process; they are removed after the slice's next switch process", "slice", slice, "error", err)
	}
}

// setVSwitchLink adds or changes the link in the slice's vswitch, which opens the TAPs. before is the previous
// link or nil, and have holds the slice's devices by name.
func (h *Host) setVSwitchLink(ctx context.Context, s *slice, m, before *made, have map[string]device) error {
	if before == nil || !before.plan.vswitch || before.plan.segment != m.plan.segment {
		// The vswitch opens new TAPs. Existing TAPs belong to an earlier process or are
		// of another kind.
		if err := s.net.remove(taps(m.link.Name, have)); err != nil {
			return err
		}
	}
	if s.manager == nil {
		s.manager = vswitch.New(h.vswitchOptions(s.name))
	}
	l := vswitch.Link{ID: m.link.Name, Paths: m.plan.paths}
	for i := range m.plan.ports {
		l.Ports = append(l.Ports, vswitch.Port{ID: m.id(i), Open: s.net.tap(m, i), MTU: m.hostMTU(i)})
	}
	return s.manager.SetLink(ctx, l)
}
