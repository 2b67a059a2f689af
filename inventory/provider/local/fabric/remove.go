package fabric

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"patchbay/inventory/provider/local/netspace"
)

// RemoveLinks removes links with their interfaces in nodes. Missing links are no error.
// One call for many links is faster than many calls, because it lists all devices only
// once.
func (h *Host) RemoveLinks(ctx context.Context, slice string, links ...string) error {
	s, unlock, err := h.lockSlice(ctx, slice)
	if err != nil {
		return err
	}
	defer unlock()
	there, err := s.open(false)
	if err != nil || !there {
		return err
	}
	have, err := s.net.devices()
	if err != nil {
		return err
	}
	var gone []string
	unwanted := make(map[string]bool, len(links))
	for _, link := range links {
		if s.manager != nil {
			if err := s.manager.RemoveLink(ctx, link); err != nil {
				return err
			}
		}
		gone = append(gone, s.links[link].portsWithout(nil)...)
		delete(s.links, link)
		unwanted[link] = true
	}
	if err := s.limitInflow(nil, gone); err != nil {
		return err
	}
	return h.removeDevices(s, have, func(d device) bool {
		link, _, ok := strings.Cut(d.alias, " ")
		return ok && unwanted[link]
	})
}

// Links returns the sorted ids of all links that have devices. It also finds links that an
// earlier process of the testbed created.
func (h *Host) Links(ctx context.Context, slice string) ([]string, error) {
	s, unlock, err := h.lockSlice(ctx, slice)
	if err != nil {
		return nil, err
	}
	defer unlock()
	there, err := s.open(false)
	if err != nil || !there {
		return nil, err
	}
	have, err := s.net.devices()
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for _, d := range have {
		if name, _, ok := strings.Cut(d.alias, " "); ok {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// RemoveNetwork removes the network of a slice with all links. When it returns, they no
// longer exist. A missing network is no error.
func (h *Host) RemoveNetwork(ctx context.Context, slice string) error {
	s, unlock, err := h.lockSlice(ctx, slice)
	if err != nil {
		return err
	}
	defer unlock()
	there, err := s.open(false)
	if err != nil {
		return err
	}
	if there {
		// One request for all devices is the fastest way. Otherwise the vswitch would
		// close one TAP after the other, and the other devices would exist as long as a
		// process has the namespace open.
		if err := s.net.clear(); err != nil {
			return err
		}
	}
	if s.manager != nil {
		if err := s.manager.Close(); err != nil {
			return err
		}
		s.manager = nil
	}
	clear(s.links)
	h.vswitchEnded(slice) // also removes the limits of a switch process that an earlier process started
	return errors.Join(s.close(), netspace.Remove(s.path), h.removeUnusedShared())
}

func taps(link string, have map[string]device) (list []device) {
	for _, d := range have {
		if strings.HasPrefix(d.name, kindTAP) && ofLink(d.alias, link) {
			list = append(list, d)
		}
	}
	return list
}

// removeDevices removes the devices in have for which unwanted returns true, and then shared VLANs without
// members.
func (h *Host) removeDevices(s *slice, have map[string]device, unwanted func(device) bool) error {
	var list []device
	shared := false
	for _, d := range have {
		if unwanted(d) {
			list = append(list, d)
			shared = shared || strings.HasPrefix(d.name, kindUplink)
		}
	}
	if err := s.net.remove(list); err != nil {
		return err
	}
	for _, d := range list {
		for _, m := range s.links {
			delete(m.shaped, d.name)
		}
	}
	if shared {
		return h.removeUnusedShared()
	}
	return nil
}
