package fabric

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"patchbay/inventory/local/netspace"
)

// RemoveLinks takes links away, also out of the nodes. It is no error when there are none.
// The devices are listed once for all of them.
func (h *Host) RemoveLinks(ctx context.Context, slice string, links ...string) error {
	s, unlock, err := h.take(ctx, slice)
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
		if s.keeper != nil {
			if err := s.keeper.RemoveLink(ctx, link); err != nil {
				return err
			}
		}
		gone = append(gone, s.links[link].without(nil)...)
		delete(s.links, link)
		unwanted[link] = true
	}
	if err := s.bound(nil, gone); err != nil {
		return err
	}
	return h.removeDevices(s, have, func(d device) bool {
		link, _, ok := strings.Cut(d.alias, " ")
		return ok && unwanted[link]
	})
}

// Links are the ids of links of which there is something, sorted; after a crash
// also of those that were not put again.
func (h *Host) Links(ctx context.Context, slice string) ([]string, error) {
	s, unlock, err := h.take(ctx, slice)
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

// RemoveNetwork takes away the network of a slice with all links, and is back when
// nothing of it is left. It is no error when there is none.
func (h *Host) RemoveNetwork(ctx context.Context, slice string) error {
	s, unlock, err := h.take(ctx, slice)
	if err != nil {
		return err
	}
	defer unlock()
	there, err := s.open(false)
	if err != nil {
		return err
	}
	if there {
		// All of it is removed here and not left to the namespace, which dies
		// when the kernel finds the time, and not while somebody has it open; nor
		// to the relay, which would close one TAP after the other.
		if err := s.net.clear(); err != nil {
			return err
		}
	}
	if s.keeper != nil {
		if err := s.keeper.Close(); err != nil {
			return err
		}
		s.keeper = nil
	}
	clear(s.links)
	h.left(slice) // also after a crash, which nobody else has seen
	return errors.Join(s.close(), netspace.Remove(s.path), h.tidyShared())
}

// taps are the devices of the relay that a link has.
func taps(link string, have map[string]device) (list []device) {
	for _, d := range have {
		if strings.HasPrefix(d.name, kindTAP) && ofLink(d.alias, link) {
			list = append(list, d)
		}
	}
	return list
}

// removeDevices removes those of the devices that are not wanted, and shared
// VLANs that nobody is left in.
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
		return h.tidyShared()
	}
	return nil
}
