package node

import (
	"context"
	"errors"
	"io/fs"

	"patchbay/inventory/local/cgroup"
)

// PlaceGateway puts a process of the gateway in a group of its own, under limits.
func (h *Host) PlaceGateway(pid int, l Limits) error { return h.place(gatewayGroup, pid, l) }

// PlaceRelay puts a relay in the group of all relays, under limits for all of
// them together.
func (h *Host) PlaceRelay(pid int, l Limits) error { return h.place(relayGroup, pid, l) }

func (h *Host) place(group string, pid int, l Limits) error {
	h.placing.Lock()
	defer h.placing.Unlock()
	limits := cgroup.Limits{CPUs: l.CPUs, Memory: l.Memory, PIDs: l.PIDs}
	place := func() error {
		err := h.tree.Make(group, limits)
		if errors.Is(err, fs.ErrExist) {
			err = h.tree.Update(group, limits)
		}
		return err
	}
	err := place()
	if errors.Is(err, fs.ErrNotExist) {
		// Close removed half of it while the last process was ending.
		h.tree.RemoveEmpty(group)
		err = place()
	}
	if err != nil {
		return err
	}
	return h.tree.Join(group, pid)
}

// removeEmpty removes the groups beside those of nodes, unless a process lives on
// in them.
func (h *Host) removeEmpty() {
	for _, group := range []string{gatewayGroup, relayGroup} {
		h.tree.RemoveEmpty(group)
	}
}

// EndPlaced ends all processes that PlaceGateway and PlaceRelay placed, and
// removes their groups.
func (h *Host) EndPlaced(ctx context.Context) error {
	var err error
	for _, group := range []string{gatewayGroup, relayGroup} {
		err = errors.Join(err, h.tree.Kill(ctx, group), h.tree.Remove(ctx, group))
	}
	return err
}
